//! What the operator itself refuses, and whose region is whose.

use super::*;

fn cluster(spec: &str) -> PetraCluster {
    PetraCluster::new("c", serde_saphyr::from_str(spec).unwrap())
}

fn settings(region: Option<&str>) -> Settings {
    Settings {
        region: region.map(str::to_owned),
        router_image: Some("router".to_owned()),
        ..Settings::default()
    }
}

const REMOTE: &str = "{regions: [{name: a}, {name: b, remote: {address: \"b-{ordinal}.:11211\"}}]}";

#[test]
fn the_operators_region_decides_what_is_built() {
    let both = "{regions: [{name: a}, {name: b}]}";
    let everywhere_remote = "{regions: [{name: a, remote: {address: \"a-{ordinal}.:1\"}}, \
                              {name: b, remote: {address: \"b-{ordinal}.:1\"}}]}";
    let table: [(&str, Option<&str>, &[&str]); 5] = [
        (both, None, &["a", "b"]),
        (REMOTE, None, &["a"]),
        (REMOTE, Some("a"), &["a"]),
        (everywhere_remote, Some("b"), &["b"]),
        (everywhere_remote, Some("a"), &["a"]),
    ];
    for (spec, region, built) in table {
        let validated = validate(&cluster(spec), &settings(region)).unwrap();
        let names: Vec<&str> = validated
            .built()
            .map(|region| region.names.region.as_str())
            .collect();
        assert_eq!(names, built, "{spec} with --region {region:?}");
    }
}

#[test]
fn what_cannot_be_built_says_what_to_do() {
    let nothing_here = "{regions: [{name: a, remote: {address: \"a-{ordinal}.:1\"}}]}";
    let table = [
        ("{regions: []}", None, "add at least one region"),
        (
            "{regions: [{name: a}, {name: b}]}",
            Some("a"),
            "needs spec.regions[].remote.address",
        ),
        (
            "{regions: [{name: a}]}",
            Some("z"),
            "does not have (a): add it",
        ),
        (nothing_here, None, "remove `remote`"),
        (
            "{regions: [{name: a}], routing: {timeouts: {connect: soon}}}",
            None,
            "spec.routing.timeouts.connect",
        ),
        (
            "{regions: [{name: a}], node: {maxItemSize: 1GB}}",
            None,
            "spec.node.maxItemSize",
        ),
        (
            "{regions: [{name: a}], node: {maxItemSize: 2Gi}}",
            None,
            "between 1Ki and 1Gi",
        ),
        (
            "{regions: [{name: a}], node: {durability: {interval: 2h}}}",
            None,
            "at most 1h",
        ),
        (
            "{regions: [{name: a}], tls: {}}",
            None,
            "either spec.tls.secretName or spec.tls.certManager.issuerRef",
        ),
        (
            "{regions: [{name: a}], auth: {secretName: s}}",
            None,
            "mcrouter cannot log in",
        ),
    ];
    for (spec, region, words) in table {
        let error = validate(&cluster(spec), &settings(region))
            .unwrap_err()
            .to_string();
        assert!(error.contains(words), "{spec}: {error}");
    }
}

#[test]
fn a_router_needs_an_image_from_somewhere_unless_there_is_none() {
    let without = Settings {
        router_image: None,
        ..Settings::default()
    };
    let error = validate(&cluster("{regions: [{name: a}]}"), &without).unwrap_err();
    assert_eq!(error, InvalidSpec::RouterImageMissing);
    for router in ["{mode: none}", "{image: mine}"] {
        let spec = format!("{{regions: [{{name: a}}], router: {router}}}");
        assert!(validate(&cluster(&spec), &without).is_ok(), "{router}");
    }
}

#[test]
fn stand_ins_keep_items_for_whole_seconds_and_never_for_ever() {
    for (exptime, seconds) in [
        ("1ms", 1),
        ("1500ms", 2),
        ("60s", 60),
        ("9999h", 30 * 24 * 3600),
    ] {
        let spec = format!(
            "{{regions: [{{name: a}}], routing: {{poolFailover: {{exptime: {exptime}}}}}}}"
        );
        let validated = validate(&cluster(&spec), &settings(None)).unwrap();
        assert_eq!(
            validated.routing.pool_failover_exptime,
            Some(seconds),
            "{exptime}"
        );
    }
}

#[test]
fn regions_share_a_secret_that_is_named_and_have_their_own_from_cert_manager() {
    let secrets = |tls: &str| {
        let spec = format!("{{regions: [{{name: a}}, {{name: b}}], tls: {tls}}}");
        let validated = validate(&cluster(&spec), &settings(None)).unwrap();
        let tls = validated.tls.clone().unwrap();
        let secrets = validated.built().map(|region| tls.secret(&region.names));
        secrets.collect::<Vec<_>>()
    };
    assert_eq!(secrets("{secretName: s}"), ["s", "s"]);
    let issued = secrets("{certManager: {issuerRef: {name: i}}}");
    assert_eq!(issued, ["c-a-tls", "c-b-tls"]);
}

#[test]
fn nodes_demand_certificates_and_routers_have_no_plain_port_unless_told_otherwise() {
    let tls = |tls: &str| {
        let spec = format!("{{regions: [{{name: a}}], tls: {tls}}}");
        let validated = validate(&cluster(&spec), &settings(None)).unwrap();
        validated.tls.unwrap()
    };
    let strict = tls("{secretName: s}");
    assert!(strict.demanded_by_nodes && !strict.plain_port);
    let lax = tls(
        "{secretName: s, nodes: {clientCertificates: none}, routers: {plainConnections: allowed}}",
    );
    assert!(!lax.demanded_by_nodes && lax.plain_port);
}

#[test]
fn remote_nodes_are_reached_by_their_address() {
    let validated = validate(&cluster(REMOTE), &settings(None)).unwrap();
    assert_eq!(validated.regions[1].server(2), "b-2.:11211");
    assert_eq!(
        validated.regions[0].server(0),
        "c-a-0.c-a.default.svc.cluster.local.:11211"
    );
}
