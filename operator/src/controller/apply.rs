//! Client required. Wanted objects are applied in order, then those that are no longer wanted are deleted.
//!
//! Nothing is written when nothing changed. The API server fills in defaults and rewrites quantities, so what is wanted
//! never looks like what is there. Instead it is remembered what was wanted at the last write and what the API server made of it:
//! while both are still so, there is nothing to do. An operator that has just started remembers nothing: it takes an object for
//! written when that carries the digest of what is wanted, and still says all of it.
//!
//! What exists is written only over what was seen: an operator that lost the lease without noticing, as one that was frozen for
//! a while, has seen something older than what its follower wrote.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::dereference::{LiveObject, Observed, controller_of};
use crate::names::{APPLIED_ANNOTATION, MANAGER, OURS};
use crate::object::{ContentDigest, Kind, ObjectKey, Wanted, content_digest, is_older, is_within};

/// Why an object is not as it shall be.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The API server refused a write.
    #[error("{key} cannot be applied: {source}")]
    Refused {
        /// The object.
        key: ObjectKey,
        /// The answer.
        source: kube::Error,
    },
    /// The API server does not know the kind.
    #[error(
        "{0} cannot be applied, because the API server knows no Certificates of cert-manager.io/v1: install cert-manager, or name a Secret that is there in spec.tls.secretName instead of spec.tls.certManager"
    )]
    NoCertManager(ObjectKey),
    /// Somebody else's object has the name.
    #[error(
        "{key} exists and is not this cluster's (it belongs to {owner}): delete it, or give the cluster or the region another name"
    )]
    NameTaken {
        /// The object.
        key: ObjectKey,
        /// Its owner.
        owner: String,
    },
    /// Somebody wrote it after it was seen.
    #[error("{key} is not what it was when it was looked at")]
    Overtaken {
        /// The object.
        key: ObjectKey,
    },
    /// The API server's answer is no object.
    #[error("{key} was applied but its answer cannot be read: {source}")]
    Unreadable {
        /// The object.
        key: ObjectKey,
        /// What is wrong.
        source: serde_json::Error,
    },
}

/// Proof that everything wanted was applied; what was written on the way.
#[derive(Debug, Default)]
pub struct Applied {
    /// Objects that were created or changed.
    pub written: Vec<ObjectKey>,
    /// Objects that were deleted.
    pub deleted: Vec<ObjectKey>,
    /// Objects that are no longer wanted but that routers may still use.
    pub kept: Vec<ObjectKey>,
}

/// Applies objects and remembers how that ended.
pub struct Applier {
    client: Client,
    memory: Mutex<HashMap<(String, ObjectKey), Remembered>>,
}

#[derive(Clone)]
struct Remembered {
    wanted: ContentDigest,
    live: ContentDigest,
    resource_version: Option<String>,
}

impl Remembered {
    /// What an earlier operator wrote.
    fn of(wanted: ContentDigest, live: &LiveObject) -> Self {
        Self {
            wanted,
            live: live.digest,
            resource_version: live.resource_version.clone(),
        }
    }
}

/// On whose behalf objects are applied.
#[derive(Debug, Clone, Copy)]
pub struct Owner<'a> {
    /// Namespace of the cluster and of its objects.
    pub namespace: &'a str,
    /// The reference that the objects carry.
    pub reference: &'a OwnerReference,
    /// Whether no router uses nodes any more that are not in the wanted configuration.
    pub may_remove_nodes: bool,
}

