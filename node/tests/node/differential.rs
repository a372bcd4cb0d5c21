//! Random conversations, held with memcached and with a node: every byte of every answer is equal.
//!
//! A round is made from its number alone, so that one that fails can be held again. It is held command by command, each
//! followed by a command whose answer ends the answer; or in one go, up to the end of the connection, which is the way for
//! what leaves the server in the middle of something. `DIFFERENTIAL_ROUNDS` says how many rounds of each kind.
//!
//! cas values are equal too, because both servers count every change: before a round the one that is behind catches up.
//!
//! Not compared, because it must differ or is another test's:
//! - `version`, `stats` and what only operators say;
//! - `me` and the flag `l`: memcached updates an item's last access only from the second read on; `me` shows slab classes;
//! - the flag `t` where the expiry is absolute or has passed: memcached counts from its own start;
//! - what `differences.txt` shows: flags of 64 bits, lengths of more than 31, the time of a delete, leases and metaget,
//!   `ma` with T over a longer value, too long opaques of `mg` and `ma`, keys that cannot stand in a line;
//! - counters that get shorter while the answer to a get of them is on its way: memcached then does not pad them;
//! - counters from 2^63 on: memcached looks for a minus sign in them, also in what lies behind them in memory;
//! - gets with a key that is too long behind others: memcached has read, or touched, the others by then;
//! - answers in front of a frame or line that makes memcached close at once: they are lost there;
//! - binary commands that name a cas, with -C: memcached then stores over any version, a node over none;
//! - unknown binary commands with extras or a key: memcached skips these twice.

mod binary;
mod random;
mod text;

use std::fmt;
use std::io::Read;
use std::net::Shutdown;
use std::thread;
use std::time::Duration;

use crate::client::Client;
use crate::harness::{Memcached, Node};
use random::Random;

/// A second may begin between two commands at one server and not at the other. It will not do so each time.
const ATTEMPTS: u32 = 3;
const COMMANDS: usize = 60;

/// A command, and what it is made from.
struct Sent(Vec<u8>);

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.escape_ascii().to_string();
        write!(f, "{:.600}", shown)
    }
}

/// What a round is made of.
struct Round {
    random: Random,
    /// Different for each attempt, so that none sees what another left.
    prefix: String,
    /// The cas that the next change will have.
    cas: u64,
}

impl Round {
    /// One of a few keys.
    fn key(&mut self) -> String {
        format!("{}{}", self.prefix, self.random.of(&["a", "b", "c"]))
    }

    /// A cas that an item of this round may have.
    fn cas(&mut self) -> u64 {
        match self.random.below(6) {
            0 => self.random.of(&[0, 1, u64::MAX]),
            _ => self.cas + self.random.below(30),
        }
    }
}

/// How an encoding ends what it says.
struct Dialect {
    command: fn(&mut Round) -> Vec<u8>,
    /// Makes the server show that it has answered everything.
    sentinel: &'static [u8],
    sentinel_answer: &'static [u8],
}

struct Servers {
    _dir: tempfile::TempDir,
    memcached: Memcached,
    node: Node,
}

impl Servers {
    /// Both with `flags`.
    fn start(flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("temporary directory");
        let node = Node::start(dir.path(), flags);
        // Its own threads would hold items now and then, and counters that are held are not padded.
        let still = ["-o", "no_lru_crawler,no_lru_maintainer"];
        Self {
            _dir: dir,
            memcached: Memcached::start_with(&[&still[..], flags].concat()),
            node,
        }
    }

    fn connect(&self) -> [Client; 2] {
        [Client::connect(self.memcached.addr), self.node.connect()]
    }

    /// Makes both servers give the same cas to the next change, and says which.
    fn level(&self) -> u64 {
        let [mut memcached, mut node] = self.connect();
        let mut last = [next_cas(&mut memcached), next_cas(&mut node)];
        while last[0] != last[1] {
            if last[0] < last[1] {
                last[0] = next_cas(&mut memcached);
            } else {
                last[1] = next_cas(&mut node);
            }
        }
        last[0] + 1
    }

    fn round(&self, number: u64, attempt: u32) -> Round {
        Round {
            random: Random::new(number),
            prefix: format!("{number:x}-{attempt}-"),
            cas: self.level(),
        }
    }
}

fn next_cas(client: &mut Client) -> u64 {
    let answer = client.ask("ms level 1 c\r\nx");
    let cas = answer.strip_prefix("HD c").expect("a cas");
    cas.parse().expect("a number")
}

fn rounds() -> u64 {
    match std::env::var("DIFFERENTIAL_ROUNDS") {
        Ok(rounds) => rounds.parse().expect("DIFFERENTIAL_ROUNDS is a number"),
        Err(_) => 100,
    }
}

/// Holds rounds until one of them differs at every attempt.
fn hold_rounds(flags: &[&str], hold: impl Fn(&Servers, u64, u32) -> Result<(), String>) {
    let servers = Servers::start(flags);
    for number in 0..rounds() {
        let mut outcome = Ok(());
        for attempt in 0..ATTEMPTS {
            outcome = hold(&servers, number, attempt);
            if outcome.is_ok() {
                break;
            }
        }
        if let Err(difference) = outcome {
            panic!("round {number}: {difference}");
        }
    }
}

