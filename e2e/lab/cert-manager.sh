#!/usr/bin/env bash
# Prints the folder with the CustomResourceDefinitions of cert-manager, fetched as a Go module where they are not there yet.
# cert-manager itself does not run in the lab: tests play its part.
set -euo pipefail
. "$(dirname "$0")/paths.sh"

MODULE=github.com/cert-manager/cert-manager@v1.21.2
export GOMODCACHE=${GOMODCACHE:-$PETRA_CACHE/go-mod} GOWORK=off GOFLAGS=-modcacherw

main() {
  local folder=$GOMODCACHE/$MODULE/deploy/crds
  if [ ! -d "$folder" ]; then
    (cd / && go mod download "$MODULE") ||
      die "downloading $MODULE failed: see above" "run this again; GOPROXY is $(go env GOPROXY)"
  fi
  echo "$folder"
}

main "$@"
