//! No client. Which servers a request for a key goes to, for people: by a cluster's file or by any mcrouter.json.

use std::collections::BTreeSet;
use std::fmt::Write;

use petra_routing::explain::Step;
use petra_routing::{Config, Explanation, Operation, Question, Request};
use serde::Serialize;

use crate::controller::validate::{InvalidSpec, Settings};
use crate::crd::PetraCluster;
use crate::render;

/// Why nothing can be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The spec cannot be built.
    #[error(transparent)]
    Invalid(#[from] InvalidSpec),
    /// Not an operation of memcached.
    #[error("operation {name:?} is not known: use one of {known}")]
    Operation {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// No such server.
    #[error("no server starts with {name:?}: the servers are\n  {}", .servers.join("\n  "))]
    NoServer {
        /// What was asked for.
        name: String,
        /// What there is.
        servers: Vec<String>,
    },
    /// Too many such servers.
    #[error("more than one server starts with {name:?}: write more of one of\n  {}", .servers.join("\n  "))]
    ManyServers {
        /// What was asked for.
        name: String,
        /// What it could mean.
        servers: Vec<String>,
    },
    /// The configuration cannot be evaluated.
    #[error("the configuration cannot be evaluated: {0}")]
    Route(String),
}

/// What to explain.
#[derive(Debug, Clone)]
pub struct Query {
    /// The key.
    pub key: String,
    /// Name of the operation.
    pub operation: String,
    /// Servers that are down: full names, or as much of them as is unique.
    pub down: Vec<String>,
    /// Whether no server has the key.
    pub absent: bool,
}

/// What happens to a request, with what it was.
#[derive(Debug, Clone, Serialize)]
pub struct Answer {
    /// The operation.
    pub operation: String,
    /// The key.
    pub key: String,
    /// Servers that were taken to be down.
    pub down: Vec<String>,
    /// What happens.
    #[serde(flatten)]
    pub explanation: Explanation,
}

/// The configuration that the routers of `region` have, or those of the first region that is built here.
///
/// # Errors
///
/// The spec cannot be built, or does not have the region.
pub fn config_of(
    cluster: &PetraCluster,
    region: Option<&str>,
    settings: &Settings,
) -> Result<Config, InvalidSpec> {
    let by_region = Settings {
        region: region.map(str::to_owned),
        ..settings.clone()
    };
    let everywhere = Settings {
        region: None,
        ..settings.clone()
    };
    // Whoever builds all regions in one Kubernetes cluster has no `remote`, and may still ask for one region's view.
    let built = match render::regions(cluster, &by_region) {
        Err(InvalidSpec::RemoteMissing(_)) => render::regions(cluster, &everywhere)?,
        other => other?,
    };
    let view = built
        .into_iter()
        .find(|built| region.is_none_or(|region| built.region == region));
    view.map(|built| built.config)
        .ok_or(InvalidSpec::NothingToBuild)
}

/// Answers `query`.
///
/// # Errors
///
/// The query names something that does not exist, or the configuration cannot be evaluated.
pub fn answer(config: &Config, query: &Query) -> Result<Answer, ExplainError> {
    let operation =
        Operation::from_name(&query.operation).ok_or_else(|| ExplainError::Operation {
            name: query.operation.clone(),
            known: Operation::ALL.map(Operation::name).join(", "),
        })?;
    let servers = config.servers();
    let down = query
        .down
        .iter()
        .map(|name| find_server(&servers, name))
        .collect::<Result<BTreeSet<_>, _>>()?;
    let question = Question {
        request: Request::new(operation, query.key.as_bytes()),
        down: down.clone(),
        present: !query.absent,
    };
    let explanation = petra_routing::explain(config, &question)
        .map_err(|error| ExplainError::Route(error.to_string()))?;
    Ok(Answer {
        operation: operation.name().to_owned(),
        key: query.key.clone(),
        down: down.into_iter().collect(),
        explanation,
    })
}

impl Answer {
    /// The answer as lines to read.
    pub fn to_text(&self) -> String {
        let mut text = format!("{} {}\n", self.operation, self.key);
        for (index, step) in self.explanation.steps.iter().enumerate() {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{:>3}. {}  (pool {}) {}",
                index + 1,
                step.server,
                step.pool,
                describe(step)
            );
        }
        let _ = writeln!(text, "client gets: {}", self.explanation.reply);
        text
    }
}

fn describe(step: &Step) -> String {
    match (step.reached, step.waited) {
        (false, true) => "is down".to_owned(),
        (false, false) => "is down, nobody waits for it".to_owned(),
        (true, true) => format!("is waited for: {}", step.answer),
        (true, false) => "is sent the request, nobody waits for it".to_owned(),
    }
}

/// The one server that `name` means. A whole pod name beats a longer one that begins with it: `c-r-1` is not `c-r-10`.
fn find_server(servers: &[String], name: &str) -> Result<String, ExplainError> {
    let starting = |also: &dyn Fn(&str) -> bool| -> Vec<String> {
        let means = |server: &&String| server.strip_prefix(name).is_some_and(also);
        servers.iter().filter(means).cloned().collect()
    };
    let whole = starting(&|rest| rest.is_empty() || rest.starts_with(['.', ':']));
    let candidates = if whole.is_empty() {
        starting(&|_| true)
    } else {
        whole
    };
    match &candidates[..] {
        [server] => Ok(server.clone()),
        [] => Err(ExplainError::NoServer {
            name: name.to_owned(),
            servers: servers.to_vec(),
        }),
        _ => Err(ExplainError::ManyServers {
            name: name.to_owned(),
            servers: candidates,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_found_by_as_much_of_its_name_as_is_unique() {
        let servers = ["c-r-1.c-r.ns.:1", "c-r-10.c-r.ns.:1", "d-r-0.d-r.ns.:1"].map(str::to_owned);
        for (name, found) in [
            ("c-r-1", 0),
            ("c-r-10", 1),
            ("d", 2),
            ("c-r-1.c-r.ns.:1", 0),
        ] {
            assert_eq!(
                find_server(&servers, name).unwrap(),
                servers[found],
                "{name}"
            );
        }
        let many = find_server(&servers, "c").unwrap_err().to_string();
        assert!(
            many.contains("c-r-1.c-r") && many.contains("c-r-10.c-r") && !many.contains("d-r-0"),
            "{many}"
        );
        let none = find_server(&servers, "x").unwrap_err().to_string();
        assert!(none.contains("d-r-0"), "{none}");
    }

    #[test]
    fn an_unknown_operation_is_answered_with_the_known_ones() {
        let query = Query {
            key: "k".into(),
            operation: "fetch".into(),
            down: Vec::new(),
            absent: false,
        };
        let error = answer(&Config::default(), &query).unwrap_err().to_string();
        assert!(error.contains("lease-get"), "{error}");
    }
}
