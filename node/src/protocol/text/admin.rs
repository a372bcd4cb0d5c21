//! Commands about the server: not those about items, nor `stats`.
//!
//! Owns their arguments. Those that only tune memcached's inside are understood and answered as it answers.

use super::super::request::{Control, Dump, ShutdownMode, Topics};
use super::super::response::Refusal;
use super::number;

/// memcached takes no longer pause between two items of its crawler, in microseconds.
const MAX_CRAWLER_SLEEP: u64 = 1_000_000;

/// memcached takes no smaller limit, in megabytes.
const MIN_MEMORY_LIMIT: u64 = 8;

/// The command in `words`, `None` when there is none like it.
pub(super) fn parse(words: &[&[u8]]) -> Result<Option<Control>, Refusal> {
    Ok(Some(match *words {
        [b"shutdown"] => Control::Shutdown(ShutdownMode::Now),
        [b"shutdown", b"graceful"] => Control::Shutdown(ShutdownMode::Graceful),
        [b"shutdown", ..] => Control::Shutdown(ShutdownMode::Unknown),
        [b"refresh_certs", ..] => Control::RefreshCerts,
        [b"watch", ref topics @ ..] => Control::Watch(watched(topics)?),
        [b"lru_crawler", ref arguments @ ..] => crawler(arguments)?,
        [b"lru", b"mode" | b"tune" | b"temp_ttl", _, ..] => Control::Tune,
        [b"slabs", b"automove", level] | [b"slabs", b"automove", level, _] => {
            number::unsigned(level).ok_or(Refusal::BadCommandLine)?;
            Control::Tune
        }
        [b"cache_memlimit", megabytes] | [b"cache_memlimit", megabytes, _] => {
            return Err(match number::unsigned(megabytes) {
                None => Refusal::UnknownCommand,
                Some(megabytes) if megabytes < MIN_MEMORY_LIMIT => Refusal::MemoryLimitTooSmall,
                // The memory is divided once, at the start.
                Some(_) => Refusal::MemoryLimitFixed,
            });
        }
        _ => return Ok(None),
    }))
}

fn watched(words: &[&[u8]]) -> Result<Topics, Refusal> {
    if words.is_empty() {
        return Ok(Topics::FETCHERS);
    }
    words.iter().try_fold(Topics::NONE, |topics, word| {
        let topic = Topics::named(word).ok_or(Refusal::UnknownCommand)?;
        Ok(topics.with(topic))
    })
}

fn crawler(arguments: &[&[u8]]) -> Result<Control, Refusal> {
    let number = |text| number::unsigned(text).ok_or(Refusal::BadCommandLine);
    match *arguments {
        [b"metadump", classes] => Ok(Control::Dump(Dump::Meta, has_items(classes)?)),
        [b"mgdump", classes] => Ok(Control::Dump(Dump::Keys, has_items(classes)?)),
        [b"crawl", classes] => has_items(classes).map(|_| Control::Tune),
        [b"tocrawl", items] => number(items).map(|_| Control::Tune),
        [b"sleep", pause] if number(pause)? > MAX_CRAWLER_SLEEP => Err(Refusal::BadCrawlerSleep),
        [b"sleep", _] | [b"enable"] | [b"disable"] => Ok(Control::Tune),
        _ => Err(Refusal::UnknownCommand),
    }
}

/// All items are of class 1; memcached has 63.
fn has_items(classes: &[u8]) -> Result<bool, Refusal> {
    if matches!(classes, b"all" | b"hash") {
        return Ok(true);
    }
    let mut found = false;
    for class in classes.split(|byte| *byte == b',') {
        match number::unsigned(class) {
            Some(class @ 1..64) => found |= class == 1,
            _ => return Err(Refusal::BadClass),
        }
    }
    Ok(found)
}
