// The definitions of PodMonitor and PrometheusRule, which the chart makes when it is asked to. Nothing is built of it.
module petracache.io/lab/prometheus-operator

go 1.26

require github.com/prometheus-operator/prometheus-operator v0.85.0
