//! The CRD's rules, checked without an API server, and the file in `crds/`.

use kube::CustomResourceExt;

use super::*;

fn cluster(name: &str, spec: &str) -> PetraCluster {
    let spec: PetraClusterSpec = serde_saphyr::from_str(spec).unwrap();
    PetraCluster::new(name, spec)
}

const MINIMAL: &str = "regions: [{name: istanbul}]";

fn refusal(name: &str, spec: &str) -> String {
    match cluster(name, spec).validate_cel() {
        Ok(()) => panic!("accepted: {name}: {spec}"),
        Err(errors) => errors.to_string(),
    }
}

#[test]
fn a_list_of_regions_is_enough() {
    let cluster = cluster("sessions", MINIMAL);
    cluster.validate_cel().unwrap();
    assert_eq!(cluster.spec.replicas, 3);
    assert_eq!(cluster.spec.node, Node::default());
    assert_eq!(cluster.spec.routing, Routing::default());
    assert_eq!(cluster.spec.router, Router::default());
}

#[test]
fn the_schema_has_the_defaults_that_the_types_have() {
    let mut crd = serde_json::to_value(PetraCluster::crd()).unwrap();
    let spec =
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
            .take();
    for (field, types) in [
        ("node", serde_json::to_value(Node::default()).unwrap()),
        ("routing", serde_json::to_value(Routing::default()).unwrap()),
        ("router", serde_json::to_value(Router::default()).unwrap()),
        ("replicas", 3.into()),
        ("paused", false.into()),
    ] {
        assert_eq!(spec[field]["default"], types, "{field}");
    }
}

#[test]
fn refusals_say_what_to_do() {
    for (name, spec, words) in [
        ("9sessions", MINIMAL, "begin with a letter"),
        ("a.b", MINIMAL, "lower case letters"),
        ("c", "regions: [{name: a}, {name: a}]", "a name of its own"),
        ("c", "regions: [{name: Ankara}]", "lower case letters"),
        ("c", "regions: [{name: a-}]", "end with a letter"),
        (
            "a-name-that-is-long-enough-to",
            "regions: [{name: leave-no-room-for-this-region}]",
            "shorten one of them",
        ),
        (
            "c",
            "regions: [{name: a, remote: {address: 'cache.example.com:11211'}}]",
            "{ordinal}",
        ),
        (
            "c",
            "regions: [{name: a, remote: {address: 'cache-{ordinal}.example.com'}}]",
            "HOST:PORT",
        ),
        (
            "c",
            "regions: [{name: a, remote: {address: '{ordinal} x:1'}}]",
            "HOST:PORT",
        ),
        (
            "c",
            "{regions: [{name: a}], node: {maxItemSize: 1.5Mi}}",
            "such as 512Ki",
        ),
        (
            "c",
            "{regions: [{name: a}], node: {maxItemSize: 2Gi}}",
            "between 1Ki and 1Gi",
        ),
        (
            "c",
            "{regions: [{name: a}], node: {maxItemSize: '100'}}",
            "between 1Ki and 1Gi",
        ),
        (
            "c",
            "{regions: [{name: a}], node: {storage: {size: big}}}",
            "such as 20Gi",
        ),
        (
            "c",
            "{regions: [{name: a}], node: {durability: {interval: 0s}}}",
            "such as 500ms",
        ),
        (
            "c",
            "{regions: [{name: a}], routing: {timeouts: {connect: '100'}}}",
            "such as 100ms",
        ),
        (
            "c",
            "{regions: [{name: a}], routing: {timeouts: {server: 1 s}}}",
            "such as 200ms",
        ),
        (
            "c",
            "{regions: [{name: a}], routing: {timeouts: {crossRegion: 1d}}}",
            "such as 600ms",
        ),
        (
            "c",
            "{regions: [{name: a}], routing: {poolFailover: {exptime: 500ms}}}",
            "whole seconds",
        ),
    ] {
        let said = refusal(name, spec);
        assert!(said.contains(words), "{name}: {spec}: {said}");
    }
}

#[test]
fn names_that_just_fit_are_accepted() {
    let (name, region) = ("c".repeat(25), "r".repeat(26));
    cluster(&name, &format!("regions: [{{name: {region}}}]"))
        .validate_cel()
        .unwrap();
}

#[test]
fn dangerous_changes_are_refused() {
    let old =
        "{regions: [{name: a}, {name: b}], node: {storage: {size: 10Gi, storageClassName: fast}}}";
    for (new, words) in [
        (
            "{regions: [{name: b}, {name: a}], node: {storage: {size: 10Gi, storageClassName: fast}}}",
            "primary",
        ),
        (
            "{regions: [{name: c}, {name: b}], node: {storage: {size: 10Gi, storageClassName: fast}}}",
            "primary",
        ),
        (
            "{regions: [{name: a}], node: {storage: {size: 9Gi, storageClassName: fast}}}",
            "cannot shrink",
        ),
        (
            "{regions: [{name: a}], node: {storage: {size: 10Gi, storageClassName: slow}}}",
            "storage class",
        ),
        (
            "{regions: [{name: a}], node: {storage: {size: 10Gi}}}",
            "storage class",
        ),
    ] {
        let errors = cluster("c", new)
            .validate_cel_update(&cluster("c", old))
            .unwrap_err();
        assert!(errors.to_string().contains(words), "{new}: {errors}");
    }
}

#[test]
fn other_changes_are_accepted() {
    let old = "{regions: [{name: a}, {name: b}], node: {storage: {size: 10Gi}}}";
    for new in [
        "{regions: [{name: a}], node: {storage: {size: 10Gi}}}",
        "{regions: [{name: a}, {name: c}], node: {storage: {size: 10240Mi}}}",
        "{regions: [{name: a}, {name: b}], replicas: 5, node: {storage: {size: 11Gi}}}",
        "{regions: [{name: a, replicas: 1}, {name: b}], node: {storage: {size: 10Gi, whenDeleted: Delete}}}",
    ] {
        cluster("c", new)
            .validate_cel_update(&cluster("c", old))
            .unwrap();
    }
}

#[test]
fn a_bare_number_is_a_quantity_too() {
    let cluster = cluster(
        "c",
        "{regions: [{name: a}], node: {resources: {limits: {cpu: 2, memory: 1Gi}}}}",
    );
    assert_eq!(
        cluster.spec.node.resources.limits["cpu"],
        Amount("2".into())
    );
    assert!(cluster.spec.node.resources.requests.is_empty());
}

#[test]
fn the_file_in_crds_is_what_the_operator_prints() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../crds/petraclusters.petracache.io.yaml"
    );
    let printed = crate::crd_yaml().unwrap();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &printed).unwrap();
    }
    let file = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        file == printed,
        "{path} is not what `petra-operator crd` prints: run `make crds` and read the diff"
    );
}

#[test]
fn every_field_is_documented() {
    let crd = serde_json::to_value(PetraCluster::crd()).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    let mut missing = Vec::new();
    undocumented("spec", &schema["spec"], &mut missing);
    undocumented("status", &schema["status"], &mut missing);
    assert_eq!(missing, Vec::<String>::new());
}

fn undocumented(path: &str, schema: &serde_json::Value, missing: &mut Vec<String>) {
    if schema["description"].as_str().is_none_or(str::is_empty) {
        missing.push(path.to_owned());
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        undocumented(&format!("{path}.{name}"), field, missing);
    }
    if schema["items"]["properties"].is_object() {
        undocumented(&format!("{path}[]"), &schema["items"], missing);
    }
}
