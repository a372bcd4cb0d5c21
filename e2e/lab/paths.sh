# shellcheck shell=bash
# Where things are. Sourced by every script of the lab; changes nothing, starts nothing.
# Nothing is ever written into the directory that holds these scripts.

LAB=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PETRA_CACHE=$(realpath -m "${PETRA_CACHE:-$HOME/.cache/petracache}")
BIN=$PETRA_CACHE/lab/bin         # what build.sh builds
IMAGES=$PETRA_CACHE/lab/images   # OCI archives that every node imports at boot
STATE=$PETRA_CACHE/lab/state     # STATE/REGION is everything about a region, STATE/REGION/MACHINE about a machine
export LAB PETRA_CACHE BIN IMAGES STATE

# die WHAT [WHERE]: ends the script with what failed, and where to look or what to do.
die() {
  echo "${0##*/}: $1" >&2
  [ -z "${2:-}" ] || echo "${0##*/}: $2" >&2
  exit 1
}
