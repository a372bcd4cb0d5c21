#!/usr/bin/env bash
# Tests of the chart: lint, schema, what it renders, and what an API server says to that.
#
#   chart.sh                      what needs no cluster
#   chart.sh update               write the golden renders and manifests/ again
#   chart.sh validate KUBECONFIG  let an API server judge everything that is rendered, without making it
#   chart.sh upgrade KUBECONFIG   install an older chart, then this one, and run its test
set -euo pipefail
. "$(dirname "$0")/steps.sh"
CHART=$ROOT/charts/petracache
GOLDEN=$ROOT/charts/golden
MANIFEST=$ROOT/manifests/operator.yaml
failures=0

main() {
  case ${1:-} in
    '') check ;;
    update) UPDATE=yes; check ;;
    validate) validate "$2" ;;
    upgrade) upgrade "$2" ;;
    *) sed -n '2,8p' "$0"; exit 2 ;;
  esac
  exit "$failures"
}

check() {
  helm lint --strict "$CHART" 2>&1 | { grep -v 'found symbolic link' || true; }
  render default
  render one-namespace --set watchNamespace=cache --set region=ankara
  render images --set image.tag=dev,image.pullPolicy=Never --set defaultImages.node=n:1,defaultImages.router=r:1
  render monitoring --set monitoring.podMonitors=true,monitoring.rules=true,monitoring.dashboard=true
  manifest
  metrics_exist
  refused replica --set replica=3
  refused pullPolicy --set image.pullPolicy=Sometimes
  refused region --set region=Not_A_Label
  holds_crd
}

template() { helm template petracache "$CHART" --namespace petracache-system "$@"; }

# render NAME [helm arguments]: what the chart makes of these values, against charts/golden/NAME.yaml.
render() {
  local name=$1 golden=$GOLDEN/$1.yaml now; shift
  now=$(template --set crds.install=false "$@" 2>/dev/null)
  [ "${UPDATE:-}" != yes ] || { mkdir -p "$GOLDEN"; printf '%s\n' "$now" > "$golden"; }
  if diff -u "$golden" <(printf '%s\n' "$now"); then echo "ok      render $name"
  else echo "FAILED  render $name: if the change is meant, run \`make golden\` and commit the diff"; failures=1; fi
}

# manifests/operator.yaml: the same without helm.
manifest() {
  local now; now=$(static)
  [ "${UPDATE:-}" != yes ] || { mkdir -p "$(dirname "$MANIFEST")"; printf '%s\n' "$now" > "$MANIFEST"; }
  if diff -u "$MANIFEST" <(printf '%s\n' "$now"); then echo "ok      manifests/operator.yaml"
  else echo "FAILED  manifests/operator.yaml: if the change is meant, run \`make golden\` and commit the diff"; failures=1; fi
}
static() {
  cat <<'Y'
# The operator for people without helm, generated from charts/petracache by `make golden`:
#   kubectl apply --server-side -f crds/ -f manifests/
apiVersion: v1
kind: Namespace
metadata:
  name: petracache-system
  labels: {pod-security.kubernetes.io/enforce: restricted}
Y
  template --set crds.install=false --skip-tests 2>/dev/null |
    sed -e '/helm.sh\/chart:/d' -e 's/managed-by: Helm/managed-by: kubectl/'
}

