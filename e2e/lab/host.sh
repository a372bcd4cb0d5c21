# shellcheck shell=bash
# What all regions share with the machine that they run on: the list of running regions, sysctls,
# one guard route, kernel modules, locks. Knows nothing of Kubernetes.

HOST=/run/petracache-lab   # gone after a reboot, like all that it speaks of
LAB_NETWORK=198.18.0.0/15  # reserved for tests by RFC 2544: no real network is hidden by it

# The kubelet sets the first six for the whole machine; the last is too low for several kubelets.
SYSCTLS="vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops
  kernel.keys.root_maxkeys kernel.keys.root_maxbytes fs.inotify.max_user_instances"

# Everything that changes a region is done by one process at a time: the lock ends with its holder.
lock_region() { # REGION
  mkdir -p "$HOST"
  exec 8> "$HOST/$1.lock"
  flock -n 8 && return
  echo "waiting for another lab command on region $1 to end"
  flock -w 600 8 || die "another lab command holds region $1 for more than ten minutes" "see: fuser -v $HOST/$1.lock"
}
lock_host() { exec 7> "$HOST/host.lock"; flock 7; }
unlock_host() { exec 7>&-; }

owner() { cat "$HOST/$1.owner" 2> /dev/null || true; } # the state directory of who runs REGION

# host_add REGION: before the first process of a region starts.
host_add() {
  local key
  lock_host
  if [ ! -e "$HOST/sysctls" ]; then
    for key in $SYSCTLS; do sysctl -e "$key"; done > "$HOST/sysctls.new"
    mv "$HOST/sysctls.new" "$HOST/sysctls"
    [ "$(sysctl -n fs.inotify.max_user_instances)" -ge 1024 ] || sysctl -qw fs.inotify.max_user_instances=1024
  fi
  # A real kubelet's machine loads these at boot; here they may also be part of the kernel.
  if command -v modprobe > /dev/null; then modprobe -qa overlay br_netfilter nf_conntrack veth bridge || true; fi
  [ -e /proc/sys/net/bridge ] || echo "lab: the kernel has no br_netfilter: Services may not answer pods of the same node" >&2
  # What is not running is unreachable: nothing that is meant for a region leaves by the default route.
  ip route replace unreachable "$LAB_NETWORK" metric 9999
  mkdir -p /var/lib/kubelet /var/lib/cni
  echo "$STATE" > "$HOST/$1.owner"
  unlock_host
}

# host_remove REGION: after its last process ended. The last region leaves the machine as it was.
host_remove() {
  lock_host
  rm -f "$HOST/$1.owner"
  if ! ls "$HOST"/*.owner > /dev/null 2>&1; then
    [ ! -e "$HOST/sysctls" ] || sysctl -q -p "$HOST/sysctls"
    rm -f "$HOST/sysctls"
    ip route del unreachable "$LAB_NETWORK" metric 9999 2> /dev/null || true
    rmdir /var/lib/kubelet /var/lib/cni 2> /dev/null || true # ours if empty: only where nodes mount their own
  fi
  unlock_host
}
