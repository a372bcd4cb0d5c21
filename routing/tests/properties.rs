//! What holds for every configuration and every set of servers that are down.

use std::collections::{BTreeMap, BTreeSet};

use petra_routing::config::{
    Children, Failover, FailoverPolicy, HashRoute, ModifyExptime, OperationSelector, Pool,
    RouteHandle, WarmUp,
};
use petra_routing::{Config, Operation, Question, Request, check, explain};
use proptest::prelude::*;

/// Pools `p0` to `p2` with one to five servers each, some of which are in several pools.
fn pools() -> impl Strategy<Value = BTreeMap<String, Pool>> {
    let pool = prop::collection::btree_set(0..8u8, 1..=5).prop_map(|servers| Pool {
        servers: servers
            .into_iter()
            .map(|number| format!("server-{number}:11211"))
            .collect(),
        ..Pool::default()
    });
    prop::collection::vec(pool, 3).prop_map(|pools| {
        let named = pools.into_iter().enumerate();
        named
            .map(|(number, pool)| (format!("p{number}"), pool))
            .collect()
    })
}

fn handle() -> impl Strategy<Value = RouteHandle> {
    let leaf = prop_oneof![
        (0..3u8).prop_map(|number| RouteHandle::pool(format!("p{number}"))),
        Just(RouteHandle::Null),
        Just(RouteHandle::Error {
            response: "no".to_owned()
        }),
    ];
    leaf.prop_recursive(3, 24, 3, |inner| {
        let children = || prop::collection::vec(inner.clone(), 1..4);
        let policy = prop::option::of((1..4usize, 1..4usize).prop_map(|(tries, errors)| {
            FailoverPolicy::DeterministicOrderPolicy {
                max_tries: tries,
                max_error_tries: errors,
            }
        }));
        prop_oneof![
            children().prop_map(|children| RouteHandle::AllInitial(Children { children })),
            children().prop_map(|children| RouteHandle::AllSync(Children { children })),
            children().prop_map(|children| RouteHandle::AllAsync(Children { children })),
            children().prop_map(|children| RouteHandle::MissFailover(Children { children })),
            children().prop_map(|children| {
                RouteHandle::Hash(HashRoute {
                    children,
                    hash_func: None,
                    salt: String::new(),
                })
            }),
            (children(), policy).prop_map(|(children, failover_policy)| {
                RouteHandle::Failover(Failover {
                    children,
                    failover_policy,
                    ..Failover::default()
                })
            }),
            (inner.clone(), inner.clone()).prop_map(|(cold, warm)| {
                RouteHandle::WarmUp(WarmUp {
                    cold: Box::new(cold),
                    warm: Box::new(warm),
                    exptime: None,
                    enable_metaget: Some(true),
                })
            }),
            (inner.clone(), inner.clone()).prop_map(|(default, delete)| {
                RouteHandle::OperationSelector(OperationSelector {
                    default_policy: Some(Box::new(default)),
                    operation_policies: [("delete".to_owned(), delete)].into(),
                })
            }),
            (inner, 1..1000i64).prop_map(|(target, exptime)| {
                RouteHandle::ModifyExptime(ModifyExptime {
                    target: Box::new(target),
                    exptime,
                    action: Some("min".to_owned()),
                })
            }),
        ]
    })
}

fn config() -> impl Strategy<Value = Config> {
    (pools(), handle()).prop_map(|(pools, route)| Config {
        pools,
        route: Some(route),
        routes: None,
    })
}

fn question() -> impl Strategy<Value = Question> {
    let down = prop::collection::btree_set(0..8u8, 0..8);
    (0..Operation::ALL.len(), "[a-z]{1,12}", down, any::<bool>()).prop_map(
        |(operation, key, down, present)| Question {
            request: Request {
                value: b"7".to_vec(),
                ..Request::new(Operation::ALL[operation], key)
            },
            down: down
                .into_iter()
                .map(|number| format!("server-{number}:11211"))
                .collect(),
            present,
        },
    )
}

proptest! {
    #[test]
    fn a_configuration_survives_its_file(config in config()) {
        let text = config.to_json();
        let read = Config::from_json(&text).unwrap();
        prop_assert_eq!(&read, &config);
        prop_assert_eq!(read.to_json(), text);
    }

    #[test]
    fn only_servers_of_the_configuration_are_asked(config in config(), question in question()) {
        let known: BTreeSet<String> = config.servers().into_iter().collect();
        let explanation = explain(&config, &question).unwrap();
        for step in &explanation.steps {
            prop_assert!(known.contains(&step.server), "{}", step.server);
            prop_assert_eq!(step.reached, !question.down.contains(&step.server));
        }
    }

    #[test]
    fn the_same_question_has_the_same_answer(config in config(), question in question()) {
        prop_assert_eq!(explain(&config, &question).unwrap(), explain(&config, &question).unwrap());
    }

    #[test]
    fn what_check_accepts_can_be_explained(config in config(), question in question()) {
        prop_assert_eq!(check(&config), Vec::<String>::new());
        prop_assert!(explain(&config, &question).is_ok());
    }

    #[test]
    fn a_failover_over_pools_is_an_error_only_when_every_choice_is_down(
        pools in pools(),
        question in question(),
    ) {
        let children: Vec<RouteHandle> = pools.keys().map(RouteHandle::pool).collect();
        let route = RouteHandle::Failover(Failover { children, ..Failover::default() });
        let config = Config { pools, route: Some(route), routes: None };
        let explanation = explain(&config, &question).unwrap();
        let all_down = explanation.steps.iter().all(|step| !step.reached);
        prop_assert_eq!(explanation.reply.starts_with("SERVER_ERROR"), all_down);
        prop_assert_eq!(all_down, explanation.steps.len() == config.pools.len()
            && explanation.steps.iter().all(|step| question.down.contains(&step.server)));
    }
}

/// Growing a pool moves keys to its new servers only.
#[test]
fn a_growing_pool_keeps_what_it_has() {
    proptest!(|(key in "[ -~]{1,40}", before in 1..60usize, more in 1..60usize)| {
        let was = petra_routing::ch3::ch3(key.as_bytes(), before);
        let is = petra_routing::ch3::ch3(key.as_bytes(), before + more);
        prop_assert!(is == was || is >= before, "{} of {before} became {is} of {}", was, before + more);
    });
}