/// One command after the other, each answered before the next.
fn hold_command_by_command(
    servers: &Servers,
    number: u64,
    attempt: u32,
    dialect: &Dialect,
) -> Result<(), String> {
    let mut round = servers.round(number, attempt);
    let mut clients = servers.connect();
    let mut history = String::new();
    for _ in 0..COMMANDS {
        let sent = (dialect.command)(&mut round);
        let bytes = [&sent, dialect.sentinel].concat();
        let answers = clients
            .each_mut()
            .map(|client| answer_up_to(client, &bytes, dialect.sentinel_answer));
        history.push_str(&format!("\n  {}", Sent(sent)));
        compare(&history, &answers)?;
        if !answers[0].ends_with(dialect.sentinel_answer) {
            clients = servers.connect();
        }
    }
    Ok(())
}

/// Everything that is answered until the server has come to `end`, or closes.
fn answer_up_to(client: &mut Client, sent: &[u8], end: &[u8]) -> Vec<u8> {
    let mut answer = Vec::new();
    if client.try_send(sent).is_err() {
        return answer;
    }
    let mut buffer = [0; 16 << 10];
    while !answer.ends_with(end) {
        match client.stream().read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&buffer[..count]),
            // A server that closes with unread input resets the connection.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("no answer to {}: {error}", sent.escape_ascii()),
        }
    }
    answer
}

/// Everything at once, up to the end of the connection.
fn hold_in_one_go(servers: &Servers, number: u64, attempt: u32) -> Result<(), String> {
    let mut round = servers.round(number, attempt);
    let commands: Vec<_> = (0..COMMANDS).map(|_| text::broken(&mut round)).collect();
    // What was announced and has not come is lost with the answers before it, unless something comes.
    let all = [commands.concat(), b"\r\n".repeat(40), b"mn\r\n".to_vec()].concat();
    let answers = servers.connect().map(|mut client| {
        client.send(&all);
        client
            .stream()
            .shutdown(Shutdown::Write)
            .expect("half closed");
        client.rest()
    });
    let history: Vec<_> = commands
        .into_iter()
        .map(|sent| Sent(sent).to_string())
        .collect();
    compare(&history.join("\n  "), &answers)
}

fn compare(history: &str, [memcached, node]: &[Vec<u8>; 2]) -> Result<(), String> {
    if memcached == node {
        return Ok(());
    }
    let common = memcached
        .iter()
        .zip(node)
        .take_while(|(a, b)| a == b)
        .count();
    let (memcached, node) = (memcached.escape_ascii(), node.escape_ascii());
    Err(format!(
        "{history}\n  memcached: {memcached}\n  node:      {node}\n  equal up to byte {common}"
    ))
}

#[test]
fn text_and_meta_commands_are_answered_as_memcached_answers_them() {
    hold_rounds(&[], |servers, number, attempt| {
        hold_command_by_command(servers, number, attempt, &text::DIALECT)
    });
}

#[test]
fn without_cas_commands_are_answered_as_memcached_answers_them() {
    hold_rounds(&["-C"], |servers, number, attempt| {
        hold_command_by_command(servers, number, attempt, &text::DIALECT)
    });
}

#[test]
fn statistics_per_prefix_are_those_of_memcached() {
    hold_rounds(&["-D", "-"], |servers, number, attempt| {
        for mut client in servers.connect() {
            assert_eq!(client.ask("stats reset"), "RESET");
        }
        hold_command_by_command(servers, number, attempt, &text::DIALECT)?;
        let details = servers.connect().map(|mut client| {
            client.send(b"stats detail dump\r\nquit\r\n");
            String::from_utf8(client.rest()).expect("text")
        });
        // memcached counts an empty prefix as any other that happens to lie in the same place of its table.
        if details[0].contains("PREFIX  ") || details[1].contains("PREFIX  ") {
            return Ok(());
        }
        compare("stats detail dump", &details.map(String::into_bytes))
    });
}

#[test]
fn binary_commands_are_answered_as_memcached_answers_them() {
    hold_rounds(&[], |servers, number, attempt| {
        hold_command_by_command(servers, number, attempt, &binary::DIALECT)
    });
}

#[test]
fn broken_lines_are_answered_as_memcached_answers_them() {
    hold_rounds(&[], hold_in_one_go);
}

/// All rounds wait together: first what is said before, then, three seconds later, what is said after.
#[test]
fn what_has_expired_is_gone_when_it_is_gone_from_memcached() {
    for attempt in 0..ATTEMPTS {
        let outcome = hold_with_a_wait(attempt);
        match outcome {
            Ok(()) => return,
            Err(difference) if attempt + 1 == ATTEMPTS => panic!("{difference}"),
            Err(_) => {}
        }
    }
}

fn hold_with_a_wait(attempt: u32) -> Result<(), String> {
    let servers = Servers::start(&[]);
    let half = |number: u64| {
        let mut round = servers.round(number, attempt);
        let mut clients = servers.connect();
        let mut history = String::new();
        for _ in 0..COMMANDS / 2 {
            let sent = text::timed(&mut round);
            let bytes = [&sent, text::DIALECT.sentinel].concat();
            let answers = clients
                .each_mut()
                .map(|client| answer_up_to(client, &bytes, text::DIALECT.sentinel_answer));
            history.push_str(&format!("\n  {}", Sent(sent)));
            compare(&history, &answers)?;
        }
        Ok(())
    };
    (0..rounds()).try_for_each(half)?;
    // What lives for two seconds is gone by then, and what lives for 100 is not, wherever the seconds begin.
    thread::sleep(Duration::from_millis(3100));
    (0..rounds()).try_for_each(half)
}
