//! Encryption on both sides: a router in front of a router, so that each plays the server of the other's client.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::ensure;
use petra_e2e::authority::{Authority, Certificate};
use petra_e2e::eventually;
use petra_e2e::memcached::Connection;
use rustls::ClientConfig;
use serde_json::json;

use crate::bed::{Process, free_port, memcached, router, write};

/// client ── TLS ──► front ── TLS, both with certificates ──► back ──► memcached
struct Chain {
    folder: PathBuf,
    front: u16,
    _processes: [Process; 3],
}

impl Chain {
    /// `outgoing` says what the front router shows to the back one, and whom it trusts.
    async fn start(name: &str, authority: &Authority, outgoing: &[String]) -> Self {
        let folder = std::env::temp_dir().join(format!("petra-tls-{name}-{}", std::process::id()));
        let (behind, before) = (folder.join("back"), folder.join("front"));
        std::fs::create_dir_all(&behind).expect("a folder");
        std::fs::create_dir_all(&before).expect("a folder");
        put(&folder, "ours", authority, &issue(authority));
        let (server, back, front) = (free_port(), free_port(), free_port());
        let pool = |port: u16, mech: &str| {
            let pool = json!({"servers": [format!("127.0.0.1:{port}")], "security_mech": mech});
            json!({"pools": {"a": pool}, "route": "PoolRoute|a"}).to_string()
        };
        write(&behind, &pool(server, "plain"));
        write(&before, &pool(back, "ssl"));
        let mut demanding = serving(&folder, back);
        demanding.push("--ssl-require-peer-certs".to_owned());
        let mut forwarding = serving(&folder, front);
        forwarding.extend_from_slice(outgoing);
        let chain = Self {
            _processes: [
                memcached(server),
                router(&behind, &demanding),
                router(&before, &forwarding),
            ],
            folder,
            front,
        };
        eventually("both routers listen", || async {
            let trusting = authority.client(Some(&issue(authority)))?;
            Connection::open_tls(&format!("127.0.0.1:{back}"), "localhost", trusting.clone())
                .await?;
            chain.connect(trusting).await.map(drop)
        })
        .await;
        chain
    }

    async fn connect(&self, config: Arc<ClientConfig>) -> anyhow::Result<Connection> {
        Connection::open_tls(&format!("127.0.0.1:{}", self.front), "localhost", config).await
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        let _left_behind = std::fs::remove_dir_all(&self.folder);
    }
}

fn issue(authority: &Authority) -> Certificate {
    authority
        .issue(&["localhost", "127.0.0.1"])
        .expect("a certificate")
}

/// Writes the three files that a Secret would hold.
fn put(folder: &Path, name: &str, authority: &Authority, certificate: &Certificate) {
    let write = |file: &str, text: &str| {
        std::fs::write(folder.join(format!("{name}.{file}")), text).expect("writing");
    };
    write("ca", &authority.pem());
    write("crt", &certificate.certificate);
    write("key", &certificate.key);
}

fn files(folder: &Path, name: &str, side: &str) -> Vec<String> {
    let file = |option: &str, file: &str| {
        let path = folder.join(format!("{name}.{file}"));
        format!("--{side}-{option}-path={}", path.display())
    };
    vec![file("cert", "crt"), file("key", "key"), file("ca", "ca")]
}

fn serving(folder: &Path, port: u16) -> Vec<String> {
    let mut arguments = vec![format!("--ssl-port={port}")];
    arguments.extend(files(folder, "ours", "server-pem"));
    arguments
}

/// What a router shows and believes that is given the files `name` of a chain.
fn outgoing(chain: &str, name: &str) -> Vec<String> {
    let folder = std::env::temp_dir().join(format!("petra-tls-{chain}-{}", std::process::id()));
    let mut arguments = files(&folder, name, "pem");
    arguments.push("--ssl-verify-peers".to_owned());
    arguments
}

#[tokio::test]
async fn a_client_is_served_over_tls_and_a_new_certificate_is_shown_without_a_restart() {
    let ours = Authority::new("ours").unwrap();
    let chain = Chain::start("served", &ours, &outgoing("served", "ours")).await;
    let anonymous = ours.client(None).unwrap();
    let mut client = chain.connect(anonymous.clone()).await.unwrap();
    assert_eq!(client.set("k", "v").await.unwrap(), "STORED");
    assert_eq!(client.get("k").await.unwrap().as_deref(), Some("v"));

    let renewed = issue(&ours);
    put(&chain.folder, "ours", &ours, &renewed);
    eventually("the new certificate is shown", || async {
        let mut next = chain.connect(anonymous.clone()).await?;
        ensure!(next.certificate() == Some(&renewed.der()?));
        ensure!(next.get("k").await?.as_deref() == Some("v"));
        anyhow::Ok(())
    })
    .await;
    assert_eq!(client.get("k").await.unwrap().as_deref(), Some("v"));
}

#[tokio::test]
async fn who_speaks_no_tls_or_shows_anothers_certificate_is_not_served() {
    let (ours, theirs) = (
        Authority::new("ours").unwrap(),
        Authority::new("theirs").unwrap(),
    );
    let chain = Chain::start("refused", &ours, &outgoing("refused", "ours")).await;
    let mut plain = Connection::open(&format!("127.0.0.1:{}", chain.front))
        .await
        .unwrap();
    assert!(plain.get("k").await.is_err());
    let config = ours.client(Some(&issue(&theirs))).unwrap();
    let served = match chain.connect(config).await {
        Ok(mut client) => client.get("k").await.is_ok(),
        Err(_) => false,
    };
    assert!(!served, "a certificate of another authority was taken");
}

#[tokio::test]
async fn a_router_asks_no_server_that_it_does_not_trust_or_that_does_not_trust_it() {
    let (ours, theirs) = (
        Authority::new("ours").unwrap(),
        Authority::new("theirs").unwrap(),
    );
    // Trusts others, or shows nothing.
    let cases = [
        ("distrusts", outgoing("distrusts", "theirs")),
        ("anonymous", Vec::new()),
    ];
    for (name, arguments) in cases {
        let folder = std::env::temp_dir().join(format!("petra-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        put(&folder, "theirs", &theirs, &issue(&ours));
        let chain = Chain::start(name, &ours, &arguments).await;
        let mut client = chain.connect(ours.client(None).unwrap()).await.unwrap();
        let answer = client.line("get k").await.unwrap();
        assert!(answer.starts_with("SERVER_ERROR"), "{name}: {answer}");
    }
}
