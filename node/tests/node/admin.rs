//! The endpoints for orchestrators and monitoring.

use crate::client::http_get;
use crate::harness::Node;

#[test]
fn health_readiness_and_metrics_are_served_over_http() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &[]);
    assert_eq!(http_get(node.admin, "/health"), (200, "ok\n".to_owned()));
    assert_eq!(http_get(node.admin, "/ready"), (200, "ready\n".to_owned()));
    assert_eq!(http_get(node.admin, "/nothing").0, 404);
    assert_eq!(
        http_get(node.admin, "/metrics").0,
        200,
        "also before the first command"
    );
}

#[test]
fn metrics_count_what_clients_did() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &[]);
    let mut client = node.connect();
    client.set("key", "data");
    client.get("key");
    client.get("missing");
    client.ask("delete missing");
    client.ask("bogus");
    client.ask("stats reset");
    let (_, page) = http_get(node.admin, "/metrics");
    for line in [
        "petracache_commands_total{command=\"set\",result=\"stored\"} 1",
        "petracache_commands_total{command=\"get\",result=\"hit\"} 1",
        "petracache_commands_total{command=\"get\",result=\"miss\"} 1",
        "petracache_commands_total{command=\"delete\",result=\"miss\"} 1",
        "petracache_commands_total{command=\"other\",result=\"client_error\"} 1",
        "petracache_command_duration_seconds_count{command=\"get\"} 2",
        "petracache_command_duration_seconds_bucket{command=\"get\",le=\"+Inf\"} 2",
        "petracache_connections 1",
        "petracache_connections_accepted_total 1",
        "petracache_ready 1",
        "petracache_database_set_aside 0",
        "petracache_tier_items 1",
    ] {
        assert!(
            page.lines().any(|have| have == line),
            "no {line} in:\n{page}"
        );
    }
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        assert!(
            name.starts_with("petracache_") && value.parse::<f64>().is_ok(),
            "{line}"
        );
    }
}

#[test]
fn metrics_can_be_switched_off() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let node = Node::start(dir.path(), &["--metrics-enabled", "false"]);
    assert!(node.connect().ask("version").starts_with("VERSION"));
    assert!(!node.log().contains("serving metrics"), "{}", node.log());
}
