#!/bin/sh
# Lays out the file system of an image: what glibc and a non-root user expect, and at most one program with the
# libraries that it names. The Dockerfiles and build.sh both call this, so that they make the same images.
#
#   rootfs.sh ROOT [PROGRAM NAME]    PROGRAM becomes ROOT/usr/local/bin/NAME
set -eu
umask 022

NOBODY=65532 # the user that every image runs as

main() {
  root=$1
  skeleton
  [ $# = 1 ] || program "$2" "$root/usr/local/bin/$3"
}

skeleton() {
  install -d -m 755 "$root" "$root/etc" "$root/usr" "$root/usr/local" "$root/usr/local/bin"
  install -d -m 1777 "$root/tmp" "$root/data" # /data is where a node's volume goes, whoever runs it
  printf 'root:x:0:0:root:/:/sbin/nologin\npetracache:x:%s:%s:petracache:/:/sbin/nologin\n' $NOBODY $NOBODY > "$root/etc/passwd"
  printf 'root:x:0:\npetracache:x:%s:\n' $NOBODY > "$root/etc/group"
  echo 'hosts: files dns' > "$root/etc/nsswitch.conf" # glibc without it asks DNS before /etc/hosts
  chmod 644 "$root/etc/passwd" "$root/etc/group" "$root/etc/nsswitch.conf"
}

program() {
  install -m 755 "$1" "$2"
  if command -v strip > /dev/null; then strip --strip-debug "$2"; fi
  for library in $(libraries "$1"); do
    install -d -m 755 "$(dirname "$root$library")"
    install -m 755 "$(readlink -f "$library")" "$root$library"
  done
}

# The libraries that PROGRAM needs, at the paths where it looks for them; none of a static program.
libraries() {
  said=$(ldd "$1" 2>&1) || return 0
  if echo "$said" | grep 'not found' >&2; then
    echo "rootfs.sh: $1 needs these libraries, which are not here" >&2
    exit 1
  fi
  echo "$said" | grep -o '/[^ ]*' | sort -u
}

main "$@"
