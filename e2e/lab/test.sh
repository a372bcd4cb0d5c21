#!/usr/bin/env bash
# Tests of the lab itself, on two regions that it starts and ends: minutes, and not part of the project's tests.
#
#   test.sh [REGION REGION]    by default b c; both must be down
set -euo pipefail
. "$(dirname "$0")/paths.sh"
ONE=${1:-b} TWO=${2:-c}
failures=0

main() {
  trap 'lab down "$ONE" "$TWO" > /dev/null' EXIT
  trap 'exit 130' INT TERM HUP
  local before; before=$(traces)
  check "a region starts" lab up "$ONE"
  check "a region that is up stays as it is" is_up_already "$ONE"
  check "a region with other settings is not mistaken for it" fails lab up "$ONE" 2
  check "another region starts beside it" lab up "$TWO"
  workload "$ONE"
  check "linked regions know each other's pods by name" regions_are_linked
  check "the end of one region leaves the other alone" ends_alone
  machines_crash
  check "dump collects logs and objects" dump_has_files
  check "down twice is fine" lab down "$ONE" "$ONE"
  interrupted_starts
  check "a region whose state directory was deleted can be ended" ends_without_state
  check "nothing is left of them" test "$before" = "$(traces)"
  [ $failures = 0 ] || die "$failures checks failed"
}

lab() { "$LAB/lab" "$@"; }
k() { "$BIN/kubectl" --kubeconfig "$(lab kubeconfig "$ONE")" "$@"; }
export KUBECACHEDIR=$PETRA_CACHE/lab/kubectl # not in the home directory
in_pod() { k exec check-0 -- sh -c "$1"; }
fails() { if "$@"; then return 1; fi; }

# check NAME COMMAND...: says whether COMMAND succeeds, and how long it took.
check() {
  local name=$1 start=$EPOCHREALTIME said status; shift
  set +e # in a condition, bash would go on after a failure inside of COMMAND
  said=$(set -e; "$@" 2>&1)
  status=$?
  set -e
  if [ $status = 0 ]; then
    printf 'ok      %-64s %5.1f s\n' "$name" "$(elapsed "$start")"
  else
    printf 'FAILED  %s: status %s, %s\n' "$name" "$status" "$said"
    failures=$((failures + 1))
  fi
}
elapsed() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN {print b - a}'; }

# eventually SECONDS COMMAND...: repeats COMMAND until it succeeds.
eventually() {
  local end=$((SECONDS + $1)); shift
  until "$@"; do [ $SECONDS -lt $end ] || return 1; sleep 0.2; done
}

# What the two regions have on this machine: networks, links, cgroups, mounts, processes, state, sysctls.
traces() {
  { ip netns; ip -o link; awk '{print $2}' /proc/mounts; find /sys/fs/cgroup -maxdepth 2 -name 'petra-*'; ls "$STATE"
    ps -eo args; ls /run/petracache-lab
  } 2> /dev/null | grep -oE "petra-[$ONE$TWO](-[0-9])?|/state/[$ONE$TWO]/|^[$ONE$TWO]$|[$ONE$TWO].owner" | sort | uniq -c | xargs
  sysctl vm.overcommit_memory kernel.panic fs.inotify.max_user_instances | xargs
}

is_up_already() { lab up "$1" | grep 'up already'; }

workload() {
  k apply -f "$LAB/manifests/check.yaml" > /dev/null
  check "a StatefulSet with volumes becomes ready" k rollout status sts/check --timeout=60s
  check "pods have names" in_pod 'wget -qO- http://check-1.check.default.svc.cluster.local:8080/name | grep check-1'
  check "a Service has an address" in_pod 'wget -qO- http://check-vip/name | grep check-'
  check "a pod's address is reached from this machine" \
    sh -c "curl -sf -m 5 http://$(k get pod check-0 -o jsonpath='{.status.podIP}'):8080/name | grep check-0"
  check "a deleted pod comes back with its data" pod_keeps_its_data
  check "a volume grows" volume_grows
  check "writes are in the audit log" grep -q '"verb":"delete".*"pods".*check-0' "$(lab audit "$ONE")"
}

pod_keeps_its_data() {
  local uid; uid=$(k get pod check-0 -o jsonpath='{.metadata.uid}')
  in_pod 'echo precious > /data/keep'
  k delete pod check-0 --wait=false
  eventually 30 new_pod "$uid"
  k wait pod/check-0 --for=condition=Ready --timeout=30s
  in_pod 'grep precious /data/keep'
}
new_pod() { local now; now=$(k get pod check-0 -o jsonpath='{.metadata.uid}') && [ "$now" != "$1" ]; }

volume_grows() {
  k patch pvc data-check-0 -p '{"spec": {"resources": {"requests": {"storage": "2Gi"}}}}'
  eventually 10 k wait pvc/data-check-0 --for=jsonpath='{.status.capacity.storage}'=2Gi --timeout=1s
  fails k patch pvc data-check-0 -p '{"spec": {"resources": {"requests": {"storage": "1Gi"}}}}'
}

regions_are_linked() {
  "$BIN/kubectl" --kubeconfig "$(lab kubeconfig "$TWO")" apply -f "$LAB/manifests/check.yaml"
  "$BIN/kubectl" --kubeconfig "$(lab kubeconfig "$TWO")" rollout status sts/check --timeout=60s
  lab link "$TWO" "$ONE"
  local ask="timeout 2 wget -qO- http://check-1.check.default.svc.$TWO.lab:8080/name"
  eventually 20 in_pod "$ask"
  lab partition "$ONE" "$TWO"
  fails in_pod "$ask"
  lab heal "$TWO" "$ONE"
  eventually 20 in_pod "$ask"
}

ends_alone() {
  lab down "$TWO"
  k get --raw /readyz
  in_pod 'wget -qO- http://check-1.check:8080/name'
}

machines_crash() {
  lab crash "$ONE-1"
  check "a crashed machine runs nothing" fails lab sh "$ONE-1" true
  check "it boots on the disk it had" lab boot "$ONE-1"
  check "and its pods come back with their data" eventually 60 in_pod 'grep precious /data/keep'
  lab crash "$ONE"
  check "a crashed control plane boots with what it knew" lab boot "$ONE"
  check "and its pods are still there" eventually 60 k wait pod --all --for=condition=Ready --timeout=2s
}

dump_has_files() {
  local dir; dir=$(mktemp -d)
  lab dump "$ONE" "$dir"
  grep -q 'pod/check-0' "$dir/objects.txt"
  grep -q check-0 "$dir/pods.yaml"
  [ -s "$dir/components/$ONE-1/kubelet.log" ]
  [ -e "$dir/pods/default.check-0.app.log" ]
  rm -r "$dir"
}

# `up` is killed at other moments of its some ten seconds each time: with it go its children, as with a closed terminal.
interrupted_starts() {
  local after job
  for after in 0.3 0.8 1.5 3 5 7; do
    set -m
    lab up "$ONE" > /dev/null 2>&1 & job=$!
    set +m
    sleep "$after"
    kill -9 -- "-$job" 2> /dev/null || true
    wait "$job" 2> /dev/null || true
  done
  check "a region starts after six interrupted starts" lab up "$ONE"
  k apply -f "$LAB/manifests/check.yaml" > /dev/null
  check "and works" k rollout status sts/check --timeout=60s
}

ends_without_state() {
  rm -rf "${STATE:?}/$ONE"
  lab down "$ONE"
}

main "$@"
