#!/usr/bin/env bash
# Makes an OCI image archive with one layer from a directory, with tar, gzip, sha256sum and jq only: no daemon, no
# base image. The same directory gives the same digest, whoever makes the image and when.
#
#   mkimage.sh NAME ROOTFS ARCHIVE CONFIG
#
# NAME is docker.io/REPOSITORY:TAG; CONFIG is the image's config as JSON: {"User": ..., "Entrypoint": [...]}.
set -euo pipefail

main() {
  [ $# = 4 ] || { sed -n '2,7p' "$0"; exit 2; }
  local name=$1 rootfs=$2 archive=$3 config=$4 layer manifest
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  mkdir -p "$work/blobs/sha256"

  tar -C "$rootfs" --format=gnu --numeric-owner --owner=0 --group=0 --sort=name --mtime=@0 -cf "$work/layer.tar" .
  local diff_id; diff_id=sha256:$(sha256sum < "$work/layer.tar" | cut -d ' ' -f 1)
  gzip -n -1 "$work/layer.tar"
  layer=$(put "$work/layer.tar.gz" application/vnd.oci.image.layer.v1.tar+gzip)
  jq -cnS --argjson config "$config" --arg diff_id "$diff_id" --arg arch "$(architecture)" '{architecture: $arch, os: "linux",
    config: ({Env: ["PATH=/usr/local/bin:/usr/bin:/bin"], WorkingDir: "/"} + $config),
    rootfs: {type: "layers", diff_ids: [$diff_id]}}' > "$work/config"
  config=$(put "$work/config" application/vnd.oci.image.config.v1+json)
  jq -cnS --argjson config "$config" --argjson layer "$layer" '{schemaVersion: 2,
    mediaType: "application/vnd.oci.image.manifest.v1+json", config: $config, layers: [$layer]}' > "$work/manifest"
  manifest=$(put "$work/manifest" application/vnd.oci.image.manifest.v1+json)
  jq -cnS --argjson manifest "$manifest" --arg name "$name" '{schemaVersion: 2, manifests: [$manifest + {annotations:
    {"io.containerd.image.name": $name, "org.opencontainers.image.ref.name": ($name | split(":") | last)}}]}' > "$work/index.json"
  echo '{"imageLayoutVersion":"1.0.0"}' > "$work/oci-layout"

  mkdir -p "$(dirname "$archive")"
  tar -C "$work" --numeric-owner --owner=0 --group=0 --sort=name --mtime=@0 -cf "$archive.$$" oci-layout index.json blobs
  mv "$archive.$$" "$archive"
  jq -r '.manifests[0].digest' "$work/index.json"
}

# put FILE MEDIA-TYPE: moves FILE to the blobs and prints its descriptor.
put() {
  local digest size
  digest=$(sha256sum "$1" | cut -d ' ' -f 1) size=$(stat -c %s "$1")
  mv "$1" "$work/blobs/sha256/$digest"
  jq -cn --arg type "$2" --arg digest "sha256:$digest" --argjson size "$size" \
    '{mediaType: $type, digest: $digest, size: $size}'
}

architecture() { case $(uname -m) in x86_64) echo amd64 ;; aarch64) echo arm64 ;; *) uname -m ;; esac; }

main "$@"
