//! Clients that connect to nodes themselves log in, and the list of users changes without a restart.

use anyhow::ensure;
use petra_e2e::memcached::Connection;
use petra_e2e::{Fixture, eventually, with_temp_ns};

use crate::{secrets, specs};

async fn log_in(fixture: &Fixture, login: &str) -> anyhow::Result<(Connection, String)> {
    let mut node = fixture.connect("shop-main-0").await?;
    let answer = node.set("login", login).await?;
    Ok((node, answer))
}

#[tokio::test]
async fn users_of_a_secret_log_in_to_nodes_and_nobody_else_does() {
    with_temp_ns("auth", |fixture| async move {
        secrets::put(&fixture, "shop-users", &[("users", "app:first\n")]).await;
        let behind_routers = specs::one_region("shop", 1) + "  auth: {secretName: shop-users}\n";
        let refused = fixture
            .apply(&behind_routers)
            .await
            .unwrap_err()
            .to_string();
        assert!(refused.contains("mcrouter cannot log in"), "{refused}");
        let direct = behind_routers.replace("router:\n", "router:\n    mode: none\n");
        fixture.apply(&direct).await.unwrap();
        fixture.ready("shop").await;

        let mut nobody = fixture.connect("shop-main-0").await.unwrap();
        assert!(nobody.get("k").await.is_err());
        let (_, answer) = log_in(&fixture, "app wrong").await.unwrap();
        assert!(answer.starts_with("CLIENT_ERROR"), "{answer}");
        let (mut app, answer) = log_in(&fixture, "app first").await.unwrap();
        assert_eq!(answer, "STORED");
        assert_eq!(app.set("k", "v").await.unwrap(), "STORED");
        assert_eq!(app.get("k").await.unwrap().as_deref(), Some("v"));

        let before = secrets::lives(&fixture).await;
        secrets::put(&fixture, "shop-users", &[("users", "app:second\n")]).await;
        secrets::deliver(&fixture, "changed").await;
        eventually("the new password is taken", || async {
            let (_, answer) = log_in(&fixture, "app second").await?;
            ensure!(answer == "STORED", "{answer}");
            anyhow::Ok(())
        })
        .await;
        let (_, answer) = log_in(&fixture, "app first").await.unwrap();
        assert!(answer.starts_with("CLIENT_ERROR"), "{answer}");
        assert_eq!(secrets::lives(&fixture).await, before);
    })
    .await;
}