impl Applier {
    /// An applier that remembers nothing yet.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            memory: Mutex::default(),
        }
    }

    /// Makes `wanted` true and removes what `owner` has beyond it.
    ///
    /// # Errors
    ///
    /// The first write that failed; those before it are done, those after it are not.
    pub async fn apply(
        &self,
        owner: Owner<'_>,
        wanted: &[Wanted],
        observed: &Observed,
    ) -> Result<Applied, ApplyError> {
        let mut applied = Applied::default();
        for object in wanted {
            let live = observed.objects.get(&object.key);
            if self.is_needed(owner, object, live) {
                self.write(owner, object, live).await?;
                applied.written.push(object.key.clone());
            }
        }
        self.delete_orphans(owner, wanted, observed, &mut applied)
            .await?;
        Ok(applied)
    }

    fn is_needed(&self, owner: Owner<'_>, object: &Wanted, live: Option<&LiveObject>) -> bool {
        let Some(live) = live else {
            return true;
        };
        let wanted = content_digest(&object.body);
        let key = (owner.namespace.to_owned(), object.key.clone());
        let mut memory = self.memory();
        let Some(remembered) = memory.get(&key) else {
            let needed = !was_applied(owner, object, wanted, live);
            if !needed {
                memory.insert(key, Remembered::of(wanted, live));
            }
            return needed;
        };
        let as_written = remembered.live == live.digest
            || is_older(
                live.resource_version.as_deref(),
                remembered.resource_version.as_deref(),
            );
        !(as_written && remembered.wanted == wanted)
    }

    async fn write(
        &self,
        owner: Owner<'_>,
        object: &Wanted,
        live: Option<&LiveObject>,
    ) -> Result<(), ApplyError> {
        let key = &object.key;
        let api = self.api(owner.namespace, key.kind);
        let refused = |source| refused(key, source);
        match live {
            Some(live) => check_owner(owner, key, live.owner.as_ref(), true)?,
            None => {
                if let Some(existing) = api.get_metadata_opt(&key.name).await.map_err(refused)? {
                    let labelled = OURS.split_once('=').is_some_and(|(label, value)| {
                        existing.labels().get(label).is_some_and(|is| is == value)
                    });
                    check_owner(owner, key, controller_of(&existing).as_ref(), labelled)?;
                }
            }
        }
        let mut wanted = content_digest(&object.body);
        let mut body = marked(object, wanted);
        if let Some(version) = live.and_then(|live| self.newest_version(owner, key, live)) {
            body["metadata"]["resourceVersion"] = Value::String(version);
        }
        if let Some(live) = live.filter(|_| key.kind == Kind::StatefulSet) {
            let held_back = self.hold_back(&api, live, &mut body).await;
            if held_back.map_err(refused)? {
                // This is not what is wanted: that is still to be written.
                wanted = content_digest(&body);
            }
        }
        let parameters = PatchParams::apply(MANAGER).force();
        let answer = api
            .patch(&key.name, &parameters, &Patch::Apply(&body))
            .await;
        let answer = answer.map_err(refused)?;
        tracing::info!(object = %key, namespace = owner.namespace, "applied");
        let digest = typed_digest(key.kind, &answer).map_err(|source| ApplyError::Unreadable {
            key: key.clone(),
            source,
        })?;
        self.memory().insert(
            (owner.namespace.to_owned(), key.clone()),
            Remembered {
                wanted,
                live: digest,
                resource_version: answer.resource_version(),
            },
        );
        Ok(())
    }

    /// The version of what was seen or written last.
    fn newest_version(
        &self,
        owner: Owner<'_>,
        key: &ObjectKey,
        live: &LiveObject,
    ) -> Option<String> {
        let memory = self.memory();
        let remembered = memory.get(&(owner.namespace.to_owned(), key.clone()));
        let written = remembered.and_then(|remembered| remembered.resource_version.as_deref());
        let seen = live.resource_version.as_deref();
        let newest = if is_older(seen, written) {
            written
        } else {
            seen
        };
        newest.map(str::to_owned)
    }

    /// Keeps `body` from restarting any pod if its template differs from that of `live`, and says whether it does. That is asked of
    /// the API server, which alone knows its defaults.
    async fn hold_back(
        &self,
        api: &Api<DynamicObject>,
        live: &LiveObject,
        body: &mut Value,
    ) -> kube::Result<bool> {
        let name = body["metadata"]["name"].as_str().unwrap_or_default();
        let parameters = PatchParams::apply(MANAGER).force().dry_run();
        let answer = api.patch(name, &parameters, &Patch::Apply(&*body)).await?;
        let Ok(answer) = typed(Kind::StatefulSet, &answer) else {
            return Ok(false);
        };
        let differs = answer["spec"]["template"] != live.content["spec"]["template"];
        if differs {
            let rolling = json!({"partition": body["spec"]["replicas"]});
            let strategy = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
            body["spec"]["updateStrategy"] = strategy;
        }
        Ok(differs)
    }

    async fn delete_orphans(
        &self,
        owner: Owner<'_>,
        wanted: &[Wanted],
        observed: &Observed,
        applied: &mut Applied,
    ) -> Result<(), ApplyError> {
        let wanted: BTreeSet<&ObjectKey> = wanted.iter().map(|object| &object.key).collect();
        // Routers go before nodes, the other way round than they came.
        for (key, live) in observed.objects.iter().rev() {
            let owned = live
                .owner
                .as_ref()
                .is_some_and(|of| of.uid == owner.reference.uid);
            if !owned || live.deleting || wanted.contains(key) {
                continue;
            }
            if is_of_nodes(key, observed) && !owner.may_remove_nodes {
                applied.kept.push(key.clone());
                continue;
            }
            self.delete(owner, key, live).await?;
            applied.deleted.push(key.clone());
        }
        Ok(())
    }

    async fn delete(
        &self,
        owner: Owner<'_>,
        key: &ObjectKey,
        live: &LiveObject,
    ) -> Result<(), ApplyError> {
        let this_one = Preconditions {
            uid: Some(live.uid.clone()),
            resource_version: None,
        };
        let parameters = DeleteParams::background().preconditions(this_one);
        let deleted = self
            .api(owner.namespace, key.kind)
            .delete(&key.name, &parameters)
            .await;
        match deleted {
            Ok(_) => tracing::info!(object = %key, namespace = owner.namespace, "deleted"),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(source) => {
                return Err(ApplyError::Refused {
                    key: key.clone(),
                    source,
                });
            }
        }
        self.memory()
            .remove(&(owner.namespace.to_owned(), key.clone()));
        Ok(())
    }

    fn api(&self, namespace: &str, kind: Kind) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &kind.api_resource())
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, HashMap<(String, ObjectKey), Remembered>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refused(key: &ObjectKey, source: kube::Error) -> ApplyError {
    match &source {
        kube::Error::Api(status) if status.code == 409 => {
            ApplyError::Overtaken { key: key.clone() }
        }
        kube::Error::Api(status) if status.code == 404 && key.kind == Kind::Certificate => {
            ApplyError::NoCertManager(key.clone())
        }
        _ => ApplyError::Refused {
            key: key.clone(),
            source,
        },
    }
}

