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
PROGRAMS=${CARGO_TARGET_DIR:-$PETRA_CACHE/target}/release
NOBODY=65532 # the user that every image runs as

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
      pause) build pause 9>&- ;;
      tools) build tools 9>&- ;;
      node) program node "$PROGRAMS/petracache" petracache ;;
      operator) program operator "$PROGRAMS/petra-operator" petra-operator ;;
      mcrouter-stand-in) program mcrouter-stand-in "${MCROUTER_BIN:-$PROGRAMS/mcrouter-stand-in}" mcrouter ;;
      *) die "there is no image $image" "there are: pause tools node operator mcrouter-stand-in" ;;
    esac
  done
}

# program IMAGE FILE NAME: an image of one program, /usr/local/bin/NAME, and the libraries that it names.
program() {
  [ -x "$2" ] || die "there is no program $2" "build it with: cargo build --release --workspace (or set MCROUTER_BIN to a mcrouter)"
  [ "$(head -c 4 "$2")" = $'\x7fELF' ] || die "$2 is no Linux program but perhaps a script around one" "name the program itself"
  local libraries; mapfile -t libraries < <(libraries_of "$2")
  unchanged "$1" "$2" "${libraries[@]}" && return
  skeleton
  install -D -m 755 "$2" "$root/usr/local/bin/$3"
  strip --strip-debug "$root/usr/local/bin/$3"
  local library paths=
  for library in "${libraries[@]}"; do
    install -D -m 755 "$(readlink -f "$library")" "$root$library"
    case $library in
      /lib/* | /lib64/* | /usr/lib/*) ;;
      *) paths=$paths:${library%/*} ;;
    esac
  done
  finish "$1" "$(jq -cn --arg user "$NOBODY:$NOBODY" --arg program "/usr/local/bin/$3" --arg paths "${paths#:}" '
    {User: $user, Entrypoint: [$program]} + if $paths == "" then {} else {Env: [
      "PATH=/usr/local/bin:/usr/bin:/bin", "LD_LIBRARY_PATH=" + $paths]} end')"
}

libraries_of() {
  local said
  said=$(ldd "$1" 2>&1) || return 0 # a static program
  ! grep -q 'not found' <<< "$said" || die "$1 needs libraries that are not here: $(grep 'not found' <<< "$said" | xargs)"
  grep -o '/[^ ]*' <<< "$said" | sort -u
}

# What glibc and a non-root user expect of a file system.
skeleton() {
  rm -rf "$root"
  install -d -m 755 "$root" "$root"/{etc,usr/local/bin}
  install -d -m 1777 "$root"/{tmp,data}
  printf 'root:x:0:0:root:/:/sbin/nologin\npetracache:x:%s:%s:petracache:/:/sbin/nologin\n' $NOBODY $NOBODY > "$root/etc/passwd"
  printf 'root:x:0:\npetracache:x:%s:\n' $NOBODY > "$root/etc/group"
  echo 'hosts: files dns' > "$root/etc/nsswitch.conf"
}

# pause: the first process of every pod. tools: a shell, nc and the like for tests.
build() {
  unchanged "$1" "$HERE/pause.c" /bin/busybox && return
  skeleton
  "$1"
}
pause() {
  gcc -static -Os -s -Wall -Wl,--build-id=none -o "$root/pause" "$HERE/pause.c"
  finish pause '{"User": "65532:65532", "Entrypoint": ["/pause"]}'
}
tools() {
  local applet
  install -D -m 755 /bin/busybox "$root/bin/busybox"
  for applet in $(/bin/busybox --list | grep -vx busybox); do ln -s busybox "$root/bin/$applet"; done
  finish tools '{"User": "65532:65532", "Cmd": ["/bin/sh"]}'
}

# unchanged IMAGE FILE...: whether the archive was made of these very files.
unchanged() {
  print=$(cat "$HERE/build.sh" "$HERE/mkimage.sh" "${@:2}" | sha256sum)
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
