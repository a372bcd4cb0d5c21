//! From `kubectl apply` to Ready, and what people see of it.

use petra_e2e::with_temp_ns;
use petra_operator::crd::PetraCluster;

use crate::specs;

#[tokio::test]
async fn a_cluster_becomes_ready_and_kubectl_shows_a_useful_line() {
    with_temp_ns("readiness", |fixture| async move {
        fixture.apply(&specs::one_region("shop", 2)).await.unwrap();
        let cluster = fixture.ready("shop").await;

        let status = cluster.status.unwrap();
        assert_eq!(status.regions[0].ready, Some(2));
        assert_eq!(status.regions[0].servers.len(), 2);
        let shown = fixture
            .kubectl(&["get", "petra", "shop", "--no-headers"])
            .unwrap();
        let line = String::from_utf8(shown.stdout).unwrap();
        let columns: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(
            columns[..5],
            ["shop", "True", "2/2", "main", "1/1"],
            "{line}"
        );
    })
    .await;
}

#[tokio::test]
async fn every_example_becomes_ready() {
    for (name, example) in [
        (
            "minimal",
            include_str!("../../../operator/examples/minimal.yaml"),
        ),
        (
            "two-regions",
            include_str!("../../../operator/examples/two-regions.yaml"),
        ),
        (
            "local-reads",
            include_str!("../../../operator/examples/local-reads.yaml"),
        ),
    ] {
        with_temp_ns(name, |fixture| async move {
            let cluster: PetraCluster = fixture.apply(example).await.unwrap();
            fixture
                .ready(cluster.metadata.name.as_deref().unwrap())
                .await;
        })
        .await;
    }
}