/// Whether an earlier operator applied just this, and nobody has changed it since.
fn was_applied(
    owner: Owner<'_>,
    object: &Wanted,
    wanted: ContentDigest,
    live: &LiveObject,
) -> bool {
    let ours = live
        .owner
        .as_ref()
        .is_some_and(|of| of.uid == owner.reference.uid);
    ours && !live.deleting && is_within(&marked(object, wanted), &live.content)
}

/// The object as it is sent: with the digest of what is wanted.
fn marked(object: &Wanted, wanted: ContentDigest) -> Value {
    let mut body = object.body.clone();
    body["metadata"]["annotations"][APPLIED_ANNOTATION] = Value::String(hex(wanted));
    body
}

fn hex(digest: ContentDigest) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether routers use the object to reach nodes: the `StatefulSet` itself, and the Service that names its pods.
fn is_of_nodes(key: &ObjectKey, observed: &Observed) -> bool {
    match key.kind {
        Kind::StatefulSet => true,
        Kind::Service => observed.node_sets.contains_key(&key.name),
        _ => false,
    }
}

/// An object without a controller is taken over when it carries our label: somebody kept it on purpose.
fn check_owner(
    owner: Owner<'_>,
    key: &ObjectKey,
    controller: Option<&OwnerReference>,
    labelled: bool,
) -> Result<(), ApplyError> {
    let other = match controller {
        Some(of) if of.uid == owner.reference.uid => return Ok(()),
        None if labelled => return Ok(()),
        Some(of) => format!("{} {}", of.kind, of.name),
        None => "nobody that says so".to_owned(),
    };
    Err(ApplyError::NameTaken {
        key: key.clone(),
        owner: other,
    })
}

/// The digest of `object` as the caches will show it.
fn typed_digest(kind: Kind, object: &DynamicObject) -> serde_json::Result<ContentDigest> {
    typed(kind, object).map(|value| content_digest(&value))
}

/// `object` as the caches will show it, which know only the fields of the types.
fn typed(kind: Kind, object: &DynamicObject) -> serde_json::Result<Value> {
    use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
    use k8s_openapi::api::core::v1::{ConfigMap, Service};
    use k8s_openapi::api::networking::v1::NetworkPolicy;
    use k8s_openapi::api::policy::v1::PodDisruptionBudget;
    fn through<K: serde::Serialize + serde::de::DeserializeOwned>(
        object: serde_json::Value,
    ) -> serde_json::Result<serde_json::Value> {
        serde_json::to_value(serde_json::from_value::<K>(object)?)
    }
    let value = serde_json::to_value(object)?;
    match kind {
        // Known as a whole.
        Kind::Certificate => Ok(value),
        Kind::ConfigMap => through::<ConfigMap>(value),
        Kind::Service => through::<Service>(value),
        Kind::PodDisruptionBudget => through::<PodDisruptionBudget>(value),
        Kind::NetworkPolicy => through::<NetworkPolicy>(value),
        Kind::StatefulSet => through::<StatefulSet>(value),
        Kind::Deployment => through::<Deployment>(value),
        Kind::DaemonSet => through::<DaemonSet>(value),
    }
}

#[cfg(test)]
mod tests;
