#!/usr/bin/env bash
# libmemcached's memcapable, every check of the text and the binary protocol, against any memcached-compatible server.
#
#   memcapable.sh BINARY
set -euo pipefail
E2E=$(cd "$(dirname "$0")" && pwd)

# What memcapable 1.1.4 has. It goes on after a check that fails, but ends when the server does not answer.
TEXT_CHECKS=27
BINARY_CHECKS=27
# Waiting for an answer; several checks wait this long for an answer that must not come.
TIMEOUT_S=5

main() {
  if [ $# != 1 ] || [ ! -x "$1" ]; then sed -n '2,4p' "$0"; exit 2; fi
  "$E2E/lab/install.sh" <(echo "libmemcached-tools  memcapable")
  DIR=$(mktemp -d)
  trap '"$E2E/server.sh" stop "$DIR"; rm -rf "$DIR"' EXIT
  "$E2E/server.sh" start "$DIR" "$1"
  local status=0
  # Debian calls it memccapable.
  "$(command -v memccapable || command -v memcapable)" -h 127.0.0.1 -p "$(< "$DIR/port")" -t "$TIMEOUT_S" -v \
    2> "$DIR/assertions" | tee "$DIR/out" || status=$?
  [ "$status" = 0 ] || { cat "$DIR/assertions"; echo; } >&2
  verdict "$status"
}

verdict() {
  local text binary
  text=$(grep -c '^ascii .*\[pass\]$' "$DIR/out" || true)
  binary=$(grep -c '^binary .*\[pass\]$' "$DIR/out" || true)
  echo "memcapable: $text of $TEXT_CHECKS text checks and $binary of $BINARY_CHECKS binary checks pass"
  [ "$1 $text $binary" = "0 $TEXT_CHECKS $BINARY_CHECKS" ]
}

main "$@"
