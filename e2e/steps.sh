# shellcheck shell=bash
# What the scripts beside this one share: named, timed steps, and where things are. Sourced, never run.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export PETRA_CACHE=${PETRA_CACHE:-$HOME/.cache/petracache}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PETRA_CACHE/cargo}
export PATH=$PETRA_CACHE/lab/bin:$PATH
# kubectl and helm keep what they learn of an API server here.
export KUBECACHEDIR=$PETRA_CACHE/lab/kubectl
BINARIES=$CARGO_TARGET_DIR/release
export BINARIES

# `make test` and `make demo` may run at the same time: each has a region, a real cluster, of its own.
DEMO_REGION=${DEMO_REGION:-a}
TEST_REGION=${TEST_REGION:-b}
export DEMO_REGION TEST_REGION

STEPS=()
JOB=

# step TITLE COMMAND...: runs COMMAND, says what it is doing and how long it took; ends the script when it fails.
# COMMAND is a job of its own, so that a signal reaches the script while COMMAND runs, and then all of COMMAND.
step() {
  local title=$1 start=$SECONDS status=0; shift
  printf '\n\033[1m==> %s\033[0m\n' "$title"
  set -m; "$@" & JOB=$!; set +m
  wait "$JOB" || status=$?
  JOB=
  if [ "$status" != 0 ]; then
    printf '\033[1m==> %s: FAILED after %d s\033[0m\n' "$title" $((SECONDS - start)) >&2
    exit "$status"
  fi
  STEPS+=("$(printf '%5d s  %s' $((SECONDS - start)) "$title")")
}

# Interrupted: end what is running; the script's own EXIT trap cleans up.
interrupted() {
  [ -z "$JOB" ] || kill -TERM -- "-$JOB" 2>/dev/null || true
  echo "Interrupted" >&2
  exit 130
}
trap interrupted INT TERM HUP

# The times of all steps so far.
summary() {
  printf '\n\033[1m%s\033[0m\n' "Time, by step"
  printf '%s\n' "${STEPS[@]}"
  printf '%5d s  in all\n' "$SECONDS"
}

lab() { "$ROOT/e2e/lab/lab" "$@"; }

# Compiles the programs that the images hold. Every cargo command here is about the whole workspace, because cargo
# chooses the features of dependencies by what is selected, and another choice is another ten minutes of RocksDB.
build_programs() { (cd "$ROOT" && cargo build --release --locked --workspace --bins); }

# install_chart KUBECONFIG [CHART]: the operator, from the chart in this tree and the images of this machine.
install_chart() {
  helm --kubeconfig "$1" upgrade --install petracache "${2:-$ROOT/charts/petracache}" \
    --namespace petracache-system --create-namespace --wait --timeout 120s \
    --set image.tag=dev,image.pullPolicy=Never \
    --set defaultImages.node=docker.io/petracache/node:dev \
    --set defaultImages.router=docker.io/petracache/mcrouter-stand-in:dev
}
