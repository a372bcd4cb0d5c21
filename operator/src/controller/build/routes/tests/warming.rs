//! What routers do while a region is warming: the new layout first, and nothing is lost on the way back.

use super::*;
use crate::controller::layout::Layout;

/// Region `m` goes from `old` to `new` nodes; two others stand behind it.
fn warming(new: i32, old: i32) -> Config {
    let spec = "{replicas: 3, regions: [{name: m}, {name: a}]}";
    let cluster = PetraCluster::new("c", serde_saphyr::from_str(spec).unwrap());
    let settings = Settings {
        router_image: Some("r".to_owned()),
        ..Settings::default()
    };
    let cluster = validate(&cluster, &settings).unwrap();
    let used = Used {
        servers: new,
        warm: Some(old),
    };
    let layout = Layout {
        used,
        ..Layout::settled(new.max(old))
    };
    let layouts = Layouts::from([("m".to_owned(), layout)]);
    config(&cluster, &cluster.regions[0], &layouts)
}

fn node(key: &str, size: usize) -> String {
    format!("m-{}", petra_routing::ch3::ch3(key.as_bytes(), size))
}

/// A key that has another node among `new` than among `old`, and one that stays.
fn moved_and_stayed(new: usize, old: usize) -> (String, String) {
    let keys = || (0..1000).map(|number| format!("k{number}"));
    let moves = |key: &String| node(key, new) != node(key, old);
    (
        keys().find(moves).unwrap(),
        keys().find(|key| !moves(key)).unwrap(),
    )
}

fn reached_in_m(explanation: &Explanation) -> Vec<&str> {
    let reached = reached(explanation).into_iter();
    reached.filter(|server| server.starts_with("m-")).collect()
}

fn missed(config: &Config, operation: Operation, key: &str) -> Explanation {
    let question = Question {
        request: Request::new(operation, key.as_bytes()),
        down: BTreeSet::new(),
        present: false,
    };
    explain(config, &question).unwrap()
}

#[test]
fn a_warming_configuration_has_no_problems_and_says_what_it_uses() {
    for (new, old) in [(4, 3), (3, 4), (2, 1), (1, 2), (6, 3)] {
        let config = warming(new, old);
        assert_eq!(check(&config), Vec::<String>::new(), "{old} to {new}");
        assert_eq!(
            used(&config, "m"),
            Used {
                servers: new,
                warm: Some(old)
            }
        );
        assert_eq!(Config::from_json(&config.to_json()).unwrap(), config);
        assert_eq!(used(&config, "a").warm, None);
    }
}

#[test]
fn a_read_asks_the_new_node_and_on_a_miss_the_old_one() {
    for (new, old) in [(4, 3), (3, 4)] {
        let config = warming(new, old);
        let (new, old) = (usize::try_from(new).unwrap(), usize::try_from(old).unwrap());
        let (moved, _) = moved_and_stayed(new, old);
        assert_eq!(
            reached(&ask(&config, Operation::Get, &moved, &[])),
            [node(&moved, new)]
        );
        assert_eq!(
            reached(&missed(&config, Operation::Get, &moved)),
            [node(&moved, new), node(&moved, old)]
        );
    }
}

#[test]
fn what_is_set_deleted_or_touched_is_so_in_both_layouts() {
    let config = warming(4, 3);
    let (moved, _) = moved_and_stayed(4, 3);
    let both = BTreeSet::from([node(&moved, 4), node(&moved, 3)]);
    for operation in [Operation::Set, Operation::Delete, Operation::Touch] {
        let explanation = ask(&config, operation, &moved, &[]);
        let nodes: BTreeSet<String> = reached_in_m(&explanation)
            .into_iter()
            .map(str::to_owned)
            .collect();
        assert_eq!(nodes, both, "{operation:?}");
    }
    let waited = ask(&config, Operation::Delete, &moved, &[]);
    assert!(waited.steps.iter().all(|step| step.waited), "{waited:?}");
}

#[test]
fn arithmetic_happens_once() {
    let config = warming(4, 3);
    let (moved, stayed) = moved_and_stayed(4, 3);
    for key in [moved, stayed] {
        for operation in [
            Operation::Incr,
            Operation::Append,
            Operation::Add,
            Operation::Cas,
        ] {
            let explanation = ask(&config, operation, &key, &[]);
            assert_eq!(reached(&explanation), [node(&key, 4)], "{operation:?}");
        }
    }
}

#[test]
fn a_set_is_stored_though_its_old_node_is_down_and_a_delete_says_that_it_is() {
    let config = warming(4, 3);
    let (moved, _) = moved_and_stayed(4, 3);
    let old = node(&moved, 3);
    assert_eq!(
        ask(&config, Operation::Set, &moved, &[&old]).reply,
        "STORED"
    );
    let delete = ask(&config, Operation::Delete, &moved, &[&old]);
    assert!(delete.reply.starts_with("SERVER_ERROR"), "{delete:?}");
}

#[test]
fn a_region_without_nodes_yet_is_not_asked() {
    let spec = "{replicas: 2, regions: [{name: m}, {name: a}]}";
    let cluster = PetraCluster::new("c", serde_saphyr::from_str(spec).unwrap());
    let settings = Settings {
        router_image: Some("r".to_owned()),
        ..Settings::default()
    };
    let cluster = validate(&cluster, &settings).unwrap();
    let layouts = Layouts::from([("a".to_owned(), Layout::settled(0))]);
    for own in &cluster.regions {
        let config = config(&cluster, own, &layouts);
        assert_eq!(check(&config), Vec::<String>::new());
        assert_eq!(used(&config, "a"), Used::default());
        assert!(
            config
                .servers()
                .iter()
                .all(|server| server.starts_with("c-m-"))
        );
    }
}
