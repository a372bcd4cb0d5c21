//! Which servers a request is sent to, in which order and after which answers, on servers that are only imagined.
//!
//! The evaluation is [`Router::route`]; here is a [`Servers`] that answers by itself: those that are down refuse the
//! connection, the others have the key or not, and keep what the request does to it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use serde::Serialize;

use crate::config::Config;
use crate::reply::{Outcome, Reply};
use crate::request::{Kind, Operation, Request};
use crate::route::{Destination, RouteError, Router, Servers};

/// What is asked, and in which world.
#[derive(Debug, Clone)]
pub struct Question {
    /// The request; its value need not be real.
    pub request: Request,
    /// Servers that are down, as the configuration names them.
    pub down: BTreeSet<String>,
    /// Whether the other servers have the key.
    pub present: bool,
}

/// What happens to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// Every server that is turned to, in order.
    pub steps: Vec<Step>,
    /// What the client is answered, its lines joined by `|`.
    pub reply: String,
}

/// One server that is turned to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// `host:port`, as in the configuration.
    pub server: String,
    /// The pool it was picked from.
    pub pool: String,
    /// The line it is sent.
    pub command: String,
    /// Whether the client waits for its answer.
    pub waited: bool,
    /// Whether the server is up and sees the request.
    pub reached: bool,
    /// What it answers, its lines joined by `|`.
    pub answer: String,
}

/// Explains one request on servers that nobody has turned to yet.
///
/// # Errors
///
/// A configuration that cannot be evaluated.
pub fn explain(config: &Config, question: &Question) -> Result<Explanation, RouteError> {
    let router = Router::new(config)?;
    let servers = ImaginedServers::new(question.down.clone());
    Ok(servers.explain(&router, &question.request, question.present))
}

/// Servers that answer by themselves. Which of them the router has found to be down is kept from one request to the next.
#[derive(Clone)]
pub struct ImaginedServers {
    world: Arc<Mutex<World>>,
    waited: bool,
}

struct World {
    down: BTreeSet<String>,
    /// Servers that are down and have been turned to before.
    known_down: BTreeSet<String>,
    present: bool,
    /// What a request has made of the key, by server.
    items: BTreeMap<String, Option<Item>>,
    steps: Vec<Step>,
}

/// What a server holds under the one key that is asked for.
#[derive(Clone)]
struct Item {
    flags: u64,
    cas: u64,
    value: Vec<u8>,
}

impl ImaginedServers {
    /// Servers of which `down` are down, and nobody has turned to any of them.
    pub fn new(down: BTreeSet<String>) -> Self {
        let world = World {
            down,
            known_down: BTreeSet::new(),
            present: false,
            items: BTreeMap::new(),
            steps: Vec::new(),
        };
        Self {
            world: Arc::new(Mutex::new(world)),
            waited: true,
        }
    }

    /// Explains one request while all servers that are up have the key, or none has it. Servers that were found down
    /// before are known to be.
    pub fn explain(&self, router: &Router, request: &Request, present: bool) -> Explanation {
        {
            let mut world = self.world();
            world.present = present;
            world.items.clear();
            world.steps.clear();
        }
        // Nothing here ever waits, so that one poll is the whole route.
        let reply = router.route(self, request).now_or_never();
        let reply = reply.unwrap_or_else(|| Reply::error(Outcome::LocalError, "unanswered"));
        let mut bytes = reply.to_bytes(request);
        if request.operation.kind() == Kind::Get && reply.outcome.error_name().is_none() {
            bytes.extend_from_slice(b"END\r\n");
        }
        Explanation {
            steps: std::mem::take(&mut self.world().steps),
            reply: one_line(&bytes),
        }
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Servers for ImaginedServers {
    fn ask(&self, to: &Destination, request: &Request) -> impl Future<Output = Reply> + Send {
        let mut world = self.world();
        let (reached, reply) = world.answer(&to.server, request);
        world.steps.push(Step {
            server: to.server.clone(),
            pool: to.pool.clone(),
            command: request.line(),
            waited: self.waited,
            reached,
            answer: one_line(&reply.to_bytes(request)),
        });
        ready(reply)
    }

    fn background(&self, work: impl FnOnce(Self) -> BoxFuture<'static, ()>) {
        work(Self {
            waited: false,
            ..self.clone()
        })
        .now_or_never();
    }

    fn now(&self) -> i64 {
        0
    }
}

impl World {
    /// What `server` answers, and whether it saw the request at all.
    fn answer(&mut self, server: &str, request: &Request) -> (bool, Reply) {
        if self.known_down.contains(server) {
            let message = "Server unavailable. Reason: mc_res_connect_error";
            return (false, Reply::error(Outcome::Tko, message));
        }
        if self.down.contains(server) {
            self.known_down.insert(server.to_owned());
            let message = "AsyncSocketException: connect failed, type = Socket not open, \
                           errno = 111 (Connection refused)";
            return (false, Reply::error(Outcome::ConnectError, message));
        }
        let at_first = self.present.then(|| Item {
            flags: 1,
            cas: 1,
            value: b"10".to_vec(),
        });
        let item = self.items.entry(server.to_owned()).or_insert(at_first);
        (true, execute(request, item))
    }
}

/// What memcached does with the request, as far as the answer's kind goes.
fn execute(request: &Request, item: &mut Option<Item>) -> Reply {
    let stored = |item: &mut Option<Item>| {
        *item = Some(Item {
            flags: request.flags,
            cas: 2,
            value: request.value.clone(),
        });
        Reply::new(Outcome::Stored)
    };
    match (request.operation, item.as_mut()) {
        (Operation::Set | Operation::LeaseSet, _)
        | (Operation::Add, None)
        | (Operation::Replace, Some(_)) => stored(item),
        (Operation::Add, Some(_))
        | (Operation::Replace | Operation::Append | Operation::Prepend, None) => {
            Reply::new(Outcome::NotStored)
        }
        (Operation::Append | Operation::Prepend, Some(_)) => Reply::new(Outcome::Stored),
        (Operation::Cas, Some(found)) if found.cas == request.cas => stored(item),
        (Operation::Cas, Some(_)) => Reply::new(Outcome::Exists),
        (Operation::LeaseGet, None) => Reply {
            number: 1,
            ..Reply::new(Outcome::NotFound)
        },
        (Operation::Metaget, Some(_)) => {
            let key = String::from_utf8_lossy(&request.key);
            let line = format!("META {key} age: unknown; exptime: 0; from: unknown");
            Reply::error(Outcome::Found, line)
        }
        (
            Operation::Get
            | Operation::Gets
            | Operation::Gat
            | Operation::Gats
            | Operation::LeaseGet,
            Some(Item { flags, cas, value }),
        ) => Reply {
            flags: *flags,
            number: *cas,
            value: value.clone(),
            ..Reply::new(Outcome::Found)
        },
        (Operation::Incr | Operation::Decr, Some(found)) => count(request, found),
        (Operation::Delete, Some(_)) => {
            *item = None;
            Reply::new(Outcome::Deleted)
        }
        (Operation::Touch, Some(_)) => Reply::new(Outcome::Touched),
        (_, None) => Reply::new(Outcome::NotFound),
    }
}

fn count(request: &Request, found: &mut Item) -> Reply {
    let text = String::from_utf8_lossy(&found.value);
    let Ok(old) = text.trim_end().parse::<u64>() else {
        let message = "cannot increment or decrement non-numeric value";
        return Reply::error(Outcome::ClientError, message);
    };
    let number = match request.operation {
        Operation::Incr => old.wrapping_add(request.delta),
        _ => old.saturating_sub(request.delta),
    };
    found.value = number.to_string().into_bytes();
    Reply {
        number,
        ..Reply::new(Outcome::Stored)
    }
}

fn one_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim_end_matches("\r\n").replace("\r\n", "|")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r#"{"pools":{"a":{"servers":["a0:1","a1:1"]},"b":{"servers":["b0:1"]}},
        "route":{"type":"OperationSelectorRoute",
          "default_policy":{"type":"FailoverRoute","children":["PoolRoute|a","PoolRoute|b"]},
          "operation_policies":{"set":{"type":"AllInitialRoute","children":["PoolRoute|a","PoolRoute|b"]}}}}"#;

