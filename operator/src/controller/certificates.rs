//! Client: what there is of cert-manager's certificates. They are fetched by name, because a watch of a kind that the API
//! server may not know would never begin.

use kube::api::{Api, DynamicObject};
use kube::{Client, ResourceExt};
use serde_json::Value;

use super::dereference::{Observed, live};
use super::validate::ValidatedCluster;
use crate::object::{Kind, ObjectKey};

/// Adds the certificates of the cluster's regions to `observed`; also those that are no longer wanted. Clusters without TLS
/// never had any. What cannot be fetched is written again, or deleted later.
pub async fn look(client: &Client, cluster: &ValidatedCluster, observed: &mut Observed) {
    if cluster.tls.is_none() {
        return;
    }
    let resource = Kind::Certificate.api_resource();
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), &cluster.namespace, &resource);
    for region in cluster.built() {
        match api.get_opt(&region.names.certificate()).await {
            Ok(Some(certificate)) => {
                let key = ObjectKey {
                    kind: Kind::Certificate,
                    name: certificate.name_any(),
                };
                observed.objects.insert(key, live(&certificate));
                if let Some(why) = trouble(&certificate) {
                    observed.uncertified.insert(region.names.node_set(), why);
                }
            }
            Ok(None) => {}
            Err(error) => {
                let certificate = region.names.certificate();
                tracing::warn!(certificate, namespace = cluster.namespace, %error, "a Certificate cannot be read");
            }
        }
    }
}

/// What cert-manager says as long as there is nothing in the Secret.
fn trouble(certificate: &DynamicObject) -> Option<String> {
    let name = certificate.name_any();
    let conditions = certificate.data.pointer("/status/conditions");
    let ready = conditions
        .and_then(Value::as_array)
        .and_then(|conditions| conditions.iter().find(|one| one["type"] == "Ready"));
    match ready {
        Some(ready) if ready["status"] == "True" => None,
        Some(ready) => {
            let message = ready["message"].as_str().unwrap_or("it does not say why");
            Some(format!("Certificate {name} is not ready: {message}"))
        }
        None => Some(format!(
            "cert-manager has not looked at Certificate {name}: see whether it runs"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_certificate_that_is_not_ready_says_why() {
        let certificate = |status: Value| -> DynamicObject {
            let object = json!({"metadata": {"name": "c-a-tls"}, "status": status});
            serde_json::from_value(object).unwrap()
        };
        let ready = |status: &str| {
            let issuing = json!({"type": "Issuing", "status": "True"});
            let ready = json!({"type": "Ready", "status": status, "message": "no issuer x"});
            certificate(json!({"conditions": [issuing, ready]}))
        };
        assert_eq!(trouble(&ready("True")), None);
        let why = trouble(&ready("False")).unwrap();
        assert_eq!(why, "Certificate c-a-tls is not ready: no issuer x");
        let unseen = trouble(&certificate(json!({}))).unwrap();
        assert!(unseen.contains("see whether it runs"), "{unseen}");
    }
}
