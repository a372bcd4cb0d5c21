# shellcheck shell=bash
# A machine of the lab: one process tree with pid, mount, UTS, IPC and network namespaces of its own.
# When its pid 1 ends, the kernel ends every process in it and drops every mount and pod network in it:
# nothing can leak, whatever state it was in.

# Every cgroup v1 hierarchy of this machine and the v2 one. On v1, a node's pods are in /petra-NODE of each.
CGROUPS=$(awk '$3 ~ /^cgroup2?$/ {print $2}' /proc/mounts)

machine_dir() { echo "$STATE/$(region_of "$1")/$1"; }   # MACHINE

# The machine's outermost process, if it runs: pids are used again, so its network has to be the right one too.
machine_pid() { # MACHINE
  local pid
  pid=$(cat "$(machine_dir "$1")/pid" 2> /dev/null) || return 1
  [ "/proc/$pid/ns/net" -ef "/run/netns/$(netns "$1")" ] && echo "$pid"
}
machine_init() { # MACHINE: its pid 1, as a pid of this machine
  local pid
  pid=$(machine_pid "$1") && pgrep -P "$pid"
}

machine_boot() { # MACHINE
  local dir init=control-plane.sh; dir=$(machine_dir "$1")
  mkdir -p "$dir/log"
  if [ "$1" != "$(region_of "$1")" ]; then
    init=node.sh
    cgroups_remove "$1" # left by a crash; a kubelet is 25 s slower to start with stale ones
    cgroups_add "$1"
  fi
  # The locks of the command that boots must not live on in the machine, hence 7>&- 8>&- 9>&-.
  MACHINE=$1 setsid nsenter --net="/run/netns/$(netns "$1")" \
    unshare --mount --uts --ipc --pid --fork --kill-child --mount-proc \
    bash "$LAB/$init" > "$dir/log/init.log" 2>&1 < /dev/null 7>&- 8>&- 9>&- &
  echo $! > "$dir/pid"
}

# Ends a machine as a power cut does: no process of it gets to say goodbye.
machine_crash() { # MACHINE
  local name end=$((SECONDS + 30)) pids; name=$(netns "$1")
  [ -e "/run/netns/$name" ] || return 0
  while pids=$(ip netns pids "$name") && [ -n "$pids" ]; do
    # Its pid 1 takes all others with it, those in the networks of pods too.
    # shellcheck disable=SC2086
    kill -9 $pids 2> /dev/null || true
    [ $SECONDS -lt $end ] || die "processes of machine $1 do not end: $(xargs <<< "$pids")" "see: ps -o pid,stat,wchan,args -p PID"
    sleep 0.05
  done
}

machine_run() { # MACHINE COMMAND...
  local init
  init=$(machine_init "$1") || die "machine $1 is not running" "start it with: lab boot $1"
  nsenter -t "$init" --mount --uts --ipc --pid --net -- "${@:2}"
}

machine_remove() { # MACHINE
  machine_crash "$1"
  cgroups_remove "$1"
  network_remove "$1"
  rm -rf --one-file-system "$(machine_dir "$1")"
}

cgroups_add() { # MACHINE
  local mount controller controllers
  for mount in $CGROUPS; do
    mkdir -p "$mount/petra-$1"
    if [ -e "$mount/petra-$1/cpuset.mems" ] && [ ! -e "$mount/cgroup.controllers" ]; then # v1: children start empty
      cat "$mount/cpuset.cpus" > "$mount/petra-$1/cpuset.cpus"
      cat "$mount/cpuset.mems" > "$mount/petra-$1/cpuset.mems"
    fi
    # v2, where it is the only hierarchy: each level has to hand its controllers down.
    if [ "$mount" = /sys/fs/cgroup ] && [ -e "$mount/cgroup.controllers" ]; then
      read -ra controllers < "$mount/cgroup.controllers" || true
      for controller in "${controllers[@]}"; do
        echo "+$controller" > "$mount/cgroup.subtree_control"
        echo "+$controller" > "$mount/petra-$1/cgroup.subtree_control"
      done 2> /dev/null || true
    fi
  done
}

cgroups_remove() { # MACHINE
  local mount end=$((SECONDS + 10))
  for mount in $CGROUPS; do
    # A process that was killed a moment ago may still be counted in its cgroup.
    while [ -d "$mount/petra-$1" ] && ! find "$mount/petra-$1" -depth -type d -exec rmdir {} + 2> /dev/null; do
      [ $SECONDS -lt $end ] || die "cgroup $mount/petra-$1 cannot be removed" "see which processes it has: cat $mount/petra-$1/cgroup.procs"
      sleep 0.1
    done
  done
}
