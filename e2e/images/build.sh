#!/usr/bin/env bash
# Builds the images that the lab runs, without a daemon or a registry, as OCI archives in PETRA_CACHE/lab/images.
#
#   build.sh            pause, tools, and an image of every program that cargo has built
#   build.sh NAME...    only these: pause tools node operator mcrouter-stand-in
#
# Programs come from CARGO_TARGET_DIR/release. With MCROUTER_BIN set, that program and the libraries it needs are
# in the image docker.io/petracache/mcrouter-stand-in:dev instead of the stand-in. An image whose content did not
# change is not built again.
set -euo pipefail
. "$(dirname "$0")/../lab/paths.sh"
HERE=$(cd "$(dirname "$0")" && pwd)
PROGRAMS=${CARGO_TARGET_DIR:-$PETRA_CACHE/cargo}/release

main() {
  case ${1:-} in -*) sed -n '2,9p' "$0"; exit 2 ;; esac
  [ $# -gt 0 ] || set -- pause tools node operator mcrouter-stand-in
  mkdir -p "$IMAGES"
  exec 9> "$IMAGES/.lock"
  flock 9
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  local image
  for image; do
    root=$work/$image
    case $image in
      pause) pause ;;
      tools) tools ;;
      node) program node "$PROGRAMS/petracache" petracache ;;
      operator) program operator "$PROGRAMS/petra-operator" petra-operator ;;
      mcrouter-stand-in) program mcrouter-stand-in "${MCROUTER_BIN:-$PROGRAMS/mcrouter-stand-in}" mcrouter ;;
      *) die "there is no image $image" "there are: pause tools node operator mcrouter-stand-in" ;;
    esac
  done
}

# program IMAGE FILE NAME: an image of one program, /usr/local/bin/NAME, and its libraries.
program() {
  [ -x "$2" ] || die "there is no program $2" "build it with: cargo build --release --workspace (or set MCROUTER_BIN to a mcrouter)"
  [ "$(head -c 4 "$2")" = $'\x7fELF' ] || die "$2 is no Linux program but perhaps a script around one" "name the program itself"
  unchanged "$1" "$2" && return
  "$HERE/rootfs.sh" "$root" "$2" "$3"
  finish "$1" "$(jq -cn --arg program "/usr/local/bin/$3" --arg paths "$(odd_library_paths)" '
    {User: "65532:65532", Entrypoint: [$program]} + if $paths == "" then {} else {Env: [
      "PATH=/usr/local/bin:/usr/bin:/bin", "LD_LIBRARY_PATH=" + $paths]} end')"
}

# Where a program that was installed by hand has its libraries, and the loader does not look by itself.
odd_library_paths() {
  (cd "$root" && find . -name '*.so*' -printf '/%P\n') | sed 's:/[^/]*$::' |
    { grep -vE '^(/usr)?/lib(64)?(/|$)' || true; } | sort -u | paste -sd :
}

# The first process of every pod.
pause() {
  unchanged pause "$HERE/pause.c" && return
  "$HERE/rootfs.sh" "$root"
  gcc -static -Os -s -Wall -Wl,--build-id=none -o "$root/pause" "$HERE/pause.c"
  finish pause '{"User": "65532:65532", "Entrypoint": ["/pause"]}'
}

# A shell, nc, wget, nslookup and the like, for tests.
tools() {
  local applet
  unchanged tools /bin/busybox && return
  "$HERE/rootfs.sh" "$root" /bin/busybox busybox
  install -d -m 755 "$root/bin"
  for applet in $(/bin/busybox --list); do ln -s ../usr/local/bin/busybox "$root/bin/$applet"; done
  finish tools '{"User": "65532:65532", "Cmd": ["/bin/sh"]}'
}

# unchanged IMAGE FILE: whether the archive was made of this very file by these very scripts.
unchanged() {
  print=$(cat "$HERE"/{build,rootfs,mkimage}.sh "$2" | sha256sum)
  [ -e "$IMAGES/$1.tar" ] && [ "$(cat "$IMAGES/.$1.stamp" 2> /dev/null)" = "$print" ] && echo "$1 is up to date"
}

finish() { # IMAGE CONFIG
  local digest
  rm -f "$IMAGES/.$1.stamp"
  digest=$("$HERE/mkimage.sh" "docker.io/petracache/$1:dev" "$root" "$IMAGES/$1.tar" "$2")
  echo "$print" > "$IMAGES/.$1.stamp"
  printf '%-18s %8s  %s\n' "$1" "$(du -h --apparent-size "$IMAGES/$1.tar" | cut -f 1)" "$digest"
}

main "$@"
