//! Rules of the custom resource, as the API server checks them.

use super::*;

fn cluster(name: &str, spec: &str) -> PetraCluster {
    let spec: PetraClusterSpec = serde_saphyr::from_str(spec).unwrap();
    PetraCluster::new(name, spec)
}

fn refusal(name: &str, spec: &str) -> String {
    match cluster(name, spec).validate_cel() {
        Ok(()) => String::new(),
        Err(errors) => errors
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n"),
    }
}

fn change(old: &str, new: &str) -> String {
    match cluster("c", new).validate_cel_update(&cluster("c", old)) {
        Ok(()) => String::new(),
        Err(errors) => errors
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n"),
    }
}

#[test]
fn a_region_is_all_that_must_be_written() {
    let cluster = cluster("c", "{regions: [{name: main}]}");
    assert!(cluster.validate_cel().is_ok());
    let spec = &cluster.spec;
    assert_eq!(
        (spec.replicas, spec.router.replicas, spec.paused),
        (3, 2, false)
    );
    assert_eq!(spec.node.durability.mode, DurabilityMode::Interval);
    assert_eq!(spec.routing.deletes.policy, DeletePolicy::AllSync);
    assert!(spec.routing.pool_failover.enabled && spec.routing.reads.failover);
}

#[test]
fn what_cannot_work_is_refused_with_what_to_do() {
    let table = [
        ("no region", "c", "{regions: []}", "add one to spec.regions"),
        (
            "two regions of a name",
            "c",
            "{regions: [{name: a}, {name: a}]}",
            "rename one",
        ),
        (
            "a region's name that is no label",
            "c",
            "{regions: [{name: A_b}]}",
            "choose a shorter or simpler name",
        ),
        (
            "a region's name that is too long",
            "c",
            "{regions: [{name: abcdefghijklmnopqrstu}]}",
            "at most 20",
        ),
        (
            "a region named like routers",
            "c",
            "{regions: [{name: a-router}]}",
            "-router",
        ),
        (
            "a name that starts with a digit",
            "1c",
            "{regions: [{name: a}]}",
            "start with a letter",
        ),
        (
            "a name that is too long",
            "abcdefghijklmnopqrstuvwxyzabcdef",
            "{regions: [{name: a}]}",
            "at most 31",
        ),
        (
            "an address for all nodes",
            "c",
            "{regions: [{name: a, remote: {address: \"x.:11211\"}}]}",
            "{ordinal}",
        ),
        (
            "an address without a port",
            "c",
            "{regions: [{name: a, remote: {address: \"x{ordinal}\"}}]}",
            "host:port",
        ),
        (
            "certificates from nowhere",
            "c",
            "{regions: [{name: a}], tls: {}}",
            "set either tls.secretName",
        ),
        (
            "certificates from two places",
            "c",
            "{regions: [{name: a}], tls: {secretName: s, certManager: {issuerRef: {name: i}}}}",
            "remove the other",
        ),
        (
            "users of nodes behind routers",
            "c",
            "{regions: [{name: a}], auth: {secretName: s}}",
            "tls.nodes.clientCertificates",
        ),
    ];
    for (case, name, spec, words) in table {
        let refusal = refusal(name, spec);
        assert!(refusal.contains(words), "{case}: {refusal:?}");
    }
}

#[test]
fn the_longest_names_are_accepted() {
    let regions = format!("{{regions: [{{name: {}}}]}}", "r".repeat(20));
    assert_eq!(refusal(&"c".repeat(31), &regions), "");
}

#[test]
fn changes_that_would_lose_data_are_refused() {
    let with = |storage: &str| format!("{{regions: [{{name: a}}], node: {{storage: {storage}}}}}");
    assert!(change(&with("{size: 2Gi}"), &with("{size: 1Gi}")).contains("can only grow"));
    assert!(change(&with("{size: 2Gi}"), &with("{size: 2047Mi}")).contains("can only grow"));
    assert_eq!(change(&with("{size: 2Gi}"), &with("{size: 2048Mi}")), "");
    assert_eq!(change(&with("{size: 2Gi}"), &with("{size: 3Gi}")), "");
    let class = with("{storageClassName: fast}");
    assert!(
        change(&class, &with("{storageClassName: slow}"))
            .contains("storageClassName cannot change")
    );
    assert!(change(&class, &with("{}")).contains("storageClassName cannot change"));
    assert_eq!(change(&class, &class), "");
}

#[test]
fn tls_is_decided_when_the_cluster_is_made() {
    let plain = "{regions: [{name: a}]}";
    let with = |tls: &str| format!("{{regions: [{{name: a}}], tls: {tls}}}");
    let secret = with("{secretName: s}");
    for (old, new) in [(plain, secret.as_str()), (&secret, plain)] {
        assert!(change(old, new).contains("put spec.tls back as it was"));
    }
    for other in [
        "{secretName: t}",
        "{certManager: {issuerRef: {name: i}}}",
        "{secretName: s, nodes: {clientCertificates: none}, routers: {plainConnections: allowed}}",
    ] {
        assert_eq!(change(&secret, &with(other)), "", "{other}");
    }
}

#[test]
fn users_come_and_go_where_there_are_no_routers() {
    let none = "{regions: [{name: a}], router: {mode: none}}";
    let auth = "{regions: [{name: a}], router: {mode: none}, auth: {secretName: s}}";
    assert_eq!(change(none, auth), "");
    assert_eq!(change(auth, none), "");
    let spec = cluster("c", auth).spec;
    let users = spec.auth.unwrap();
    assert_eq!(
        (users.key.as_str(), users.method),
        ("users", AuthMethod::Text)
    );
}

#[test]
fn the_primary_stays_and_other_regions_come_and_go() {
    let two = "{regions: [{name: a}, {name: b}]}";
    assert!(
        change(two, "{regions: [{name: b}, {name: a}]}").contains("cannot be renamed or moved")
    );
    assert!(
        change(two, "{regions: [{name: z}, {name: b}]}").contains("cannot be renamed or moved")
    );
    assert_eq!(
        change(two, "{regions: [{name: a}, {name: c}, {name: b}]}"),
        ""
    );
    assert_eq!(change(two, "{regions: [{name: a}]}"), "");
}
