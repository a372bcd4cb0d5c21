# shellcheck shell=bash
# A region: one Kubernetes cluster, its control plane and its nodes, in the order in which they come and go.

kubectl_in() { # REGION ARGUMENTS...
  "$BIN/kubectl" --kubeconfig "$(pki "$1")/admin.kubeconfig" --cache-dir "$STATE/$1/kubectl" --request-timeout 10s "${@:2}"
}

# region_up REGION NODES: from nothing.
region_up() {
  local node i nodes=()
  [ -x "$BIN/kubelet" ] || die "there are no Kubernetes binaries in $BIN" "build them with: $LAB/build.sh"
  [ -e "$IMAGES/pause.tar" ] || die "there are no images in $IMAGES" "build them with: $LAB/../images/build.sh"
  for ((i = 1; i <= $2; i++)); do nodes+=("$1-$i"); done
  case $STATE in
    /run/* | /var/log/* | /var/lib/kubelet/*) die "$STATE is where a node mounts something else" "choose another PETRA_CACHE" ;;
  esac
  mkdir -p "$STATE"
  [ "$(stat -f -c %T "$STATE")" != overlayfs ] || die "$STATE is on overlayfs, on which containers cannot be stacked" \
    "choose a PETRA_CACHE on a disk, e.g. on a volume of the container that this runs in"

  host_add "$1"
  mkdir -p "$STATE/$1/shared"
  settings "$2" > "$STATE/$1/settings"
  pki_add_region "$1"
  [ -z "${METRICS:-}" ] || metrics_add_region "$1"
  corefile "$1"
  network_add_region "$1"
  machine_boot "$1"
  for node in "${nodes[@]}"; do
    network_add_node "$node"
    pki_add_node "$node"
  done
  await "$1" "the API server of region $1" 60 kubectl_in "$1" get --raw /readyz
  kubectl_in "$1" apply -f "$LAB/manifests/base.yaml" > "$STATE/$1/base.log" 2>&1 ||
    die "applying $LAB/manifests/base.yaml failed: $(tail -3 "$STATE/$1/base.log")"
  [ -z "${METRICS:-}" ] || metrics_apply "$1"
  for node in "${nodes[@]}"; do machine_boot "$node"; done
  for node in "${nodes[@]}"; do await_node "$node"; done
  # Pods made before it exists are refused.
  await "$1" "the default ServiceAccount" 30 kubectl_in "$1" -n default get serviceaccount default
  await "$1" "DNS of region $1" 30 region_resolves "$1"
  [ -z "${METRICS:-}" ] || metrics_await "$1"
  touch "$STATE/$1/ready"
}

# await_node MACHINE [SINCE]: a node that crashed is called Ready until its lease ends, so it must have renewed that SINCE.
await_node() {
  [ -z "${2:-}" ] || await "$1" "node $1" 90 lease_renewed "$1" "$2"
  await "$1" "node $1" 90 kubectl_in "$(region_of "$1")" wait --for=condition=Ready "node/$1" --timeout=2s
}
lease_renewed() {
  local renewed
  renewed=$(kubectl_in "$(region_of "$1")" -n kube-node-lease get lease "$1" -o jsonpath='{.spec.renewTime}') && [[ $renewed > $2 ]]
}
region_resolves() { timeout 2 busybox nslookup kubernetes.default.svc.cluster.local "$(router "$1")"; }

# await MACHINE WHAT SECONDS COMMAND...: repeats COMMAND until it succeeds. Ends the script with the logs to look at when
# that takes longer than SECONDS, or when a program of MACHINE does not stay up.
await() {
  local machine=$1 what=$2 end=$((SECONDS + $3)) said log; shift 3
  log=$(machine_dir "$machine")/log
  until said=$("$@" 2>&1); do
    if [ $SECONDS -ge $end ] || [ "$(grep -c 'ended with status' "$log/init.log")" -ge 5 ]; then
      tail -qn 3 "$log/init.log" >&2
      find "$log" -name '*.log' ! -name init.log -exec tail -n 3 {} + | cut -c 1-200 >&2
      die "$what is not ready: ${said:-no answer}" "above are the ends of the logs in $log"
    fi
    sleep 0.2
  done
}

# What `up` was asked for, as lines that a shell can read: a machine that is booted again gets the same.
settings() { # NODES
  local name
  printf 'NODES=%q\n' "$1"
  for name in SYNC LEASE METRICS PROXY_MODE API_SERVER_ARGS CONTROLLER_MANAGER_ARGS SCHEDULER_ARGS; do
    printf '%s=%q\n' "$name" "${!name:-}"
  done
}
restore_settings() { # REGION
  set -a
  # shellcheck source=/dev/null
  . "$STATE/$1/settings"
  set +a
}

# Every machine that REGION has a trace of: network, state or cgroups. Nodes first.
machines() { # REGION
  local path mount
  { networks "$1"
    for path in "$STATE/$1/$1" "$STATE/$1/$1"-*; do [ ! -d "$path" ] || basename "$path"; done
    for mount in $CGROUPS; do
      for path in "$mount/petra-$1" "$mount/petra-$1"-*; do [ ! -d "$path" ] || basename "${path/petra-/}"; done
    done
  } | sort -ru
}
nodes() { machines "$1" | grep -- - || true; } # REGION

# Up, and everything in it as `up` left it.
region_healthy() { # REGION
  local machine
  [ -e "$STATE/$1/ready" ] || return 1
  for machine in $(machines "$1"); do machine_pid "$machine" > /dev/null || return 1; done
  kubectl_in "$1" get --raw /readyz > /dev/null 2>&1 || return 1
  for machine in $(nodes "$1"); do
    kubectl_in "$1" wait --for=condition=Ready "node/$machine" --timeout=2s > /dev/null 2>&1 || return 1
  done
}

# region_down REGION: from whatever state, also half up, crashed, or with its state directory gone.
region_down() {
  local machine other
  rm -f "$STATE/$1/ready"
  for machine in $(machines "$1"); do machine_remove "$machine"; done
  rm -rf --one-file-system "${STATE:?}/$1"
  for other in a b c; do # the names of a region that is gone are unknown to the others
    [ ! -e "$STATE/$other/Corefile" ] || corefile "$other"
  done
  host_remove "$1"
}

region_link() { # REGION REGION, in alphabetical order
  network_linked "$1" "$2" || network_link "$1" "$2"
  corefile "$1"
  corefile "$2"
}

# DNS of a region, and of the regions it is linked to: their names are POD.SERVICE.NAMESPACE.svc.REGION.lab.
# As kubeadm sets it up: answers live for 30 seconds at the client, and CoreDNS caches no name of the cluster.
corefile() { # REGION
  local other
  { zone "$1" "$1" cluster.local
    for other in a b c; do
      [ ! -e "$(pki "$other")/coredns.kubeconfig" ] || ! network_linked "$1" "$other" || zone "$1" "$other" "$other.lab"
    done
  } > "$STATE/$1/Corefile.new"
  mv "$STATE/$1/Corefile.new" "$STATE/$1/Corefile"
}
zone() { # REGION OTHER ZONE
  cat <<C
$3:53 {
  reload 2s 1s
  bind $(router "$1")
  errors
  kubernetes $3 {
    kubeconfig $(pki "$2")/coredns.kubeconfig
    ttl 30
  }
}
C
}

# load_image REGION FILE: into every node that runs.
load_image() {
  local node
  [ -r "$2" ] || die "cannot read image archive $2"
  for node in $(nodes "$1"); do
    machine_run "$node" ctr -n k8s.io images import "$(realpath "$2")" > "$(machine_dir "$node")/log/load-image.log" 2>&1 ||
      die "importing $2 into node $node failed" "see: $(machine_dir "$node")/log/load-image.log"
  done
}
