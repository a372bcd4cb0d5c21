//! Certificates and users in pods: the volumes they are mounted from, and the arguments that name their files.
//!
//! Volumes of a Secret are read-only and follow it while the pod runs. Only the Secret's name stands in the pod template, so
//! that new content restarts nothing.

use k8s_openapi::api::core::v1::{
    EnvVar, KeyToPath, PodSpec, SecretVolumeSource, Volume, VolumeMount,
};

use crate::controller::validate::{ValidatedCluster, ValidatedTls};
use crate::crd::{Auth, AuthMethod};
use crate::names::{MEMCACHED_PORT, MEMCACHED_TLS_PORT, RegionNames};

/// Where the certificate is mounted.
const TLS_DIR: &str = "/etc/petracache/tls";

/// Where the list of users is mounted.
const AUTH_DIR: &str = "/etc/petracache/auth";

/// Readable for the pod's group, which is that of its one user, and for nobody else.
const SECRET_MODE: i32 = 0o440;

/// A Secret as a folder of a container.
struct Mounted {
    volume: Volume,
    mount: VolumeMount,
}

impl Mounted {
    /// Those of its keys that are named: one that is missing keeps the pod from starting, and the kubelet says which.
    fn new(name: &str, secret: &str, keys: &[&str], dir: &str) -> Self {
        let item = |key: &&str| KeyToPath {
            key: (*key).to_owned(),
            path: (*key).to_owned(),
            mode: None,
        };
        Self {
            volume: Volume {
                name: name.to_owned(),
                secret: Some(SecretVolumeSource {
                    secret_name: Some(secret.to_owned()),
                    default_mode: Some(SECRET_MODE),
                    items: Some(keys.iter().map(item).collect()),
                    ..SecretVolumeSource::default()
                }),
                ..Volume::default()
            },
            mount: VolumeMount {
                name: name.to_owned(),
                mount_path: dir.to_owned(),
                read_only: Some(true),
                ..VolumeMount::default()
            },
        }
    }

    /// Adds it to a pod of one container.
    fn add_to(self, pod: &mut PodSpec) {
        pod.volumes.get_or_insert_default().push(self.volume);
        for container in &mut pod.containers {
            let mounts = container.volume_mounts.get_or_insert_default();
            mounts.push(self.mount.clone());
        }
    }
}

/// Encrypts the connections of a node, and lets users log in.
pub(super) fn secure_node(pod: &mut PodSpec, cluster: &ValidatedCluster, names: &RegionNames) {
    if let Some(tls) = &cluster.tls {
        let authorities = tls.demanded_by_nodes.then_some("ca.crt");
        let keys: Vec<&str> = ["tls.crt", "tls.key"]
            .into_iter()
            .chain(authorities)
            .collect();
        Mounted::new("tls", &tls.secret(names), &keys, TLS_DIR).add_to(pod);
        add_arguments(pod, node_tls_arguments(tls));
    }
    if let Some(auth) = &cluster.auth {
        Mounted::new("auth", &auth.secret_name, &[&auth.key], AUTH_DIR).add_to(pod);
        ask_for_users(pod, auth);
    }
}

/// Encrypts the connections of a router on both of its sides.
pub(super) fn secure_router(pod: &mut PodSpec, tls: &ValidatedTls, names: &RegionNames) {
    let keys = ["tls.crt", "tls.key", "ca.crt"];
    Mounted::new("tls", &tls.secret(names), &keys, TLS_DIR).add_to(pod);
}

/// The ports that a router listens on, with their names. The first is there whatever else the spec allows, and is probed.
pub(super) fn router_ports(tls: Option<&ValidatedTls>) -> Vec<(&'static str, i32)> {
    let plain = ("memcached", MEMCACHED_PORT);
    let encrypted = ("memcached-tls", MEMCACHED_TLS_PORT);
    match tls {
        None => vec![plain],
        Some(tls) if tls.plain_port => vec![encrypted, plain],
        Some(_) => vec![encrypted],
    }
}

/// mcrouter's arguments for the ports of [`router_ports`], and for the certificate that it shows to clients and to nodes.
pub(super) fn router_arguments(tls: Option<&ValidatedTls>) -> Vec<String> {
    let mut arguments = Vec::new();
    if tls.is_none_or(|tls| tls.plain_port) {
        arguments.push(format!("--port={MEMCACHED_PORT}"));
    }
    if tls.is_some() {
        arguments.push(format!("--ssl-port={MEMCACHED_TLS_PORT}"));
        // To clients, and to nodes. It checks that nodes have a certificate of the authority, and never their names.
        for side in ["server-pem", "pem"] {
            arguments.push(format!("--{side}-cert-path={TLS_DIR}/tls.crt"));
            arguments.push(format!("--{side}-key-path={TLS_DIR}/tls.key"));
            arguments.push(format!("--{side}-ca-path={TLS_DIR}/ca.crt"));
        }
        arguments.push("--ssl-verify-peers".to_owned());
    }
    arguments
}

fn node_tls_arguments(tls: &ValidatedTls) -> Vec<String> {
    let mut options = format!("ssl_chain_cert={TLS_DIR}/tls.crt,ssl_key={TLS_DIR}/tls.key");
    if tls.demanded_by_nodes {
        options += &format!(",ssl_ca_cert={TLS_DIR}/ca.crt,ssl_verify_mode=2");
    }
    vec!["--enable-ssl".to_owned(), format!("--extended={options}")]
}

fn ask_for_users(pod: &mut PodSpec, auth: &Auth) {
    let file = format!("{AUTH_DIR}/{}", auth.key);
    match auth.method {
        AuthMethod::Text => add_arguments(pod, vec![format!("--auth-file={file}")]),
        AuthMethod::Sasl => {
            add_arguments(pod, vec!["--enable-sasl".to_owned()]);
            for container in &mut pod.containers {
                container.env.get_or_insert_default().push(EnvVar {
                    name: "MEMCACHED_SASL_PWDB".to_owned(),
                    value: Some(file.clone()),
                    value_from: None,
                });
            }
        }
    }
}

fn add_arguments(pod: &mut PodSpec, arguments: Vec<String>) {
    for container in &mut pod.containers {
        let all = container.args.get_or_insert_default();
        all.extend(arguments.iter().cloned());
    }
}
