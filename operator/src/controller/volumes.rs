//! Client required. Volumes grow while nodes run, one step at a time.
//!
//! Claims are told their new size first, and whoever provides them makes the volumes grow. Kubernetes lets nobody change the
//! size in a `StatefulSet`: when all claims have grown it is deleted without its pods, and the next reconciliation
//! makes it anew around them.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::dereference::Observed;
use super::plan::Plan;
use super::validate::ValidatedRegion;
use crate::crd::ByteSize;
use crate::names::{Component, VOLUME};
use crate::object::{Kind, ObjectKey};

/// How far the volumes of a region are that are smaller than the spec wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Growth {
    /// They grow: what is waited for.
    UnderWay(String),
    /// They do not: why.
    Refused(String),
}

/// Takes the next step of every region whose volumes are smaller than the spec wants, by the name of its `StatefulSet`.
pub async fn grow(client: &Client, plan: &Plan, observed: &Observed) -> BTreeMap<String, Growth> {
    let mut growing = BTreeMap::new();
    let size = &plan.cluster.node.storage_size;
    for region in plan.cluster.built() {
        let set = region.names.node_set();
        let made_with = observed.volume_sizes.get(&set);
        if made_with.is_some_and(|made_with| is_less(made_with, size)) {
            let growth = match grow_region(client, region, size, observed).await {
                Ok(wait) => Growth::UnderWay(wait),
                Err(error) => Growth::Refused(error.to_string()),
            };
            growing.insert(set, growth);
        }
    }
    growing
}

/// Takes one step. What is waited for then.
async fn grow_region(
    client: &Client,
    region: &ValidatedRegion,
    size: &ByteSize,
    observed: &Observed,
) -> kube::Result<String> {
    let claims = claims(client, region).await?;
    for claim in claims.iter().filter(|claim| wants_less(claim, size)) {
        ask_for(client, claim, size).await?;
    }
    let small = claims.iter().filter(|claim| has_less(claim, size));
    let small: Vec<String> = small.map(ResourceExt::name_any).collect();
    if !small.is_empty() {
        return Ok(format!("these claims grow: {}", small.join(", ")));
    }
    let set = region.names.node_set();
    let key = ObjectKey {
        kind: Kind::StatefulSet,
        name: set.clone(),
    };
    if let Some(live) = observed.objects.get(&key).filter(|live| !live.deleting) {
        forget_set(client, region, &live.uid).await?;
    }
    Ok(format!(
        "StatefulSet {set} is made anew around its pods, which run on"
    ))
}

/// The claims of a region, those of nodes that were scaled away too.
async fn claims(
    client: &Client,
    region: &ValidatedRegion,
) -> kube::Result<Vec<PersistentVolumeClaim>> {
    let selector = region.names.selector(Component::Node);
    let labels: Vec<String> = selector.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let api: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &region.names.namespace);
    let found = api
        .list(&ListParams::default().labels(&labels.join(",")))
        .await?;
    let prefix = format!("{VOLUME}-{}-", region.names.node_set());
    let ours = |claim: &PersistentVolumeClaim| claim.name_any().starts_with(&prefix);
    Ok(found.items.into_iter().filter(ours).collect())
}

async fn ask_for(
    client: &Client,
    claim: &PersistentVolumeClaim,
    size: &ByteSize,
) -> kube::Result<()> {
    let namespace = claim.namespace().unwrap_or_default();
    let api: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &namespace);
    let name = claim.name_any();
    let patch = json!({"spec": {"resources": {"requests": {"storage": size.0}}}});
    api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
        .await?;
    tracing::info!(claim = name, namespace, %size, "grows");
    Ok(())
}

/// Deletes this very `StatefulSet` and leaves its pods and claims.
async fn forget_set(client: &Client, region: &ValidatedRegion, uid: &str) -> kube::Result<()> {
    let api: Api<StatefulSet> = Api::namespaced(client.clone(), &region.names.namespace);
    let this_one = Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: None,
    };
    let parameters = DeleteParams::orphan().preconditions(this_one);
    match api.delete(&region.names.node_set(), &parameters).await {
        Err(kube::Error::Api(answer)) if answer.code == 404 => Ok(()),
        other => other.map(drop),
    }
}

/// Whether a claim that can grow asks for less than `size`. One without a volume cannot, until it has one.
fn wants_less(claim: &PersistentVolumeClaim, size: &ByteSize) -> bool {
    let status = claim.status.as_ref();
    let bound = status.and_then(|status| status.phase.as_deref()) == Some("Bound");
    let requests = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let requests = requests.and_then(|resources| resources.requests.as_ref());
    let wanted = requests.and_then(|requests| requests.get("storage"));
    bound && wanted.is_none_or(|wanted| is_less(&wanted.0, size))
}

/// Whether the volume of a claim is smaller than `size`.
fn has_less(claim: &PersistentVolumeClaim, size: &ByteSize) -> bool {
    let capacity = claim
        .status
        .as_ref()
        .and_then(|status| status.capacity.as_ref());
    let has = capacity.and_then(|capacity| capacity.get("storage"));
    has.is_none_or(|has| is_less(&has.0, size))
}

/// Whether `a` is a smaller size than `b`; not where one of them cannot be read.
fn is_less(a: &str, b: &ByteSize) -> bool {
    matches!((ByteSize(a.to_owned()).parse(), b.parse()), (Ok(a), Ok(b)) if a < b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(phase: &str, wants: &str, has: &str) -> PersistentVolumeClaim {
        serde_json::from_value(json!({
            "spec": {"resources": {"requests": {"storage": wants}}},
            "status": {"phase": phase, "capacity": {"storage": has}},
        }))
        .unwrap()
    }

    #[test]
    fn a_claim_is_told_once_and_waited_for_until_its_volume_has_grown() {
        let size = ByteSize::from("2Gi");
        for (phase, wants, has, to_tell, waits) in [
            ("Bound", "1Gi", "1Gi", true, true),
            ("Bound", "2Gi", "1Gi", false, true),
            ("Bound", "2048Mi", "2Gi", false, false),
            ("Bound", "3Gi", "3Gi", false, false),
            ("Pending", "1Gi", "1Gi", false, true),
        ] {
            let claim = claim(phase, wants, has);
            assert_eq!(wants_less(&claim, &size), to_tell, "{phase} {wants}");
            assert_eq!(has_less(&claim, &size), waits, "{phase} {has}");
        }
    }
}
