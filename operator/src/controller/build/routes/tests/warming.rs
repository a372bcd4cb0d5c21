//! What routers do while a region has two layouts. That they agree is `layout::tests::neighbours`.

use super::*;
use crate::controller::layout::Layout;

/// Region `m` goes from `old` to `new` nodes; another stands behind it.
fn warming(new: i32, old: i32) -> Config {
    using(Used {
        servers: new,
        beside: Some(Beside::Warm(old)),
    })
}

fn using(used: Used) -> Config {
    let spec = "{replicas: 3, regions: [{name: m}, {name: a}]}";
    let cluster = PetraCluster::new("c", serde_saphyr::from_str(spec).unwrap());
    let settings = Settings {
        router_image: Some("r".to_owned()),
        ..Settings::default()
    };
    let cluster = validate(&cluster, &settings).unwrap();
    let layout = Layout {
        used,
        ..Layout::settled(used.most())
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

/// Every configuration of a change of size from `old` to `new` in which there are two layouts.
fn with_two_layouts(old: i32, new: i32) -> [Used; 3] {
    let used = |servers, beside| Used {
        servers,
        beside: Some(beside),
    };
    [
        used(old, Beside::Next(new)),
        used(new, Beside::Warm(old)),
        used(new, Beside::Last(old)),
    ]
}

#[test]
fn a_configuration_of_two_layouts_has_no_problems_and_says_what_it_uses() {
    for (old, new) in [(3, 4), (4, 3), (1, 2), (2, 1), (3, 6)] {
        for expected in with_two_layouts(old, new) {
            let config = using(expected);
            assert_eq!(check(&config), Vec::<String>::new(), "{expected:?}");
            assert_eq!(used(&config, "m"), expected);
            assert_eq!(Config::from_json(&config.to_json()).unwrap(), config);
            assert_eq!(used(&config, "a").beside, None);
        }
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
    for config in with_two_layouts(3, 4).map(using) {
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
        for operation in [Operation::Set, Operation::Delete] {
            let steps = ask(&config, operation, &moved, &[]).steps;
            let mut in_m = steps
                .iter()
                .filter(|step| short(&step.server).starts_with("m-"));
            assert!(in_m.all(|step| step.waited), "{operation:?}: {steps:?}");
        }
    }
}

/// Who is asked to change a value in place, of the old node O and the new one N, and is waited for first.
#[test]
fn a_value_is_changed_in_place_once_on_each_node_that_may_have_it() {
    use Operation::{Add, Append, Cas, Decr, Incr, Prepend, Replace};
    let table = [
        (0, "O N", "O", "N"),
        (1, "O N", "O", "N"),
        (2, "N", "N O", "N"),
    ];
    for (old, new) in [(3, 4), (4, 3)] {
        let sizes = [old, new].map(|size| usize::try_from(size).unwrap());
        let (moved, stayed) = moved_and_stayed(sizes[1], sizes[0]);
        for (index, count, add, cas) in table {
            let config = using(with_two_layouts(old, new)[index]);
            let counting = [Append, Prepend, Replace, Incr, Decr].map(|change| (change, count));
            for (operation, expected) in counting.into_iter().chain([(Add, add), (Cas, cas)]) {
                let asked = ask(&config, operation, &moved, &[]);
                let nodes = expected
                    .replace('O', &node(&moved, sizes[0]))
                    .replace('N', &node(&moved, sizes[1]));
                assert_eq!(reached(&asked).join(" "), nodes, "{operation:?} {index}");
                assert!(asked.steps[0].waited);
                let asked = ask(&config, operation, &stayed, &[]);
                assert_eq!(reached(&asked), [node(&stayed, 3)], "{operation:?} {index}");
            }
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
