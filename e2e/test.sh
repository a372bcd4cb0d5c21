#!/usr/bin/env bash
# Every test of the project, in the order in which a failure is cheapest.
#
#   test.sh              everything
#   test.sh code         format, lints, unit, golden and wire tests, a little fuzzing
#   test.sh wire         what memcached's own tests, memcapable and real clients say of the node
#   test.sh judge        what they say of memcached: nobody has to pass what it does not
#   test.sh cluster      images, chart, and the tests on a local Kubernetes
#   test.sh lint | advisories | images
set -euo pipefail
. "$(dirname "$0")/steps.sh"
OUT=$PETRA_CACHE/out/test
cd "$ROOT"

main() {
  case ${1:-all} in
    all) install; code; cluster ;;
    code) install; code ;;
    wire) install; wire ;;
    judge) install; judged /usr/bin/memcached ;;
    cluster) install; cluster ;;
    lint) install; lint ;;
    advisories) step "Known vulnerabilities of dependencies" advisories ;;
    images) install; images ;;
    *) sed -n '2,9p' "$0"; exit 2 ;;
  esac
  summary
}

install() { step "Installing Debian packages" "$ROOT/e2e/lab/install.sh"; }

lint() {
  step "Format" cargo fmt --all --check
  step "Shell scripts" scripts
  step "Lints (the first time, this compiles RocksDB)" \
    cargo clippy --release --locked --workspace --all-targets --all-features -- -D warnings
  step "Lints of the cluster tests" \
    cargo clippy --release --locked --workspace --test cluster --test faults -- -D warnings
  step "Licences and sources of dependencies" dependencies
}

code() {
  lint
  step "Unit, golden and wire tests" cargo test --release --locked --workspace --no-fail-fast
  step "Building the programs" build_programs
  beside "memcached's own tests, memcapable and real clients" judges "$BINARIES/petracache"
  step "Five seconds of every fuzz target" nice "$ROOT/node/fuzz/run.sh" --seconds 5
  joined
  step "Two seconds of load, every answer checked" \
    "$BINARIES/petra-bench" smoke --node "$BINARIES/petracache" --out "$PETRA_CACHE/out/bench"
}

wire() {
  step "Building the programs" build_programs
  judged "$BINARIES/petracache"
}

# judges SERVER: mostly waiting, for values to expire and for servers to start.
judges() {
  "$ROOT/e2e/memcached-suite/run.sh" "$1"
  "$ROOT/e2e/memcapable.sh" "$1"
  "$ROOT/e2e/clients/run.sh" "$1"
}

# judged SERVER: the same, each a step.
judged() {
  step "memcached's own tests: $1" "$ROOT/e2e/memcached-suite/run.sh" "$1"
  step "memcapable: $1" "$ROOT/e2e/memcapable.sh" "$1"
  step "Real clients: $1" "$ROOT/e2e/clients/run.sh" "$1"
}

images() {
  step "Building node, operator and the stand-in for mcrouter" build_programs
  step "Building container images" "$ROOT/e2e/images/build.sh"
}

cluster() {
  step "Building Kubernetes from Go modules" "$ROOT/e2e/lab/build.sh"
  step "Chart" "$ROOT/e2e/chart.sh"
  images
  step "Dockerfiles" "$ROOT/e2e/images/check-dockerfiles.sh"
  step "Compiling the cluster tests" cargo_test_cluster --test cluster --test faults --no-run
  rm -rf "$OUT"
  trap 'finish $?' EXIT
  step "Starting Kubernetes" start
  PETRA_E2E_KUBECONFIG=$(lab kubeconfig "$TEST_REGION"); export PETRA_E2E_KUBECONFIG
  PETRA_E2E_AUDIT=$(lab audit "$TEST_REGION"); export PETRA_E2E_AUDIT
  export PETRA_E2E_OUT=$OUT PETRA_OPERATOR=$BINARIES/petra-operator
  step "Fetching the kinds of cert-manager" "$ROOT/e2e/lab/cert-manager.sh"
  PETRA_E2E_CERT_MANAGER=$("$ROOT/e2e/lab/cert-manager.sh"); export PETRA_E2E_CERT_MANAGER
  step "Installing the chart over an older one" "$ROOT/e2e/chart.sh" upgrade "$PETRA_E2E_KUBECONFIG"
  step "What the API server says to everything that is rendered" "$ROOT/e2e/chart.sh" validate "$PETRA_E2E_KUBECONFIG"
  step "Dashboard and alerts on Debian's Prometheus" "$ROOT/e2e/monitoring.sh" "$PETRA_E2E_KUBECONFIG"
  step "Cluster tests" cluster_tests
  step "Fault tests" fault_tests
  # `make scale-test` has a thousand; this one shows that it works, on a machine that may be busy.
  step "Thirty PetraClusters of fake nodes" "$ROOT/e2e/scale.sh" \
    --clusters 30 --edits 30 --idle-seconds 5 --max-edit-seconds 10 --max-idle-percent 20
}

# Autoscalers look every 5 seconds, not every 15, so that the test of them is shorter.
start() {
  METRICS=yes CONTROLLER_MANAGER_ARGS=--horizontal-pod-autoscaler-sync-period=5s lab up "$TEST_REGION" 2 --fresh
}

# finish STATUS: whatever happened, the local Kubernetes ends; a failure leaves what to look at.
finish() {
  if [ "$1" != 0 ] && [ "$1" != 130 ]; then
    lab dump "$TEST_REGION" "$OUT/lab" || true
    echo "The cluster tests failed: pod states, events and logs are in $OUT" >&2
  fi
  lab down "$TEST_REGION"
}

# Two clusters at a time: more only make each other slower on two cores.
cluster_tests() { cargo_test_cluster --test cluster -- --test-threads "${TEST_THREADS:-2}"; }

# Each of them stops the operator of everybody.
fault_tests() { cargo_test_cluster --test faults -- --test-threads 1; }

cargo_test_cluster() {
  cargo test --release --locked --workspace --no-fail-fast "$@"
}

scripts() {
  git ls-files -z '*.sh' .ci/run e2e/lab/lab e2e/memcached-suite/{memcached-debug,saslpasswd2,timedrun} | xargs -0 shellcheck -x
}

# cargo-deny itself comes from the crate registry and is built once. The licence check needs no network.
cargo_deny() {
  local home=$PETRA_CACHE/cargo-deny
  [ -x "$home/bin/cargo-deny" ] ||
    CARGO_TARGET_DIR=$home/target cargo install --quiet --locked --version 0.20.2 --root "$home" cargo-deny
  "$home/bin/cargo-deny" "$@"
}
dependencies() { cargo fetch --quiet --locked && cargo_deny --offline check --hide-inclusion-graph bans licenses sources; }
advisories() { cargo_deny check advisories; }

main "$@"
