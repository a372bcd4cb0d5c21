#!/usr/bin/env bash
# Measures a node side by side with memcached: one table of ratios, raw numbers, charts.
#
#   bench.sh                      every case
#   bench.sh --case NAME ...      some; --list says which, --help what else there is
#   bench.sh --save DIRECTORY     keeps the charts and the numbers there as well
set -euo pipefail
. "$(dirname "$0")/steps.sh"
cd "$ROOT"

main() {
  step "Installing Debian packages" "$ROOT/e2e/lab/install.sh"
  step "Building the node and the load generator" build_programs
  [ $# != 0 ] || step "What the load generator can do" "$BINARIES/petra-bench" self-test
  step "Measuring" "$BINARIES/petra-bench" run \
    --node "$BINARIES/petracache" --out "$PETRA_CACHE/out/bench" "$@"
  summary
}

main "$@"
