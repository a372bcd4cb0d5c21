# shellcheck shell=bash
# Everything that helps to understand a failure, as files. Never fails itself: what cannot be had says why in its file.

LOG_LINES=2000 # of each component; a pod's log is written whole

# dump REGION DIR
dump() {
  local node machine
  mkdir -p "$2/components" "$2/pods" || return 0
  collect "$2/objects.txt" kubectl_in "$1" get all,pvc,pv,configmaps,pdb,events -A -o wide
  collect "$2/events.txt" kubectl_in "$1" get events -A --sort-by=.lastTimestamp
  collect "$2/objects.yaml" kubectl_in "$1" get statefulsets,deployments,services,configmaps,pdb,pvc,pv,leases -A -o yaml
  collect "$2/petra.txt" kubectl_in "$1" get petra -A -o wide
  collect "$2/petra.yaml" kubectl_in "$1" get petra -A -o yaml
  collect "$2/pods.yaml" kubectl_in "$1" get pods -A -o yaml
  collect "$2/pods.txt" kubectl_in "$1" describe pods -A
  collect "$2/nodes.txt" kubectl_in "$1" describe nodes
  dump_pod_logs "$1" "$2/pods"
  for machine in $(machines "$1"); do
    dump_components "$(machine_dir "$machine")/log" "$2/components/$machine"
  done
  collect "$2/processes.txt" processes "$1"
  for node in $(nodes "$1"); do
    collect "$2/containers-$node.txt" timeout 10 "$LAB/lab" sh "$node" ctr -n k8s.io containers list
  done
  collect "$2/audit-tail.json" tail -n "$LOG_LINES" "$(audit_log "$1")"
  collect "$2/machine.txt" sh -c 'uptime; free -m; df -h'
  echo "collected in $2"
}

# collect FILE COMMAND...
collect() { "${@:2}" > "$1" 2>&1 || echo "(${*:2} failed with status $?)" >> "$1"; }

dump_pod_logs() { # REGION DIR
  local namespace pod container restarts
  kubectl_in "$1" get pods -A -o json 2> "$2/list.log" | jq -r '.items[] | .metadata as $m |
      (.status.containerStatuses // [])[] | [$m.namespace, $m.name, .name, .restartCount] | @tsv' 2>> "$2/list.log" |
    while IFS=$'\t' read -r namespace pod container restarts; do
      collect "$2/$namespace.$pod.$container.log" kubectl_in "$1" -n "$namespace" logs "$pod" -c "$container"
      [ "$restarts" = 0 ] ||
        collect "$2/$namespace.$pod.$container.previous.log" kubectl_in "$1" -n "$namespace" logs "$pod" -c "$container" --previous
    done || true
}

dump_components() { # FROM TO
  local log
  mkdir -p "$2" || return 0
  for log in "$1"/*.log; do
    [ ! -e "$log" ] || collect "$2/${log##*/}" tail -n "$LOG_LINES" "$log"
  done
}
