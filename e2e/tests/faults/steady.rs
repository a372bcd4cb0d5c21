//! What must not happen while something else goes wrong: a configuration that comes and goes, a size that flaps.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::runtime::{WatchStreamExt, watcher};
use petra_e2e::Fixture;
use petra_operator::controller::build::routes;
use petra_operator::controller::layout::Used;
use petra_operator::controller::run::Impatient;
use petra_operator::names::CONFIG_KEY;
use petra_routing::Config;
use tokio::task::JoinHandle;

/// Everything that the routers of region `main` of `shop` were told to use, since this was made.
pub(crate) struct Steps {
    seen: Arc<Mutex<Vec<Used>>>,
    watch: JoinHandle<()>,
}

impl Steps {
    pub(crate) fn watch(fixture: &Fixture) -> Self {
        let only = watcher::Config::default().fields("metadata.name=shop-main-mcrouter");
        let api = fixture.api::<ConfigMap>();
        let seen: Arc<Mutex<Vec<Used>>> = Arc::default();
        let watch = tokio::spawn({
            let seen = Arc::clone(&seen);
            async move {
                let stream = watcher(api, only)
                    .backoff(Impatient::default())
                    .applied_objects();
                let mut maps = std::pin::pin!(stream);
                while let Some(map) = maps.next().await {
                    // The API server may be away.
                    let Ok(map) = map else { continue };
                    let text = map.data.unwrap_or_default().remove(CONFIG_KEY).unwrap();
                    let used = routes::used(&Config::from_json(&text).unwrap(), "main");
                    let mut seen = seen.lock().unwrap();
                    if seen.last() != Some(&used) {
                        seen.push(used);
                    }
                }
            }
        });
        Self { seen, watch }
    }

    /// Ends the watch, and checks that the way from `from` to `to` nodes was a straight one. A step may be missed while the API
    /// server is away, but none comes twice.
    pub(crate) fn went_straight(self, from: i32, to: i32) {
        self.watch.abort();
        let seen = self.seen.lock().unwrap();
        let way = Used::way(from, to);
        let at = |used: &Used| way.iter().position(|step| step == used);
        let positions: Vec<_> = seen.iter().map(at).collect();
        let is_straight = positions.iter().all(Option::is_some) && positions.is_sorted();
        assert!(is_straight && seen.last() == way.last(), "{seen:?}");
    }
}

/// The pods that region `main` of `shop` has had as nodes, since this was made.
pub(crate) struct Incarnations {
    seen: Arc<Mutex<BTreeSet<String>>>,
    watch: JoinHandle<()>,
}

impl Incarnations {
    pub(crate) fn watch(fixture: &Fixture) -> Self {
        let labels = "petracache.io/region=main,app.kubernetes.io/component=node";
        let only = watcher::Config::default().labels(labels);
        let api = fixture.api::<Pod>();
        let seen: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let watch = tokio::spawn({
            let seen = Arc::clone(&seen);
            async move {
                let stream = watcher(api, only)
                    .backoff(Impatient::default())
                    .applied_objects();
                let mut pods = std::pin::pin!(stream);
                while let Some(pod) = pods.next().await {
                    seen.lock()
                        .unwrap()
                        .extend(pod.ok().and_then(|pod| pod.metadata.uid));
                }
            }
        });
        Self { seen, watch }
    }

    pub(crate) fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

impl Drop for Incarnations {
    fn drop(&mut self) {
        self.watch.abort();
    }
}
