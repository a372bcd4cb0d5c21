#!/usr/bin/env bash
# Measures the operator with a thousand PetraClusters on an API server without machines: one fake takes all pods.
#
#   scale.sh [ARGUMENTS OF petra-scale]     --help lists them
set -euo pipefail
. "$(dirname "$0")/steps.sh"
export PETRA_E2E_OUT=$PETRA_CACHE/out/scale PETRA_OPERATOR=$BINARIES/petra-operator

main() {
  step "Installing Debian packages" "$ROOT/e2e/lab/install.sh"
  step "Building Kubernetes from Go modules" "$ROOT/e2e/lab/build.sh"
  step "Building the programs" build_programs
  trap 'lab down "$TEST_REGION"' EXIT
  step "Starting an API server" start
  PETRA_E2E_KUBECONFIG=$(lab kubeconfig "$TEST_REGION"); export PETRA_E2E_KUBECONFIG
  step "Installing the CRD" install_crd
  step "Measuring" "$BINARIES/petra-scale" "$@"
  summary
}

# The controllers of Kubernetes wait for nobody: it is the operator that is measured.
start() {
  CONTROLLER_MANAGER_ARGS="--kube-api-qps=1000 --kube-api-burst=2000 --concurrent-statefulset-syncs=20" \
    lab up "$TEST_REGION" 0 --fresh
}

install_crd() {
  kubectl --kubeconfig "$PETRA_E2E_KUBECONFIG" apply --server-side -f "$ROOT/crds"
  kubectl --kubeconfig "$PETRA_E2E_KUBECONFIG" wait --for=condition=Established crd/petraclusters.petracache.io
}

main "$@"
