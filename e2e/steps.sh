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
BESIDE=

# step TITLE COMMAND...: runs COMMAND, says what it is doing and how long it took; ends the script when it fails.
# COMMAND is a job of its own, so that a signal reaches the script while COMMAND runs, and then all of COMMAND.
step() {
  local title=$1 start=$SECONDS status=0; shift
  printf '\n\033[1m==> %s\033[0m\n' "$title"
  set -m; "$@" & JOB=$!; set +m
  wait "$JOB" || status=$?
  JOB=
  ended "$title" "$status" $((SECONDS - start))
}

# beside TITLE COMMAND...: COMMAND, which mostly waits, runs while the next steps do. `joined` shows what it said.
beside() {
  BESIDE_TITLE=$1 BESIDE_START=$SECONDS BESIDE_LOG=$(mktemp); shift
  printf '\n\033[1m==> %s: started\033[0m\n' "$BESIDE_TITLE"
  set -m; "$@" > "$BESIDE_LOG" 2>&1 & BESIDE=$!; set +m
}
joined() {
  local status=0
  wait "$BESIDE" || status=$?
  BESIDE=
  printf '\n\033[1m==> %s\033[0m\n' "$BESIDE_TITLE"
  cat "$BESIDE_LOG"; rm "$BESIDE_LOG"
  ended "$BESIDE_TITLE" "$status" $((SECONDS - BESIDE_START))
}

ended() { # TITLE STATUS SECONDS
  if [ "$2" != 0 ]; then
    printf '\033[1m==> %s: FAILED after %d s\033[0m\n' "$1" "$3" >&2
    end_jobs
    exit "$2"
  fi
  STEPS+=("$(printf '%5d s  %s' "$3" "$1")")
}
end_jobs() {
  local job
  for job in $JOB $BESIDE; do kill -TERM -- "-$job" 2> /dev/null || true; done
}

# Interrupted: end what is running; the script's own EXIT trap cleans up.
interrupted() {
  end_jobs
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
