#!/usr/bin/env bash
# Debian's Prometheus scrapes the lab as the chart's PodMonitors say: every alert is parsed and can be evaluated, and every
# query of the dashboard has data.
#
#   monitoring.sh KUBECONFIG     of a lab on which the chart is installed
set -euo pipefail
. "$(dirname "$0")/steps.sh"
FILES=$ROOT/charts/petracache/files
HOME_OF_PROMETHEUS=$PETRA_CACHE/out/prometheus
ADDRESS=127.0.0.1:${PROMETHEUS_PORT:-19090}
NAMESPACE=monitoring-check
PROMETHEUS=
kube=(kubectl --kubeconfig "$1")

main() {
  promtool check rules "$FILES/alerts.yaml"
  trap finish EXIT
  rm -rf "$HOME_OF_PROMETHEUS"; mkdir -p "$HOME_OF_PROMETHEUS"
  cluster
  configuration > "$HOME_OF_PROMETHEUS/prometheus.yaml"
  targets > "$HOME_OF_PROMETHEUS/targets.json"
  prometheus --config.file "$HOME_OF_PROMETHEUS/prometheus.yaml" --storage.tsdb.path "$HOME_OF_PROMETHEUS/data" \
    --web.listen-address "$ADDRESS" --log.level warn > "$HOME_OF_PROMETHEUS/log" 2>&1 &
  PROMETHEUS=$!
  local query
  while read -r query; do await_data "$query"; done < <(queries)
  while read -r query; do evaluated "$query"; done < <(alerts)
  await_data 'petracache_ready{petracluster="shop", region="main", pod="shop-main-0"}'
}

configuration() {
  cat <<Y
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: ["$FILES/alerts.yaml"]
scrape_configs:
  - job_name: petracache
    file_sd_configs: [{files: ["$HOME_OF_PROMETHEUS/targets.json"]}]
Y
}

# What the Prometheus operator discovers by charts/petracache/templates/monitoring.yaml; Debian's Prometheus cannot ask an API
# server itself.
targets() {
  "${kube[@]}" get pods -A -l 'app.kubernetes.io/name in (petracache, petra-operator)' -o json | jq '
    def port: [.spec.containers[].ports[]? | select(.name == "admin").containerPort][0];
    [.items[] | select(.status.podIP and port) | {
      targets: ["\(.status.podIP):\(port)"],
      labels: ({namespace: .metadata.namespace, pod: .metadata.name} +
        if .metadata.labels["app.kubernetes.io/name"] == "petracache" then {
          petracluster: .metadata.labels["app.kubernetes.io/instance"],
          region: .metadata.labels["petracache.io/region"]
        } else {} end)
    }]'
}

cluster() {
  "${kube[@]}" create namespace "$NAMESPACE"
  "${kube[@]}" -n "$NAMESPACE" apply --server-side -f - <<'Y'
apiVersion: petracache.io/v1alpha1
kind: PetraCluster
metadata: {name: shop}
spec:
  replicas: 1
  regions: [{name: main}]
  node: {storage: {size: 256Mi}, resources: {limits: {memory: 256Mi}}}
  router: {mode: none}
Y
  "${kube[@]}" -n "$NAMESPACE" wait --for=condition=Ready --timeout=120s petra/shop
  local node; node=$("${kube[@]}" -n "$NAMESPACE" get pod shop-main-0 -o jsonpath='{.status.podIP}')
  exec 3<> "/dev/tcp/$node/11211"
  printf 'set key 0 0 5\r\nvalue\r\nget key\r\nquit\r\n' >&3
  grep -q VALUE <&3
  exec 3>&-
}

# Every query of the dashboard, as Grafana would send it.
# shellcheck disable=SC2016 # they are the dashboard's variables, not this script's
queries() {
  jq -r '.panels[].targets[]?.expr' "$FILES/dashboard.json" |
    sed -e 's/\$__rate_interval/10s/g' -e 's/\$petracluster/shop/g' -e 's/\$region/main/g'
}
alerts() { sed -n 's/^ *expr: //p' "$FILES/alerts.yaml"; }

asked() { curl -sS --get "http://$ADDRESS/api/v1/query" --data-urlencode "query=$1"; }

await_data() {
  local end=$((SECONDS + 60)) answer=
  until answer=$(asked "$1" 2> /dev/null) && [ "$(jq '.data.result | length' <<< "$answer")" -gt 0 ]; do
    [ $SECONDS -lt $end ] || { echo "FAILED  no data: $1: $answer" >&2; exit 1; }
    sleep 0.5
  done
  echo "ok      has data: $1"
}

evaluated() {
  [ "$(asked "$1" | jq -r .status)" = success ] || { echo "FAILED  cannot be evaluated: $1" >&2; exit 1; }
  echo "ok      can be evaluated: $1"
}

finish() {
  [ -z "$PROMETHEUS" ] || kill "$PROMETHEUS" 2> /dev/null || true
  "${kube[@]}" delete namespace "$NAMESPACE" --wait=false > /dev/null 2>&1 || true
}

main
