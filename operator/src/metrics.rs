//! Every metric that the operator exports, and nothing that decides by them.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kube::runtime::reflector::Store;
use prometheus::{
    Encoder, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts,
    Registry, TextEncoder,
};

use crate::crd::PetraCluster;

/// Bounds of the histograms, in seconds: from what caches answer to what an API server under load takes.
const BUCKETS: [f64; 8] = [0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 20.0];

/// Handles of all metrics; cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    registry: Registry,
    reconciles: IntCounter,
    errors: IntCounter,
    durations: Histogram,
    steps: HistogramVec,
    running: IntGauge,
    requests: IntCounterVec,
    request_durations: HistogramVec,
    leading: IntGauge,
    clusters: IntGauge,
    queue: IntGauge,
    seen: Arc<OnceLock<Store<PetraCluster>>>,
}

impl Metrics {
    /// Registers all metrics in a registry of their own.
    ///
    /// # Errors
    ///
    /// Two metrics of one name, which would be a mistake in this file.
    pub fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        Ok(Self {
            reconciles: counter(
                &registry,
                "petra_operator_reconciles_total",
                "Reconciliations of PetraClusters.",
            )?,
            errors: counter(
                &registry,
                "petra_operator_reconcile_errors_total",
                "Reconciliations that failed and are retried.",
            )?,
            durations: duration(
                &registry,
                "petra_operator_reconcile_duration_seconds",
                "Time that a reconciliation takes.",
            )?,
            steps: durations(
                &registry,
                "petra_operator_step_duration_seconds",
                "Time that a step of a reconciliation takes: look, plan, apply, status.",
                "step",
            )?,
            running: gauge(
                &registry,
                "petra_operator_reconciles_running",
                "Reconciliations that are under way.",
            )?,
            requests: requests(&registry)?,
            request_durations: durations(
                &registry,
                "petra_operator_api_request_duration_seconds",
                "Time until the API server's answer begins, by verb.",
                "verb",
            )?,
            leading: gauge(
                &registry,
                "petra_operator_leading",
                "1 where this operator reconciles, 0 where it waits for its turn.",
            )?,
            clusters: gauge(
                &registry,
                "petra_operator_clusters",
                "PetraClusters that this operator sees.",
            )?,
            queue: gauge(
                &registry,
                "petra_operator_queue_depth",
                "PetraClusters whose newest spec waits to be acted on.",
            )?,
            seen: Arc::default(),
            registry,
        })
    }

    /// Counts the clusters in `store` from now on.
    pub fn look_at(&self, store: Store<PetraCluster>) {
        // A second store would be another operator's.
        let _ = self.seen.set(store);
    }

    /// A reconciliation begins.
    pub fn begin_reconcile(&self) {
        self.running.inc();
    }

    /// A reconciliation ended.
    pub fn count_reconcile(&self, duration: Duration, failed: bool) {
        self.running.dec();
        self.reconciles.inc();
        self.errors.inc_by(u64::from(failed));
        self.durations.observe(duration.as_secs_f64());
    }

    /// A step of a reconciliation ended.
    pub fn count_step(&self, step: &str, duration: Duration) {
        self.steps
            .with_label_values(&[step])
            .observe(duration.as_secs_f64());
    }

    /// The API server answered a request for `resource` with `code`, or did not answer.
    pub fn count_request(&self, verb: &str, resource: &str, code: Option<u16>, after: Duration) {
        let code = code.map_or_else(|| "none".to_owned(), |code| code.to_string());
        self.requests
            .with_label_values(&[verb, resource, &code])
            .inc();
        self.request_durations
            .with_label_values(&[verb])
            .observe(after.as_secs_f64());
    }

    /// This operator leads from now on, or no longer does.
    pub fn set_leading(&self, leading: bool) {
        self.leading.set(i64::from(leading));
    }

    /// All metrics in Prometheus' text format.
    ///
    /// # Errors
    ///
    /// A metric that has no text form, which none of these is.
    pub fn to_text(&self) -> prometheus::Result<String> {
        self.count_clusters();
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn count_clusters(&self) {
        let Some(store) = self.seen.get() else {
            return;
        };
        let clusters = store.state();
        let waiting = clusters.iter().filter(|cluster| {
            let status = cluster.status.as_ref();
            status.and_then(|status| status.observed_generation) != cluster.metadata.generation
        });
        self.queue
            .set(i64::try_from(waiting.count()).unwrap_or(i64::MAX));
        self.clusters
            .set(i64::try_from(clusters.len()).unwrap_or(i64::MAX));
    }
}

fn counter(registry: &Registry, name: &str, help: &str) -> prometheus::Result<IntCounter> {
    let counter = IntCounter::new(name, help)?;
    registry.register(Box::new(counter.clone()))?;
    Ok(counter)
}

fn gauge(registry: &Registry, name: &str, help: &str) -> prometheus::Result<IntGauge> {
    let gauge = IntGauge::new(name, help)?;
    registry.register(Box::new(gauge.clone()))?;
    Ok(gauge)
}

fn duration(registry: &Registry, name: &str, help: &str) -> prometheus::Result<Histogram> {
    let options = HistogramOpts::new(name, help).buckets(BUCKETS.to_vec());
    let histogram = Histogram::with_opts(options)?;
    registry.register(Box::new(histogram.clone()))?;
    Ok(histogram)
}

fn durations(
    registry: &Registry,
    name: &str,
    help: &str,
    label: &str,
) -> prometheus::Result<HistogramVec> {
    let options = HistogramOpts::new(name, help).buckets(BUCKETS.to_vec());
    let histograms = HistogramVec::new(options, &[label])?;
    registry.register(Box::new(histograms.clone()))?;
    Ok(histograms)
}

fn requests(registry: &Registry) -> prometheus::Result<IntCounterVec> {
    let options = Opts::new(
        "petra_operator_api_requests_total",
        "Requests to the API server, by verb, resource and HTTP status; none where no answer came.",
    );
    let requests = IntCounterVec::new(options, &["verb", "resource", "code"])?;
    registry.register(Box::new(requests.clone()))?;
    Ok(requests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_exported() {
        let metrics = Metrics::new().unwrap();
        metrics.begin_reconcile();
        metrics.count_reconcile(Duration::from_millis(3), true);
        metrics.count_step("apply", Duration::from_millis(2));
        metrics.count_request("patch", "configmaps", Some(200), Duration::from_millis(2));
        let text = metrics.to_text().unwrap();
        for line in [
            "petra_operator_reconciles_total 1",
            "petra_operator_reconcile_errors_total 1",
            "petra_operator_reconciles_running 0",
            "petra_operator_api_requests_total{code=\"200\",resource=\"configmaps\",verb=\"patch\"} 1",
            "petra_operator_api_request_duration_seconds_count{verb=\"patch\"} 1",
            "petra_operator_reconcile_duration_seconds_count 1",
            "petra_operator_step_duration_seconds_count{step=\"apply\"} 1",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
    }
}
