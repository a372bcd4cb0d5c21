//! What cert-manager is asked for: one certificate for the nodes and routers of a region.
//!
//! cert-manager's kinds are written as JSON: its types are in no crate that the operator needs for anything else.

use kube::api::{DynamicObject, TypeMeta};
use serde_json::json;

use super::metadata;
use crate::controller::validate::{ValidatedCluster, ValidatedRegion};
use crate::crd::IssuerRef;
use crate::names::Component;
use crate::object::Kind;

/// The `Certificate` of `region`.
pub(super) fn certificate(
    cluster: &ValidatedCluster,
    region: &ValidatedRegion,
    issuer: &IssuerRef,
) -> DynamicObject {
    let names = &region.names;
    let resource = Kind::Certificate.api_resource();
    DynamicObject {
        types: Some(TypeMeta {
            api_version: resource.api_version,
            kind: resource.kind,
        }),
        metadata: metadata(cluster, region, Component::Node, names.certificate()),
        data: json!({"spec": {
            "secretName": names.certificate(),
            "issuerRef": {"name": issuer.name, "kind": issuer.kind, "group": issuer.group},
            "dnsNames": names.dns_names(),
            // Nodes are servers, routers are both.
            "usages": ["digital signature", "server auth", "client auth"],
            // Fast, and in every TLS library since 2010.
            "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
        }}),
    }
}
