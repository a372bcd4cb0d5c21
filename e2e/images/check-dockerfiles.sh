#!/usr/bin/env bash
# Builds the Dockerfiles of this tree with buildah, on a Debian that is made here, without a registry; then looks
# whether each image is the one that build.sh made: the same files, program, user and entry point, and that it starts.
#
#   check-dockerfiles.sh [node] [operator]              with the programs that cargo has built already: seconds
#   check-dockerfiles.sh --compile [node] [operator]    with the stage that compiles them, by this machine's Rust in
#                                                       place of the official image: minutes, for node a quarter of an hour
set -euo pipefail
. "$(dirname "$0")/../lab/paths.sh"
HERE=$(cd "$(dirname "$0")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
PROGRAMS=${CARGO_TARGET_DIR:-$PETRA_CACHE/cargo}/release
STORE=$PETRA_CACHE/lab/buildah
BASE=docker.io/library/debian:bookworm-slim
RUST=docker.io/library/rust:1.95-bookworm

main() {
  [ "$(id -u)" = 0 ] || die "making a Debian base and its containers needs root" "run it as root"
  mode=prebuilt
  if [ "${1:-}" = --compile ]; then mode=compiled; shift; fi
  [ $# -gt 0 ] || set -- node operator
  mkdir -p "$STORE"
  exec 9> "$STORE/.lock"
  flock 9
  work=$(mktemp -d)
  trap 'clean; rm -rf "$work"' EXIT
  printf '[network]\nnetwork_config_dir = "%s"\n' "$work/networks" > "$work/containers.conf"
  export CONTAINERS_CONF=$work/containers.conf # otherwise buildah makes a directory for networks in /etc
  clean
  base
  [ $mode = prebuilt ] || rust
  local image
  for image; do
    case $image in
      node) check node petracache ;;
      operator) check operator petra-operator ;;
      *) die "there is no Dockerfile for $image" "there are: node operator" ;;
    esac
  done
}

# vfs and chroot work where overlay mounts and nested containers do not.
store() { buildah --root "$STORE/root" --runroot "$work/run" --storage-driver vfs "$@"; }

# Leaves the base only, also after an earlier run that was killed.
clean() {
  store rm --all > /dev/null 2>&1 || true
  store rmi --prune --force > /dev/null 2>&1 || true
}

# What a registry would give as BASE: the smallest Debian that has apt. Made once.
base() {
  store inspect --type image "$BASE" > /dev/null 2>&1 && return
  debian "$BASE"
}

# What a registry would give as RUST, as far as a Dockerfile can tell.
rust() {
  store inspect --type image "$RUST" > /dev/null 2>&1 && return
  local sysroot; sysroot=$(rustc --print sysroot)
  debian "$RUST" ca-certificates,g++,make -- "$sysroot/bin:/usr/local/bin" "$sysroot/lib:/usr/local/lib"
}

# debian IMAGE [PACKAGES -- FROM:TO...]
debian() {
  local image=$1 packages=${2:-} container add; shift
  [ $# = 0 ] || shift 2
  echo "making $image with mmdebstrap"
  mmdebstrap --quiet --variant=minbase ${packages:+--include="$packages"} bookworm "$work/base.tar" 2> "$work/base.log" ||
    die "mmdebstrap failed: $(tail -3 "$work/base.log")" "it downloads from Debian's mirror: is that within reach?"
  container=$(store from scratch)
  store add --quiet "$container" "$work/base.tar" / > /dev/null
  for add; do store add --quiet "$container" "${add%:*}" "${add#*:}" > /dev/null; done
  store config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin --cmd bash "$container"
  store commit --quiet --rm "$container" "$image" > /dev/null
  rm "$work/base.tar"
}

# check IMAGE PROGRAM
check() {
  local image=$1 program=$2 container mounted
  "$mode" "$@"
  container=$(store from --pull-never "petracache-$image")
  mounted=$(store mount "$container")
  same "$image" "files" <(archive_files "$image") <(files < <(tar -C "$mounted" -c .))
  [ $mode = compiled ] ||
    same "$image" "program" <(archive_program "$image" "$program" | sha256sum) <(sha256sum < "$mounted/usr/local/bin/$program")
  same "$image" "user and entry point" <(archive_config "$image") <(store inspect --type image "petracache-$image" |
    jq -c '.OCIv1.config | [.User, .Entrypoint]')
  chroot --userspec=65532:65532 "$mounted" "/usr/local/bin/$program" --help > "$work/help" 2>&1 ||
    die "$program does not start in the image of $image/Dockerfile: $(tail -3 "$work/help")"
  store rm "$container" > /dev/null
  store rmi "petracache-$image" > /dev/null
  echo "ok      $image/Dockerfile builds the image that build.sh builds, and its program starts"
}

# prebuilt IMAGE PROGRAM: the context is the program and the script that lays out the image.
prebuilt() {
  local context=$work/$1
  [ -x "$PROGRAMS/$2" ] || die "there is no program $PROGRAMS/$2" "build it with: cargo build --release --workspace"
  mkdir -p "$context"/{prebuilt,e2e/images}
  strip --strip-debug -o "$context/prebuilt/$2" "$PROGRAMS/$2"
  cp "$HERE/rootfs.sh" "$context/e2e/images/"
  image_of "$1" "$context" --build-arg PROGRAM=prebuilt
}

# compiled IMAGE PROGRAM: the context is this tree. Crates that are here already are not downloaded again.
compiled() { image_of "$1" "$ROOT" --volume "${CARGO_HOME:-$HOME/.cargo}/registry:/root/.cargo/registry"; }

# image_of IMAGE CONTEXT OPTIONS...
image_of() {
  store bud --quiet --pull-never --isolation chroot --file "$ROOT/$1/Dockerfile" --tag "petracache-$1" "${@:3}" "$2" \
    > "$work/bud.log" 2>&1 || die "building $1/Dockerfile failed: $(tail -20 "$work/bud.log")"
}

# same IMAGE WHAT OURS THEIRS
same() { diff -u "$3" "$4" || die "$2 of $1/Dockerfile (+) are not those of images/build.sh (-)"; }

# Mode and name of every file of a tar archive.
files() { tar -tv | awk '{print $1, $6}' | grep -vE ' \./((proc|sys|dev)/)?$' | sort; }

blob() { tar -xOf "$IMAGES/$1.tar" "blobs/${2/://}"; } # IMAGE DIGEST
manifest() { blob "$1" "$(tar -xOf "$IMAGES/$1.tar" index.json | jq -r '.manifests[0].digest')"; }
archive_layer() { blob "$1" "$(manifest "$1" | jq -r '.layers[0].digest')" | gzip -d; }
archive_files() { archive_layer "$1" | files; }
archive_program() { archive_layer "$1" | tar -xO "./usr/local/bin/$2"; }
archive_config() { blob "$1" "$(manifest "$1" | jq -r '.config.digest')" | jq -c '.config | [.User, .Entrypoint]'; }

main "$@"
