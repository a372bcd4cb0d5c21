# shellcheck shell=bash
# What pid 1 of every machine does first, and how it keeps programs running. Sourced by control-plane.sh and
# node.sh, inside the machine's namespaces.

. "$(dirname "${BASH_SOURCE[0]}")/paths.sh"
. "$LAB/network.sh"
. "$LAB/pki.sh"
. "$LAB/machine.sh"

REGION=$(region_of "$MACHINE")
DIR=$(machine_dir "$MACHINE")
PKI=$(pki "$REGION")
export REGION DIR PKI

hostname "$MACHINE"
mount -t tmpfs -o mode=755 tmpfs /run # fresh at each boot, like a real machine's
mkdir -p /run/lock /run/tmp /run/netns
export TMPDIR=/run/tmp

# component NAME COMMAND...: keeps COMMAND running, as systemd would; its output goes to log/NAME.log.
component() {
  local name=$1 status; shift
  while :; do
    "$@" >> "$DIR/log/$name.log" 2>&1
    status=$?
    echo "$(date -Is) $name ended with status $status; starting it again" >&2
    sleep 1
  done &
}
