//! Encrypted connections.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::client::Client;
use crate::crowds;
use crate::harness::{Node, PATIENCE, free_addr, wait_until};

type Encrypted = BufReader<StreamOwned<ClientConnection, TcpStream>>;

/// An authority, and the files that a node is started with.
struct Files {
    dir: tempfile::TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Files {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec!["authority".to_owned()]).expect("good names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let files = Self {
            dir: tempfile::tempdir().expect("temporary directory"),
            authority: CertifiedIssuer::self_signed(params, key).expect("an authority"),
        };
        fs::write(files.path("ca"), files.authority.pem()).expect("written");
        files.issue("node");
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a new certificate and its key, and returns the certificate.
    fn issue(&self, name: &str) -> CertificateDer<'static> {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("good names");
        let certificate = params.signed_by(&key, &self.authority).expect("signed");
        fs::write(self.path(name), certificate.pem() + &key.serialize_pem()).expect("written");
        certificate.der().clone()
    }

    fn start(&self, options: &str, flags: &[&str]) -> Node {
        let options = format!("ssl_chain_cert={}{options}", self.path("node").display());
        let flags = [&["-Z", "-o", &options], flags].concat();
        Node::start(&self.path("db"), &flags)
    }

    fn client(&self, user: Option<&Path>) -> ClientConfig {
        let mut authorities = RootCertStore::empty();
        authorities
            .add(self.authority.der().clone())
            .expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(authorities);
        match user {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let certificate = CertificateDer::from_pem_file(path).expect("a certificate");
                let key = PrivateKeyDer::from_pem_file(path).expect("a key");
                builder
                    .with_client_auth_cert(vec![certificate], key)
                    .expect("good")
            }
        }
    }
}

fn connect(addr: SocketAddr, config: ClientConfig) -> Encrypted {
    let socket = TcpStream::connect(addr).expect("a connection");
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    socket.set_nodelay(true).expect("set");
    let name = "localhost".try_into().expect("a name");
    let session = ClientConnection::new(Arc::new(config), name).expect("a session");
    BufReader::new(StreamOwned::new(session, socket))
}

fn ask(stream: &mut Encrypted, line: &str) -> std::io::Result<String> {
    stream
        .get_mut()
        .write_all(format!("{line}\r\n").as_bytes())?;
    stream.get_mut().flush()?;
    let mut answer = String::new();
    stream.read_line(&mut answer)?;
    Ok(answer.trim_end().to_owned())
}

fn certificate(stream: &Encrypted) -> CertificateDer<'static> {
    let shown = stream
        .get_ref()
        .conn
        .peer_certificates()
        .expect("certificates");
    shown[0].clone().into_owned()
}

#[test]
fn encrypted_clients_are_served_and_others_are_not() {
    let files = Files::new();
    let plain = free_addr();
    let places = format!("127.0.0.1,notls:{plain}");
    let node = files.start("", &["-l", &places]);
    let mut client = connect(node.addr, files.client(None));
    assert_eq!(
        ask(&mut client, "set key 0 0 4\r\ndata").expect("an answer"),
        "STORED"
    );
    // Also what does not fit into one record.
    let long = "x".repeat(500_000);
    let set = format!("set long 0 0 {}\r\n{long}", long.len());
    assert_eq!(ask(&mut client, &set).expect("an answer"), "STORED");
    assert!(
        ask(&mut client, "get long")
            .expect("an answer")
            .starts_with("VALUE long 0 500000")
    );
    let mut line = String::new();
    client.read_line(&mut line).expect("the data");
    assert_eq!(line.trim_end(), long);
    assert_eq!(Client::connect(plain).get("key").as_deref(), Some("data"));
    let mut wrong = Client::connect(node.addr);
    wrong.send(b"version\r\n");
    assert!(!wrong.rest().starts_with(b"VERSION"));
    wait_until("the failure is counted", || {
        Client::connect(plain).stat("ssl_handshake_errors") == "1"
    });
}

#[test]
fn a_new_certificate_is_shown_without_a_restart() {
    let files = Files::new();
    let node = files.start("", &[]);
    let mut before = connect(node.addr, files.client(None));
    assert!(
        ask(&mut before, "version")
            .expect("an answer")
            .starts_with("VERSION")
    );
    let asked_for = files.issue("node");
    assert_eq!(ask(&mut before, "refresh_certs").expect("an answer"), "OK");
    let shown = || {
        let mut client = connect(node.addr, files.client(None));
        assert!(
            ask(&mut client, "version")
                .expect("an answer")
                .starts_with("VERSION")
        );
        certificate(&client)
    };
    assert_eq!(shown(), asked_for);
    let found = files.issue("node");
    wait_until("the new file is found", || shown() == found);
    fs::write(files.path("node"), "no certificate").expect("written");
    assert!(
        ask(&mut before, "refresh_certs")
            .expect("an answer")
            .starts_with("ERROR")
    );
    assert_eq!(
        shown(),
        found,
        "a mistake does not take the certificate away"
    );
    assert!(
        ask(&mut before, "version")
            .expect("an answer")
            .starts_with("VERSION")
    );
}

#[test]
fn clients_show_a_certificate_if_they_must() {
    let files = Files::new();
    files.issue("client");
    let options = format!(
        ",ssl_verify_mode=2,ssl_ca_cert={}",
        files.path("ca").display()
    );
    let node = files.start(&options, &[]);
    let mut known = connect(node.addr, files.client(Some(&files.path("client"))));
    assert!(
        ask(&mut known, "version")
            .expect("an answer")
            .starts_with("VERSION")
    );
    let mut unknown = connect(node.addr, files.client(None));
    assert!(ask(&mut unknown, "version").is_err());
}

#[test]
fn an_idle_encrypted_connection_takes_at_most_16_kib() {
    let files = Files::new();
    let node = files.start("", &["-c", "2100"]);
    let config = files.client(None);
    let data = "x".repeat(10_000);
    let connected = |answer: &str| {
        let mut client = connect(node.addr, config.clone());
        let add = format!("add key 0 0 {}\r\n{data}", data.len());
        assert_eq!(ask(&mut client, &add).expect("an answer"), answer);
        let value = ask(&mut client, "get key").expect("an answer");
        assert_eq!(value, "VALUE key 0 10000");
        for _ in 0..2 {
            client.read_line(&mut String::new()).expect("a line");
        }
        client
    };
    let _warm = connected("STORED");
    let before = node.own_memory();
    let clients: Vec<_> = (0..2000).map(|_| connected("NOT_STORED")).collect();
    crowds::expect_small(&node, before, clients.len(), "idle encrypted");
}

#[test]
fn files_that_are_no_certificate_are_named_at_the_start() {
    let files = Files::new();
    fs::write(files.path("node"), "nothing").expect("written");
    let options = format!("ssl_chain_cert={}", files.path("node").display());
    let output = Node::command(&files.path("db"), &["-Z", "-o", &options])
        .output()
        .expect("runs");
    assert!(!output.status.success());
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        log.contains(files.path("node").to_str().expect("text")),
        "{log}"
    );
}
