//! What the generated configurations do, by the evaluation that agrees with mcrouter's.

use std::collections::{BTreeMap, BTreeSet};

use petra_routing::explain::ImaginedServers;
use petra_routing::{Explanation, Operation, Question, Request, Router, check, explain};
use proptest::prelude::*;

use super::*;
use crate::controller::validate::{Settings, validate};
use crate::crd::PetraCluster;

mod warming;

const THREE_REGIONS: &str = "{replicas: 3, regions: [{name: m}, {name: a}, {name: z}]}";

fn config_for(spec: &str, own: &str) -> Config {
    let cluster = PetraCluster::new("c", serde_saphyr::from_str(spec).unwrap());
    let settings = Settings {
        router_image: Some("r".to_owned()),
        ..Settings::default()
    };
    let cluster = validate(&cluster, &settings).unwrap();
    let own = cluster
        .regions
        .iter()
        .find(|region| region.names.region == own)
        .unwrap();
    config(&cluster, own, &Layouts::new())
}

fn ask(config: &Config, operation: Operation, key: &str, down: &[&str]) -> Explanation {
    let down = config
        .servers()
        .into_iter()
        .filter(|server| down.contains(&short(server)))
        .collect();
    let request = Request::new(operation, key.as_bytes());
    explain(
        config,
        &Question {
            request,
            down,
            present: true,
        },
    )
    .unwrap()
}

/// `region-ordinal`
fn short(server: &str) -> &str {
    let pod = server.split('.').next().unwrap_or_default();
    pod.strip_prefix("c-").unwrap_or(pod)
}

fn reached(explanation: &Explanation) -> Vec<&str> {
    explanation
        .steps
        .iter()
        .filter(|step| step.reached)
        .map(|step| short(&step.server))
        .collect()
}

/// The node of `region` that has `key` when all is well.
fn owner(config: &Config, region: &str, key: &str) -> String {
    let servers = servers(config, region);
    let index = petra_routing::ch3::ch3(key.as_bytes(), servers.len());
    short(&servers[index]).to_owned()
}

#[test]
fn every_choice_gives_a_configuration_without_problems() {
    let choices = [
        "{}",
        "{reads: {policy: local}}",
        "{reads: {policy: local, failover: false}}",
        "{writes: {policy: allSync}, deletes: {policy: allInitial}}",
        "{writes: {policy: primaryOnly}}",
        "{poolFailover: {enabled: false}}",
        "{hash: {salt: pepper}}",
    ];
    for routing in choices {
        for regions in [
            "[{name: m}]",
            "[{name: m}, {name: a}]",
            "[{name: m}, {name: a}, {name: z}]",
        ] {
            for replicas in [1, 2, 5] {
                let spec =
                    format!("{{replicas: {replicas}, regions: {regions}, routing: {routing}}}");
                let config = config_for(&spec, "m");
                assert_eq!(check(&config), Vec::<String>::new(), "{spec}");
                assert_eq!(
                    Config::from_json(&config.to_json()).unwrap(),
                    config,
                    "{spec}"
                );
            }
        }
    }
}

#[test]
fn equal_specs_give_equal_bytes() {
    assert_eq!(
        config_for(THREE_REGIONS, "a").to_json(),
        config_for(THREE_REGIONS, "a").to_json()
    );
    assert!(config_for(THREE_REGIONS, "a").to_json().ends_with("}\n"));
}

#[test]
fn a_healthy_get_asks_only_the_owner_in_the_primary() {
    let config = config_for(THREE_REGIONS, "a");
    for key in ["k1", "k2", "user:42"] {
        for operation in [
            Operation::Get,
            Operation::Gets,
            Operation::Add,
            Operation::Incr,
        ] {
            assert_eq!(
                reached(&ask(&config, operation, key, &[])),
                [owner(&config, "m", key)],
                "{key}"
            );
        }
    }
}

#[test]
fn a_dead_owner_is_replaced_by_another_node_of_its_region() {
    let config = config_for(THREE_REGIONS, "m");
    for key in ["k1", "k2", "user:42"] {
        let owner = owner(&config, "m", key);
        let explanation = ask(&config, Operation::Get, key, &[&owner]);
        let reached = reached(&explanation);
        assert!(
            matches!(reached[..], [other] if other.starts_with("m-") && other != owner),
            "{explanation:?}"
        );
    }
}

