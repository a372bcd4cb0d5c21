//! What the API server refuses, and whether it says what to do.

use petra_e2e::with_temp_ns;
use serde_json::json;

use crate::specs;

#[tokio::test]
async fn a_bad_spec_is_refused_with_a_message_that_says_how_to_fix_it() {
    with_temp_ns("admission", |fixture| async move {
        let good = specs::one_region("shop", 2);
        for (from, to, words) in [
            (
                "[{name: main}]",
                "[{name: main}, {name: main}]",
                "region names must be unique",
            ),
            ("[{name: main}]", "[]", "at least one region"),
            ("[{name: main}]", "[{name: Main_1}]", "name"),
            (
                "[{name: main}]",
                "[{name: main, remote: {address: 'a.example.com:11211'}}]",
                "{ordinal}",
            ),
            ("size: 256Mi", "size: a lot", "storage.size"),
            ("replicas: 2", "replicas: 0", "replicas"),
        ] {
            assert!(good.contains(from), "{from}");
            let refused = fixture.apply(&good.replacen(from, to, 1)).await;
            let Err(error) = refused else {
                panic!("accepted: {to}")
            };
            let error = error.to_string();
            assert!(
                error.contains(words),
                "{to} was refused without {words:?}: {error}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn a_dangerous_change_is_refused_and_the_cluster_goes_on() {
    with_temp_ns("transitions", |fixture| async move {
        fixture.apply(&specs::one_region("shop", 1)).await.unwrap();
        fixture.ready("shop").await;
        for (patch, words) in [
            (
                json!({"spec": {"node": {"storage": {"size": "128Mi"}}}}),
                "storage.size",
            ),
            (json!({"spec": {"regions": [{"name": "other"}]}}), "primary"),
        ] {
            let Err(error) = fixture.patch("shop", patch.clone()).await else {
                panic!("accepted: {patch}");
            };
            assert!(error.to_string().contains(words), "{patch}: {error}");
        }
        fixture.ready("shop").await;
    })
    .await;
}
