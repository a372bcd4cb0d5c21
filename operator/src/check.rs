//! Client required. Whether an installation works: what `helm test` asks.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::ListParams;
use kube::{Api, Client};

use crate::crd::PetraCluster;

/// Why an installation does not work.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The API server does not know the resource, or refuses to show it.
    #[error(
        "PetraClusters cannot be listed: {0}: install the CRD, and the chart's role for this service account"
    )]
    Clusters(#[source] kube::Error),
    /// The lease cannot be read.
    #[error(
        "Lease {lease} cannot be read: {source}: is the operator of this namespace started with --lease {lease}?"
    )]
    Lease {
        /// Its name.
        lease: String,
        /// The API server's answer.
        source: kube::Error,
    },
    /// Nobody leads.
    #[error("no operator holds Lease {0}: look at the logs of the operator's pods")]
    NobodyLeads(String),
}

/// What works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Working {
    /// The operator that leads.
    pub leader: String,
    /// How many `PetraCluster`s there are.
    pub clusters: usize,
}

/// Lists `PetraCluster`s of `namespace`, or of all, and looks who holds `lease` in the client's own namespace.
///
/// # Errors
///
/// What does not work, and what to do.
pub async fn check(
    client: Client,
    lease: &str,
    namespace: Option<&str>,
) -> Result<Working, CheckError> {
    let clusters: Api<PetraCluster> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let found = clusters.list(&ListParams::default()).await;
    let leases: Api<Lease> = Api::default_namespaced(client);
    let held = leases
        .get(lease)
        .await
        .map_err(|source| CheckError::Lease {
            lease: lease.to_owned(),
            source,
        })?;
    Ok(Working {
        clusters: found.map_err(CheckError::Clusters)?.items.len(),
        leader: holder(&held, Timestamp::now())
            .ok_or_else(|| CheckError::NobodyLeads(lease.to_owned()))?,
    })
}

/// Who holds `lease` now.
fn holder(lease: &Lease, now: Timestamp) -> Option<String> {
    let spec = lease.spec.as_ref()?;
    let renewed = spec.renew_time.as_ref()?.0;
    let lasts = SignedDuration::from_secs(spec.lease_duration_seconds?.into());
    let holder = spec.holder_identity.clone()?;
    (now.duration_since(renewed) <= lasts && !holder.is_empty()).then_some(holder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_lease_is_held_until_it_ends() {
        let lease = |holder: &str| -> Lease {
            serde_json::from_value(
                json!({"spec": {"holderIdentity": holder, "leaseDurationSeconds": 15,
                "renewTime": "2026-01-01T00:00:00.000000Z"}}),
            )
            .unwrap()
        };
        let at =
            |second: &str| -> Timestamp { format!("2026-01-01T00:00:{second}Z").parse().unwrap() };
        assert_eq!(holder(&lease("a"), at("15")).as_deref(), Some("a"));
        assert_eq!(holder(&lease("a"), at("16")), None);
        assert_eq!(holder(&lease(""), at("01")), None);
        assert_eq!(holder(&Lease::default(), at("01")), None);
    }
}