#[test]
fn a_dead_region_is_replaced_by_the_next_in_order_of_the_list() {
    let config = config_for(THREE_REGIONS, "m");
    let m = ["m-0", "m-1", "m-2"];
    let both = ["m-0", "m-1", "m-2", "a-0", "a-1", "a-2"];
    for operation in [Operation::Get, Operation::Incr] {
        assert_eq!(
            reached(&ask(&config, operation, "k", &m)),
            [owner(&config, "a", "k")]
        );
        assert_eq!(
            reached(&ask(&config, operation, "k", &both)),
            [owner(&config, "z", "k")]
        );
    }
}

#[test]
fn without_read_failover_a_dead_region_is_an_error() {
    let spec =
        "{replicas: 2, regions: [{name: m}, {name: a}], routing: {reads: {failover: false}}}";
    let explanation = ask(&config_for(spec, "m"), Operation::Get, "k", &["m-0", "m-1"]);
    assert_eq!(reached(&explanation), Vec::<&str>::new());
    assert!(
        explanation.reply.starts_with("SERVER_ERROR"),
        "{explanation:?}"
    );
}

#[test]
fn local_reads_start_in_the_routers_region_and_cas_tokens_come_from_the_primary() {
    let spec = "{replicas: 3, regions: [{name: m}, {name: a}], routing: {reads: {policy: local}}}";
    let config = config_for(spec, "a");
    for operation in [
        Operation::Get,
        Operation::Gat,
        Operation::Metaget,
        Operation::LeaseGet,
        Operation::LeaseSet,
    ] {
        assert_eq!(
            reached(&ask(&config, operation, "k", &[])),
            [owner(&config, "a", "k")],
            "{operation:?}"
        );
    }
    for operation in [Operation::Gets, Operation::Gats, Operation::Cas] {
        assert_eq!(
            reached(&ask(&config, operation, "k", &[])),
            [owner(&config, "m", "k")],
            "{operation:?}"
        );
    }
    let away = ask(&config, Operation::Get, "k", &["a-0", "a-1", "a-2"]);
    assert_eq!(reached(&away), [owner(&config, "m", "k")]);
}

#[test]
fn set_and_touch_reach_every_region_and_wait_for_the_primary() {
    let config = config_for(THREE_REGIONS, "z");
    for operation in [Operation::Set, Operation::Touch] {
        let explanation = ask(&config, operation, "k", &[]);
        let owners = ["m", "a", "z"].map(|region| owner(&config, region, "k"));
        assert_eq!(reached(&explanation), owners, "{operation:?}");
        let waited: Vec<bool> = explanation.steps.iter().map(|step| step.waited).collect();
        assert_eq!(waited, [true, false, false], "{operation:?}");
    }
}

#[test]
fn write_policies_change_who_is_waited_for() {
    let with = |policy: &str| {
        let spec = format!(
            "{{replicas: 2, regions: [{{name: m}}, {{name: a}}], routing: {{writes: {{policy: {policy}}}}}}}"
        );
        ask(&config_for(&spec, "m"), Operation::Set, "k", &[])
    };
    let all = with("allSync");
    assert!(
        all.steps.len() == 2 && all.steps.iter().all(|step| step.waited),
        "{all:?}"
    );
    assert_eq!(with("primaryOnly").steps.len(), 1);
}

#[test]
fn a_dead_node_is_no_error_for_set() {
    let config = config_for(THREE_REGIONS, "m");
    let owner = owner(&config, "m", "k");
    let explanation = ask(&config, Operation::Set, "k", &[&owner]);
    assert_eq!(explanation.reply, "STORED");
}

#[test]
fn a_stand_in_keeps_what_is_set_for_a_short_time_only() {
    let config = config_for(THREE_REGIONS, "m");
    let owner = owner(&config, "m", "k");
    let explanation = ask(&config, Operation::Set, "k", &[&owner]);
    let stand_in = explanation
        .steps
        .iter()
        .find(|step| step.reached && step.server.contains("c-m-"))
        .unwrap();
    assert!(stand_in.command.contains(" 60 "), "{stand_in:?}");
    let own = ask(&config, Operation::Set, "k", &[]);
    assert!(own.steps[0].command.contains(" 0 "), "{own:?}");
}

