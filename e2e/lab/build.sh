#!/usr/bin/env bash
# Builds what a region runs and Debian does not have, from Go modules into PETRA_CACHE/lab/bin:
# Kubernetes, etcd, CoreDNS, a volume provisioner, metrics-server and helm. Does nothing when nothing changed.
# A GOCACHE or GOMODCACHE that is already set is used; otherwise both are below PETRA_CACHE.
set -euo pipefail
. "$(dirname "$0")/paths.sh"

export GOCACHE=${GOCACHE:-$PETRA_CACHE/go-build} GOMODCACHE=${GOMODCACHE:-$PETRA_CACHE/go-mod}
export CGO_ENABLED=0 GOWORK=off GOFLAGS=-modcacherw
STAMP=$BIN/.stamp

main() {
  case ${1:-} in
    '') ;;
    *) sed -n '2,4p' "$0"; exit 2 ;;
  esac
  command -v go > /dev/null || die "there is no go command" "install Go $(wanted_go) or newer: https://go.dev/dl"
  mkdir -p "$BIN"
  exec 9> "$PETRA_CACHE/lab/build.lock"
  flock -n 9 || { echo "waiting for another build to end"; flock 9; }
  local sources; sources=$(fingerprint)
  if [ "$(cat "$STAMP" 2> /dev/null)" = "$sources" ]; then
    echo "$BIN is up to date"
    return
  fi
  build "$sources"
}

wanted_go() { awk '$1 == "go" {print $2}' "$LAB/kubernetes/go.mod"; }

# What the binaries depend on: this script, the modules, the compiler.
fingerprint() {
  { go env GOVERSION GOARCH
    cd "$LAB"
    find build.sh kubernetes metrics-server helm prometheus-operator -type f -print0 | sort -z | xargs -0 sha256sum
  } | sha256sum | cut -d ' ' -f 1
}

# Each binary appears under its name only when all of them are built, and the stamp comes last:
# an interrupted build leaves the old binaries and is done again.
build() {
  local new=$PETRA_CACHE/lab/bin.new program
  rm -rf "$new"; mkdir -p "$new"
  echo "building Kubernetes, etcd, CoreDNS and the volume provisioner (the first time: minutes, and 6 GB of caches)"
  module kubernetes "$(kubernetes_version)" "$new"
  mv "$new/server" "$new/etcd"
  for program in kube-apiserver kube-controller-manager kube-proxy kube-scheduler kubelet kubectl; do
    ln -s hyperkube "$new/$program"
  done
  echo "building metrics-server"
  module metrics-server "" "$new"
  echo "building helm"
  module helm "$(helm_version)" "$new"
  definitions

  rm -f "$STAMP"
  find "$new" -mindepth 1 -exec mv -ft "$BIN" {} +
  rmdir "$new"
  echo "$1" > "$STAMP.new"
  mv "$STAMP.new" "$STAMP"
  du -shL "$BIN"/{hyperkube,etcd,coredns,provisioner,metrics-server,helm}
}

# module NAME LDFLAGS DIR: builds the tools of a module's go.mod into DIR.
module() {
  (cd "$LAB/$1" && go build -trimpath -buildvcs=false -mod=readonly -ldflags "-s -w $2" -o "$3/" tool) ||
    die "building the Go module $LAB/$1 failed: see the compiler's message above" \
      "a download that failed is repeated by running this again; GOPROXY is $(go env GOPROXY)"
}

# What PodMonitor and PrometheusRule are, in PETRA_CACHE/lab/definitions: for an API server that judges what the chart makes.
definitions() {
  local path=github.com/prometheus-operator/prometheus-operator name sources
  cd "$LAB/prometheus-operator"
  go mod download "$path" || die "downloading the Go module $path failed" "repeat it by running this again"
  sources=$(go list -mod=readonly -m -f '{{.Dir}}' "$path")/example/prometheus-operator-crd
  for name in podmonitors prometheusrules; do
    install -D -m 644 "$sources/monitoring.coreos.com_$name.yaml" "$PETRA_CACHE/lab/definitions/$name.yaml"
  done
  cd "$LAB"
}

# Without these, `kubectl version` and the node's info say v0.0.0-master+$Format.
kubernetes_version() {
  local version package minor
  version=$(required kubernetes k8s.io/kubernetes)
  minor=${version#*.}
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    printf -- '-X %s.gitVersion=%s -X %s.gitMajor=1 -X %s.gitMinor=%s -X %s.gitTreeState=clean ' \
      "$package" "$version" "$package" "$package" "${minor%%.*}" "$package"
  done
}

# Without the last four, `helm template` and `helm lint` take the cluster for Kubernetes 1.20.
helm_version() {
  local minor package
  minor=$(required helm k8s.io/client-go)
  minor=${minor#v0.}
  printf -- '-X helm.sh/helm/v3/internal/version.version=%s ' "$(required helm helm.sh/helm/v3)"
  for package in helm.sh/helm/v3/pkg/lint/rules helm.sh/helm/v3/pkg/chartutil; do
    printf -- '-X %s.k8sVersionMajor=1 -X %s.k8sVersionMinor=%s ' "$package" "$package" "${minor%%.*}"
  done
}

# required MODULE PATH: the version of PATH that MODULE's go.mod requires.
required() {
  awk -v path="$2" '{for (i = 1; i < NF; i++) if ($i == path) {print $(i + 1); exit}}' \
    <(grep -v -e '=>' -e '^tool' "$LAB/$1/go.mod")
}

main "$@"
