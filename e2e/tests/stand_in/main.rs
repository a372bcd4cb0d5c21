//! The stand-in for mcrouter, in front of real memcached servers.
//!
//! With `MCROUTER_BIN` set, the same tests run on that binary: what the stand-in does, mcrouter does.

mod bed;
mod tls;

use anyhow::ensure;
use md5::{Digest, Md5};
use petra_e2e::eventually;
use serde_json::json;

use bed::{Bed, memcached, write};

fn failover(addresses: &[String]) -> serde_json::Value {
    json!({
        "pools": {"a": {"servers": [addresses[0]]}, "b": {"servers": [addresses[1]]}},
        "route": {"type": "OperationSelectorRoute",
            "default_policy": {"type": "FailoverRoute", "children": ["PoolRoute|a", "PoolRoute|b"]},
            "operation_policies": {"set": {"type": "AllInitialRoute", "children": ["PoolRoute|a", "PoolRoute|b"]}}},
    })
}

#[tokio::test]
async fn a_set_reaches_both_pools_and_a_read_fails_over_and_back() {
    let mut bed = Bed::start("failover", 2, failover).await;
    let mut client = bed.connect().await;
    assert_eq!(client.set("k", "v").await.unwrap(), "STORED");
    eventually("the second pool has it", || async {
        ensure!(bed.server(1).await.get("k").await? == Some("v".to_owned()));
        anyhow::Ok(())
    })
    .await;

    bed.servers[0].1 = None;
    eventually("reads fail over", || async {
        ensure!(bed.connect().await.get("k").await? == Some("v".to_owned()));
        anyhow::Ok(())
    })
    .await;
    let set = bed.connect().await.set("k", "w").await.unwrap();
    assert!(set.starts_with("SERVER_ERROR"), "{set}");

    bed.servers[0].1 = Some(memcached(bed.servers[0].0));
    eventually("a probe finds the first pool again", || async {
        ensure!(bed.connect().await.set("k", "x").await? == "STORED");
        anyhow::Ok(())
    })
    .await;
}

#[tokio::test]
async fn says_which_configuration_it_runs_and_keeps_it_when_a_new_one_is_invalid() {
    let bed = Bed::start("reload", 2, failover).await;
    let digest = |text: &str| {
        Md5::digest(text)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let ask = || async {
        bed.connect()
            .await
            .get("__mcrouter__.config_md5_digest")
            .await
    };
    let first = failover(&bed.addresses()).to_string();
    assert_eq!(ask().await.unwrap(), Some(digest(&first)));

    let second = json!({"pools": {"b": {"servers": [bed.addresses()[1]]}}, "route": "PoolRoute|b"})
        .to_string();
    write(&bed.folder, &second);
    eventually("the new configuration runs", || async {
        ensure!(ask().await? == Some(digest(&second)));
        anyhow::Ok(())
    })
    .await;
    assert_eq!(
        bed.connect().await.set("only-b", "v").await.unwrap(),
        "STORED"
    );
    assert_eq!(bed.server(0).await.get("only-b").await.unwrap(), None);

    write(&bed.folder, "{\"route\": \"PoolRoute|nowhere\"}");
    eventually("the failure is counted", || async {
        let mut client = bed.connect().await;
        let mut line = client.line("stats").await?;
        while !line.starts_with("STAT config_failures") && line != "END" {
            line = client.read_line().await?;
        }
        ensure!(line.ends_with(" 1"), "{line}");
        anyhow::Ok(())
    })
    .await;
    assert_eq!(ask().await.unwrap(), Some(digest(&second)));
}

#[tokio::test]
async fn what_mcrouter_does_not_speak_is_malformed_and_closes_the_connection() {
    let bed = Bed::start("malformed", 2, failover).await;
    for line in ["mg k v", "GET k", "gibberish"] {
        let mut client = bed.connect().await;
        assert_eq!(
            client.line(line).await.unwrap(),
            "CLIENT_ERROR malformed request"
        );
        assert!(
            client.read_line().await.is_err(),
            "{line} did not close the connection"
        );
    }
}