#[test]
fn delete_reaches_every_region_and_reports_a_failure() {
    let config = config_for(THREE_REGIONS, "m");
    let explanation = ask(&config, Operation::Delete, "k", &[]);
    assert_eq!(reached(&explanation).len(), 3);
    assert!(explanation.steps.iter().all(|step| step.waited));
    assert_eq!(explanation.reply, "DELETED");
    for region in ["m", "a", "z"] {
        let down = owner(&config, region, "k");
        let explanation = ask(&config, Operation::Delete, "k", &[&down]);
        assert_eq!(reached(&explanation).len(), 2, "{region}");
        assert!(
            explanation.reply.starts_with("SERVER_ERROR"),
            "{region}: {explanation:?}"
        );
    }
}

#[test]
fn timeouts_are_those_of_the_distance() {
    let config = config_for(THREE_REGIONS, "a");
    for (pool, timeout) in [("a", 200), ("a.0", 200), ("m", 600), ("m.2", 600)] {
        assert_eq!(config.pools[pool].server_timeout, Some(timeout), "{pool}");
        assert_eq!(config.pools[pool].connect_timeout, Some(100), "{pool}");
    }
}

#[test]
fn the_largest_cluster_of_two_regions_fits_in_a_config_map() {
    let spec =
        "{replicas: 100, regions: [{name: abcdefghijklmnopqrst}, {name: abcdefghijklmnopqrsu}]}";
    let bytes = config_for(spec, "abcdefghijklmnopqrst").to_json().len();
    assert!(bytes < 1_000_000, "{bytes} bytes");
}

/// Which node of the one region serves each key, while `down` are down; none for keys that no node serves.
fn served(router: &Router, down: &BTreeSet<String>, keys: u32) -> Vec<Option<String>> {
    let servers = ImaginedServers::new(down.clone());
    let by = |key: u32| {
        let request = Request::new(Operation::Get, format!("key:{key}").as_bytes());
        let explanation = servers.explain(router, &request, true);
        explanation
            .steps
            .into_iter()
            .find(|step| step.reached)
            .map(|step| step.server)
    };
    (0..keys).map(by).collect()
}

/// Load of the busiest node over the mean of those that are up.
fn unevenness(served: &[Option<String>], up: usize) -> f64 {
    let mut loads: BTreeMap<&str, u32> = BTreeMap::new();
    for server in served.iter().flatten() {
        *loads.entry(server).or_default() += 1;
    }
    let most = loads.values().max().copied().unwrap_or(0);
    f64::from(most) * up as f64 / served.len() as f64
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    /// The seed's robustness test: fifteen servers shut down one after the other, in any order.
    #[test]
    fn losing_fifteen_nodes_one_by_one_has_no_cliff(order in Just((0..15).collect::<Vec<_>>()).prop_shuffle()) {
        const KEYS: u32 = 1500;
        let config = config_for("{replicas: 15, regions: [{name: m}]}", "m");
        let router = Router::new(&config).unwrap();
        let servers = servers(&config, "m");
        let mut down = BTreeSet::new();
        for (dead, index) in order.into_iter().take(14).enumerate() {
            let before = served(&router, &down, KEYS);
            down.insert(servers[index as usize].clone());
            let after = served(&router, &down, KEYS);
            let up = servers.len() - dead - 1;
            let unserved = after.iter().filter(|server| server.is_none()).count();
            // The policy draws at most a hundred times for its last node, which misses one of sixteen in 1 of 600 cases.
            let allowed = if up == 1 { KEYS as usize / 300 } else { 0 };
            prop_assert!(unserved <= allowed, "{unserved} keys are served by none of {up} nodes");
            let unevenness = unevenness(&after, up);
            prop_assert!(unevenness < 1.6, "{up} nodes are left, the busiest has {unevenness:.2} times its share");
            // Only keys of the node that went away have moved.
            let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
            let share = KEYS as usize / (up + 1);
            prop_assert!(moved < share * 8 / 5 + 10, "{moved} keys moved, a fair share is {share}");
        }
    }
}
