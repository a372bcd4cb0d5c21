//! The evaluation of routes against 2,000 requests that went through a real mcrouter.
//!
//! `data/routes.json` holds the configurations, which servers were down, the requests, which servers were asked in which
//! order, and mcrouter's answers. Each group of cases began with a fresh router, so that the first request to a server
//! that is down meets a refused connection and later ones a server that is known to be down.

use std::collections::{BTreeMap, BTreeSet};

use petra_routing::explain::{Explanation, ImaginedServers};
use petra_routing::{Config, Request, Router};
use serde::Deserialize;

#[derive(Deserialize)]
struct Recording {
    servers: BTreeMap<String, String>,
    configs: BTreeMap<String, Config>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    config: String,
    down: BTreeSet<String>,
    key_present: String,
    request: String,
    asked: Vec<(String, String)>,
    reply: String,
}

#[test]
fn agrees_with_every_recorded_request() {
    let recording: Recording = serde_json::from_str(include_str!("data/routes.json")).unwrap();
    let name_of: BTreeMap<&str, &str> = recording
        .servers
        .iter()
        .map(|(name, address)| (address.as_str(), name.as_str()))
        .collect();
    let mut failures = Vec::new();
    let mut compared = 0;
    let same_group = |a: &Case, b: &Case| (&a.config, &a.down) == (&b.config, &b.down);
    for group in recording.cases.chunk_by(same_group) {
        let router = Router::new(&recording.configs[&group[0].config]).unwrap();
        let down = group[0]
            .down
            .iter()
            .map(|name| recording.servers[name].clone())
            .collect();
        let servers = ImaginedServers::new(down);
        for case in group {
            let explanation = servers.explain(
                &router,
                &request(&case.request),
                case.key_present == "everywhere",
            );
            compared += 1;
            if asked(&explanation, &name_of) != sorted(&case.asked)
                || explanation.reply != case.reply
            {
                failures.push(format!(
                    "{} without {:?}, key {}: {}\n  recorded {:?} {}\n  explained {:?} {}",
                    case.config,
                    case.down,
                    case.key_present,
                    case.request,
                    case.asked,
                    case.reply,
                    explanation.steps,
                    explanation.reply,
                ));
            }
        }
    }
    assert_eq!(compared, 2000);
    assert!(
        failures.is_empty(),
        "{} differ:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// Without background work and work at the same time, the order is part of the recording.
#[test]
fn agrees_on_the_order_of_failover() {
    let recording: Recording = serde_json::from_str(include_str!("data/routes.json")).unwrap();
    let config = &recording.configs["in-pool-deterministic"];
    let cases: Vec<&Case> = recording
        .cases
        .iter()
        .filter(|case| case.config == "in-pool-deterministic")
        .collect();
    assert_eq!(cases.len(), 400);
    for case in cases {
        let router = Router::new(config).unwrap();
        let down = case
            .down
            .iter()
            .map(|name| recording.servers[name].clone())
            .collect();
        let servers = ImaginedServers::new(down);
        let explanation = servers.explain(
            &router,
            &request(&case.request),
            case.key_present == "everywhere",
        );
        let reached: Vec<&str> = explanation
            .steps
            .iter()
            .filter(|step| step.reached)
            .map(|step| step.server.as_str())
            .collect();
        let recorded: Vec<&str> = case
            .asked
            .iter()
            .map(|(name, _)| recording.servers[name].as_str())
            .collect();
        assert_eq!(
            reached, recorded,
            "{} without {:?}",
            case.request, case.down
        );
    }
}

fn request(recorded: &str) -> Request {
    let (line, value) = recorded
        .rsplit_once('|')
        .filter(|_| is_write(recorded))
        .unwrap_or((recorded, ""));
    let mut request = Request::parse_line(line.as_bytes())
        .expect(recorded)
        .requests
        .remove(0);
    request.value = value.as_bytes().to_vec();
    request
}

/// A key may hold a `|` too; only a write has a data block after the last one.
fn is_write(recorded: &str) -> bool {
    ["set ", "add ", "append ", "cas "]
        .iter()
        .any(|name| recorded.starts_with(name))
}

fn asked(explanation: &Explanation, name_of: &BTreeMap<&str, &str>) -> Vec<(String, String)> {
    let reached = explanation.steps.iter().filter(|step| step.reached);
    let asked: Vec<(String, String)> = reached
        .map(|step| {
            (
                name_of[step.server.as_str()].to_owned(),
                step.command.clone(),
            )
        })
        .collect();
    sorted(&asked)
}

fn sorted(asked: &[(String, String)]) -> Vec<(String, String)> {
    let mut asked = asked.to_vec();
    asked.sort();
    asked
}
