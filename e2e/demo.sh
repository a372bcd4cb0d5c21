#!/usr/bin/env bash
# The main job on real input: a local Kubernetes, the chart, a PetraCluster, a lost pod, the same data.
#
#   demo.sh        start everything and leave it running
#   demo.sh down   end what it left running
set -euo pipefail
. "$(dirname "$0")/steps.sh"

NAMESPACE=cache
KEYS=200
POD=sessions-istanbul-0
EXAMPLE=$ROOT/operator/examples/two-regions.yaml

main() {
  case ${1:-up} in
    up) up ;;
    down) lab down "$DEMO_REGION" ;;
    *) sed -n '2,5p' "$0"; exit 2 ;;
  esac
}

up() {
  trap 'finish $?' EXIT
  step "Installing Debian packages" "$ROOT/e2e/lab/install.sh"
  step "Building Kubernetes from Go modules" "$ROOT/e2e/lab/build.sh"
  step "Building node, operator and the stand-in for mcrouter" build_programs
  step "Building container images" "$ROOT/e2e/images/build.sh"
  step "Starting Kubernetes" lab up "$DEMO_REGION" --fresh
  KUBECONFIG=$(lab kubeconfig "$DEMO_REGION"); export KUBECONFIG
  step "Installing the chart" install_chart "$KUBECONFIG"
  step "Applying ${EXAMPLE#"$ROOT"/}" apply
  step "Writing $KEYS keys through the router" write_keys
  step "Deleting pod $POD" lose_pod
  step "Reading the same keys again" read_keys
  step "The cluster's status" status
  summary
  farewell
}

apply() {
  kubectl create namespace "$NAMESPACE"
  kubectl -n "$NAMESPACE" apply -f "$EXAMPLE"
  kubectl -n "$NAMESPACE" wait petra/sessions --for=condition=Ready --timeout=180s
  kubectl -n "$NAMESPACE" run client --image=docker.io/petracache/tools:dev --image-pull-policy=Never \
    --restart=Never --command -- sleep 100000
  kubectl -n "$NAMESPACE" wait pod/client --for=condition=Ready --timeout=60s
}

# memcached HOST: sends standard input to HOST from a pod in the cluster, prints the answers.
memcached() { kubectl -n "$NAMESPACE" exec -i client -- timeout 20 nc "$1" 11211 | tr -d '\r'; }

write_keys() {
  local stored i
  stored=$(for ((i = 1; i <= KEYS; i++)); do printf 'set user:%d 0 0 %d\r\nvalue-%d\r\n' "$i" $((6 + ${#i})) "$i"; done |
    { cat; printf 'quit\r\n'; } | memcached sessions-istanbul-router | grep -c '^STORED$')
  echo "$stored of $KEYS keys stored"
  [ "$stored" = "$KEYS" ]
  echo "Where one of them is, and where it would be looked for without its node:"
  local cluster owner
  cluster=$(kubectl -n "$NAMESPACE" get petra sessions -o yaml)
  explain() { "$BINARIES/petra-operator" explain user:7 -f - "$@" <<< "$cluster"; }
  explain
  owner=$(explain -o json | jq -r '.steps[0].server')
  explain --down "$owner"
}

lose_pod() {
  local before; before=$(kubectl -n "$NAMESPACE" get pod "$POD" -o jsonpath='{.metadata.uid}')
  kubectl -n "$NAMESPACE" delete pod "$POD"
  until [ "$(kubectl -n "$NAMESPACE" get pod "$POD" -o jsonpath='{.metadata.uid}' 2>/dev/null)" != "$before" ] &&
    kubectl -n "$NAMESPACE" wait "pod/$POD" --for=condition=Ready --timeout=60s 2>/dev/null; do :; done
}

# values HOST: how many of the keys HOST answers with their value.
values() {
  local i
  for ((i = 1; i <= KEYS; i++)); do printf 'get user:%d\r\n' "$i"; done | { cat; printf 'quit\r\n'; } |
    memcached "$1" | grep -c '^value-'
}

read_keys() {
  local pod all
  pod=$(values "$POD.sessions-istanbul" || true)
  all=$(values sessions-istanbul-router)
  echo "$pod keys are served by the restarted pod itself, $all of $KEYS through the router"
  [ "$all" = "$KEYS" ] && [ "$pod" -gt 0 ]
}

status() {
  kubectl -n "$NAMESPACE" get petra,statefulset,pod,pvc
  kubectl -n "$NAMESPACE" get petra sessions -o yaml | sed -n '/^status:/,$p'
}

farewell() {
  cat <<E

Left running. To look around:
  export KUBECONFIG=$KUBECONFIG PATH=$PETRA_CACHE/lab/bin:\$PATH
  kubectl -n $NAMESPACE get petra
  kubectl -n $NAMESPACE scale petra sessions --replicas=3
To end it: make demo-down
E
}

# finish STATUS: an interrupted demo leaves nothing behind, a failed one leaves what to look at.
finish() {
  [ "$1" != 0 ] || return 0
  if [ "$1" = 130 ]; then
    lab down "$DEMO_REGION"
    return
  fi
  local out=$PETRA_CACHE/out/demo
  rm -rf "$out"
  lab dump "$DEMO_REGION" "$out" || true
  echo "The demo failed: pod states, events and logs are in $out." >&2
  echo "What it started is still running; make demo-down ends it." >&2
}

main "$@"
