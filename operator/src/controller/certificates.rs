//! Client: what there is of cert-manager's certificates. They are fetched by name, because a watch of a kind that the API
//! server may not know would never begin.

use kube::api::{Api, DynamicObject};
use kube::{Client, ResourceExt};

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
            }
            Ok(None) => {}
            Err(error) => {
                let certificate = region.names.certificate();
                tracing::warn!(certificate, namespace = cluster.namespace, %error, "a Certificate cannot be read");
            }
        }
    }
}
