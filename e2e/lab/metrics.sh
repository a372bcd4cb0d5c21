# shellcheck shell=bash
# What a region started with METRICS=yes has besides: a metrics-server, so that `kubectl top` and autoscalers work.

# metrics_add_region REGION: its certificate, and a kubeconfig for what it reads.
metrics_add_region() {
  user "$1" metrics-server /CN=system:metrics-server
  certificate "$1" metrics-serving /CN=metrics-server "DNS:metrics-server.kube-system.svc,IP:$(router "$1")"
}

# metrics_apply REGION: the API server sends metrics.k8s.io to it. It runs beside the API server, not in a pod.
metrics_apply() {
  sed -e "s/ADDRESS/$(router "$1")/" -e "s/CA_BUNDLE/$(base64 -w 0 "$(pki "$1")/ca.crt")/" "$LAB/manifests/metrics.yaml" |
    kubectl_in "$1" apply -f - > "$STATE/$1/metrics.log" 2>&1 ||
    die "applying $LAB/manifests/metrics.yaml failed: $(tail -3 "$STATE/$1/metrics.log")"
}

# Namespaces do not end while an API service is not there.
metrics_await() { # REGION
  await "$1" "the metrics API of region $1" 60 \
    kubectl_in "$1" wait --for=condition=Available apiservice/v1beta1.metrics.k8s.io --timeout=2s
}

# Called inside the control plane's machine. Ten seconds is the shortest interval that it takes.
metrics_component() {
  component metrics-server "$BIN/metrics-server" --kubeconfig "$PKI/metrics-server.kubeconfig" \
    --authentication-kubeconfig "$PKI/metrics-server.kubeconfig" --authorization-kubeconfig "$PKI/metrics-server.kubeconfig" \
    --bind-address "$(address "$MACHINE")" --secure-port 10250 --metric-resolution 10s --kubelet-request-timeout 5s \
    --tls-cert-file "$PKI/metrics-serving.crt" --tls-private-key-file "$PKI/metrics-serving.key" \
    --kubelet-certificate-authority "$PKI/ca.crt" --kubelet-preferred-address-types InternalIP
}
