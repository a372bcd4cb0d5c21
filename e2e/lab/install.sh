#!/usr/bin/env bash
# Installs the Debian packages that building and running the lab takes, those that are missing only.
#
#   install.sh           install what is missing
#   install.sh --check   only say what is missing; exit status 1 when something is
#   install.sh FILE      install the packages of another list, of the same form as the one below
set -euo pipefail

# PACKAGE  what it is for
PACKAGES='
build-essential              compiling RocksDB, and the image of the pause container
libclang-dev                 generating the bindings to RocksDB
git                          listing the files of this tree
bsdextrautils                column, which lists the commands of the Makefile
ca-certificates              downloading Go modules and crates
curl                         asking HTTP endpoints
jq                           building images, reading objects
shellcheck                   checking these scripts
openssl                      certificates of the clusters
containerd                   runs the pods
runc                         starts the containers
containernetworking-plugins  connects the pods
iptables                     Services, by kube-proxy
conntrack                    Services, by kube-proxy
iproute2                     networks of the machines
procps                       listing processes, and sysctl
util-linux                   namespaces of the machines
busybox-static               the tools image
e2fsprogs                    a disk that loses its power
memcached                    the judge of what nodes answer; behind the stand-in for mcrouter
prometheus                   scraping the lab, for the dashboard and the alerts
buildah                      checking the Dockerfiles
mmdebstrap                   the base image for that check
'

main() {
  case ${1:-} in
    '' | --check) ;;
    -*) sed -n '2,6p' "$0"; exit 2 ;;
    *) PACKAGES=$(grep -v '^#' "$1") ;;
  esac
  [ -r /etc/debian_version ] || other_system
  local missing; mapfile -t missing < <(missing_packages)
  if [ ${#missing[@]} = 0 ]; then
    echo "every Debian package that is needed is there"
    return
  fi
  echo "missing Debian packages:"
  local package
  for package in "${missing[@]}"; do printf '  %-28s for %s\n' "$package" "$(purpose "$package")"; done
  [ "${1:-}" != --check ] || exit 1
  install "${missing[@]}"
}

names() { awk 'NF {print $1}' <<< "$PACKAGES"; }
purpose() { awk -v name="$1" '$1 == name {$1 = ""; sub(/^ /, ""); print}' <<< "$PACKAGES"; }

missing_packages() {
  local package
  for package in $(names); do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null)" = installed ] || echo "$package"
  done
}

install() {
  if [ "$(id -u)" != 0 ]; then
    echo "installing them needs root. Run this, and then the same command again:" >&2
    echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends $*" >&2
    exit 1
  fi
  export DEBIAN_FRONTEND=noninteractive
  echo "installing them with apt-get"
  apt-get update -qq || echo "apt-get update failed; trying with the lists that are there" >&2
  apt-get install -y -qq --no-install-recommends "$@" > /dev/null || {
    echo "apt-get install failed: see above. The packages are: $*" >&2
    exit 1
  }
}

other_system() {
  echo "this is not Debian. Install what these Debian packages hold, then run the lab's other scripts directly:" >&2
  echo "$PACKAGES" >&2
  exit 1
}

main "$@"
