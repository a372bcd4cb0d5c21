//! What the router answers about itself: `get __mcrouter__.<command>`, `stats` and `stats suspect_servers`.

use petra_routing::explain::ImaginedServers;
use petra_routing::{Operation, Outcome, Reply, Request};

use super::config_file::ConfigFile;
use super::destinations::{Destinations, Suspect};

const PREFIX: &str = "__mcrouter__.";

/// The answer to an admin key, `None` for any other key.
pub(super) fn answer(config: &ConfigFile, request: &Request) -> Option<Reply> {
    let key = std::str::from_utf8(&request.key)
        .ok()?
        .strip_prefix(PREFIX)?;
    if !matches!(request.operation, Operation::Get | Operation::Gets) {
        return Some(Reply::error(
            Outcome::ClientError,
            "admin keys can only be read",
        ));
    }
    let loaded = config.current();
    let (command, arguments) = key.split_once('(').unwrap_or((key, ""));
    let arguments: Vec<&str> = arguments.trim_end_matches(')').split(',').collect();
    let value = match (command, &arguments[..]) {
        ("version", _) => "mcrouter-stand-in".to_owned(),
        ("config_md5_digest", _) => loaded.digest.clone(),
        ("config_age", _) => loaded.since.elapsed().as_secs().to_string(),
        ("config_file", _) => config.path().display().to_string(),
        ("preprocessed_config", _) => loaded.text.clone(),
        ("route", [operation, key]) => match Operation::from_name(operation) {
            Some(operation) => servers(config, operation, key),
            None => return Some(unknown(&format!("route: unknown request {operation}"))),
        },
        _ => return Some(unknown(&format!("unknown command: {command}"))),
    };
    Some(Reply {
        value: value.into_bytes(),
        ..Reply::new(Outcome::Found)
    })
}

/// Servers that a request goes to while all of them are up, a line each.
fn servers(config: &ConfigFile, operation: Operation, key: &str) -> String {
    let request = Request::new(operation, key);
    let imagined = ImaginedServers::new(std::collections::BTreeSet::new());
    let explanation = imagined.explain(&config.current().router, &request, true);
    let servers: Vec<String> = explanation
        .steps
        .into_iter()
        .map(|step| step.server)
        .collect();
    servers.join("\r\n")
}

fn unknown(message: &str) -> Reply {
    Reply::error(Outcome::RemoteError, message)
}

/// Servers that have failed since they last answered, and whether they get no traffic for it, in mcrouter's words
/// (`stats_reply` in `stats.cpp`).
pub(super) fn suspect_servers(servers: &Destinations) -> Vec<u8> {
    let line = |suspect: &Suspect| {
        let status = if suspect.knocked_out { "tko" } else { "down" };
        let Suspect {
            server, failures, ..
        } = suspect;
        format!("STAT {server} status:{status} num_failures:{failures}\r\n")
    };
    let mut answer: String = servers.suspects().iter().map(line).collect();
    answer.push_str("END\r\n");
    answer.into_bytes()
}

/// The few figures of `stats` that tests and people look at.
pub(super) fn stats(config: &ConfigFile) -> Vec<u8> {
    let age = config.current().since.elapsed().as_secs();
    let failures = config.failures();
    format!(
        "STAT version mcrouter-stand-in\r\nSTAT pid {}\r\nSTAT config_age {age}\r\nSTAT config_failures {failures}\r\nEND\r\n",
        std::process::id()
    )
    .into_bytes()
}