# validate KUBECONFIG: everything that is rendered or shown, as the API server of KUBECONFIG sees it: no unknown field, no wrong
# type, no broken rule. That is more than its published schemas hold: what they cannot say is code, admission or CEL. That
# nothing is too new for the oldest Kubernetes is for e2e/tests/oldest.rs. It learns of cert-manager's and the Prometheus operator's
# kinds for that.
validate() {
  local file folder
  kube=("kubectl" "--kubeconfig" "$1")
  folder=$("$ROOT/e2e/lab/cert-manager.sh")
  local kinds=(-f "$folder/cert-manager.io_certificates.yaml" -f "$folder/cert-manager.io_issuers.yaml")
  "${kube[@]}" apply --server-side "${kinds[@]}"
  "${kube[@]}" wait --for=condition=Established --timeout=60s "${kinds[@]}"
  namespaces petracache-system cache
  prometheus_kinds
  judged "the CRD" "$ROOT/crds/petraclusters.petracache.io.yaml"
  for file in "$GOLDEN"/*.yaml "$MANIFEST" "$ROOT"/operator/examples/*.yaml "$ROOT"/operator/tests/golden/*/{cluster,objects}.yaml; do
    judged "${file#"$ROOT"/}" "$file"
  done
  judged "what the chart says after an installation" <(notes "$1" | sed -n '/<<EOF$/,/^ *EOF$/{/EOF$/!p}')
  "${kube[@]}" delete "${kinds[@]}"
}
notes() { # KUBECONFIG
  helm --kubeconfig "$1" upgrade --install petracache "$CHART" --namespace petracache-system --dry-run=client 2> /dev/null
}
namespaces() {
  local name
  for name; do
    "${kube[@]}" get namespace "$name" > /dev/null 2>&1 || "${kube[@]}" create namespace "$name"
  done
}
# The API server of a cluster without the Prometheus operator learns its kinds.
prometheus_kinds() {
  "${kube[@]}" apply --server-side -f "$PETRA_CACHE/lab/definitions"
  "${kube[@]}" wait --for=condition=Established -f "$PETRA_CACHE/lab/definitions"
}
judged() { # NAME FILE
  local said
  if said=$("${kube[@]}" apply --server-side --force-conflicts --dry-run=server --validate=strict -f - < "$2" 2>&1)
  then echo "ok      valid for the API server: $1"
  else echo "FAILED  $1: $said"; failures=1; fi
}

# upgrade KUBECONFIG: the CRD of an older chart, which lacks a field, becomes that of this chart; then `helm test`.
upgrade() {
  local old=$PETRA_CACHE/out/old-chart
  kube=("kubectl" "--kubeconfig" "$1")
  namespaces petracache-system
  # The operator and its test pass the strictest of the Pod Security Standards.
  "${kube[@]}" label --overwrite namespace petracache-system pod-security.kubernetes.io/enforce=restricted
  rm -rf "$old"; mkdir -p "$old"
  cp -rL "$CHART/." "$old"
  "${kube[@]}" create --dry-run=client -o json -f "$ROOT/crds" |
    jq 'del(.spec.versions[].schema.openAPIV3Schema.properties.spec.properties.paused)' > "$old/files/petraclusters.petracache.io.yaml"
  sed -i 's/^version: .*/version: 0.0.1/' "$old/Chart.yaml"
  install_chart "$1" "$old"
  [ "$(has_field)" = no ] || { echo "FAILED  the older chart has the field already"; failures=1; }
  install_chart "$1"
  if [ "$(has_field)" = yes ]; then echo "ok      an upgrade of the chart upgrades the CRD"
  else echo "FAILED  the CRD is still the older chart's"; failures=1; fi
  if helm --kubeconfig "$1" test petracache --namespace petracache-system; then echo "ok      helm test"
  else echo "FAILED  helm test"; failures=1; fi
}
has_field() {
  "${kube[@]}" get crd petraclusters.petracache.io -o json |
    jq -r 'if .spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.paused then "yes" else "no" end'
}

# refused WORDS [helm arguments]: values that the schema must not accept, with a message that has WORDS.
refused() {
  local words=$1 said; shift
  if said=$(template "$@" 2>&1); then echo "FAILED  accepted: $*"; failures=1
  elif ! grep -q -- "$words" <<< "$said"; then echo "FAILED  refused without the word $words: $said"; failures=1
  else echo "ok      refused $*"; fi
}

# The chart's CRD is the generated one, kept when the chart is uninstalled.
holds_crd() {
  local crd; crd=$(template --show-only templates/crd.yaml 2>/dev/null)
  if grep -q 'name: petraclusters.petracache.io' <<< "$crd" && grep -q 'helm.sh/resource-policy: keep' <<< "$crd"
  then echo "ok      holds the CRD"; else echo "FAILED  the CRD is missing or not kept"; failures=1; fi
}

# Every metric that an alert or the dashboard asks for is one that a program exports.
metrics_exist() {
  local metric missing=
  while read -r metric; do
    metric=${metric%_bucket}
    grep -rq "\"$metric\"" "$ROOT/node/src" "$ROOT/operator/src" || missing+=" $metric"
  done < <(cat "$CHART"/files/{alerts.yaml,dashboard.json} | grep -oE 'petra(cache|_operator)_[a-z_]+' | sort -u)
  if [ -z "$missing" ]; then echo "ok      every metric of the alerts and the dashboard exists"
  else echo "FAILED  nobody exports$missing"; failures=1; fi
}

main "$@"