    fn explain_line(line: &str, down: &[&str], present: bool) -> Explanation {
        let config = Config::from_json(CONFIG).unwrap();
        let request = Request::parse_line(line.as_bytes())
            .unwrap()
            .requests
            .remove(0);
        let down = down.iter().map(ToString::to_string).collect();
        explain(
            &config,
            &Question {
                request,
                down,
                present,
            },
        )
        .unwrap()
    }

    fn servers(explanation: &Explanation) -> Vec<&str> {
        explanation
            .steps
            .iter()
            .map(|step| step.server.as_str())
            .collect()
    }

    #[test]
    fn a_miss_does_not_fail_over() {
        let explanation = explain_line("get k", &[], false);
        assert_eq!(explanation.steps.len(), 1);
        assert_eq!(explanation.reply, "END");
    }

    #[test]
    fn a_server_that_is_down_is_named_and_passed() {
        let explanation = explain_line("get k", &["a0:1", "a1:1"], true);
        assert_eq!(servers(&explanation).last(), Some(&"b0:1"));
        assert_eq!(explanation.steps.len(), 2);
        assert!(!explanation.steps[0].reached);
        assert_eq!(explanation.reply, "VALUE k 1 2|10|END");
    }

    #[test]
    fn the_second_child_of_all_initial_is_not_waited_for() {
        let explanation = explain_line("set k 0 0 1", &[], false);
        let waited: Vec<bool> = explanation.steps.iter().map(|step| step.waited).collect();
        assert_eq!(waited, [true, false]);
    }

    #[test]
    fn a_hash_over_routes_picks_as_a_pool_does_and_leaves_the_same_trace() {
        let pool = r#"{"pools":{"a":{"servers":["s0:1","s1:1","s2:1"]},
            "a.0":{"servers":["s0:1"]},"a.1":{"servers":["s1:1"]},"a.2":{"servers":["s2:1"]}},
            "route":{"type":"FailoverRoute","children":[PICK,"PoolRoute|a.0","PoolRoute|a.1","PoolRoute|a.2"],
              "failover_policy":{"type":"DeterministicOrderPolicy","max_tries":3,"max_error_tries":3}}}"#;
        let hash = r#"{"type":"HashRoute","hash_func":"Ch3","salt":"s",
            "children":["PoolRoute|a.0","PoolRoute|a.1","PoolRoute|a.2"]}"#;
        let same = r#"{"type":"PoolRoute","pool":"a","hash":{"hash_func":"Ch3","salt":"s"}}"#;
        let config = |pick| Config::from_json(&pool.replace("PICK", pick)).unwrap();
        let (by_hash, by_pool) = (config(hash), config(same));
        for number in 0..50 {
            let question = Question {
                request: Request::new(Operation::Get, format!("k{number}").into_bytes()),
                down: ["s0:1".to_owned(), "s1:1".to_owned()].into(),
                present: true,
            };
            let (one, other) = (
                explain(&by_hash, &question).unwrap(),
                explain(&by_pool, &question).unwrap(),
            );
            assert_eq!(servers(&one), servers(&other), "k{number}");
        }
    }
}
