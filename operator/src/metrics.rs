//! Every metric that the operator exports, and nothing that decides by them.

use std::time::Duration;

use prometheus::{
    Encoder, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts,
    Registry, TextEncoder,
};

/// Handles of all metrics; cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    registry: Registry,
    reconciles: IntCounter,
    errors: IntCounter,
    durations: Histogram,
    steps: HistogramVec,
    writes: IntCounterVec,
    leading: IntGauge,
}

impl Metrics {
    /// Registers all metrics in a registry of their own.
    ///
    /// # Errors
    ///
    /// Two metrics of one name, which would be a mistake in this file.
    pub fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        let reconciles = IntCounter::new(
            "petra_operator_reconciles_total",
            "Reconciliations of PetraClusters.",
        )?;
        let errors = IntCounter::new(
            "petra_operator_reconcile_errors_total",
            "Reconciliations that failed and are retried.",
        )?;
        let durations = Histogram::with_opts(
            HistogramOpts::new(
                "petra_operator_reconcile_duration_seconds",
                "Time that a reconciliation takes.",
            )
            .buckets(vec![0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 20.0]),
        )?;
        let steps = HistogramVec::new(
            HistogramOpts::new(
                "petra_operator_step_duration_seconds",
                "Time that a step of a reconciliation takes: look, plan, apply, status.",
            )
            .buckets(vec![0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 20.0]),
            &["step"],
        )?;
        registry.register(Box::new(steps.clone()))?;
        let writes = IntCounterVec::new(
            Opts::new(
                "petra_operator_api_writes_total",
                "Writes to the API server, by kind of object and verb.",
            ),
            &["kind", "verb"],
        )?;
        let leading = IntGauge::new(
            "petra_operator_leading",
            "1 where this operator reconciles, 0 where it waits for its turn.",
        )?;
        registry.register(Box::new(leading.clone()))?;
        registry.register(Box::new(reconciles.clone()))?;
        registry.register(Box::new(errors.clone()))?;
        registry.register(Box::new(durations.clone()))?;
        registry.register(Box::new(writes.clone()))?;
        Ok(Self {
            registry,
            reconciles,
            errors,
            durations,
            steps,
            writes,
            leading,
        })
    }

    /// A reconciliation ended.
    pub fn count_reconcile(&self, duration: Duration, failed: bool) {
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

    /// A write was sent, whether it succeeded or not.
    pub fn count_write(&self, kind: &str, verb: &str) {
        self.writes.with_label_values(&[kind, verb]).inc();
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
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_exported() {
        let metrics = Metrics::new().unwrap();
        metrics.count_reconcile(Duration::from_millis(3), true);
        metrics.count_step("apply", Duration::from_millis(2));
        metrics.count_write("ConfigMap", "apply");
        let text = metrics.to_text().unwrap();
        for line in [
            "petra_operator_reconciles_total 1",
            "petra_operator_reconcile_errors_total 1",
            "petra_operator_api_writes_total{kind=\"ConfigMap\",verb=\"apply\"} 1",
            "petra_operator_reconcile_duration_seconds_count 1",
            "petra_operator_step_duration_seconds_count{step=\"apply\"} 1",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
    }
}
