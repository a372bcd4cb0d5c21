#!/usr/bin/env bash
# Real clients, each through its own idioms, against any memcached-compatible server.
#
#   run.sh BINARY [CLIENT...]              every client (or these) has servers of its own, with and without SASL and TLS
#   run.sh --server HOST:PORT [CLIENT...]  against a server that runs: what needs SASL, TLS or a restart is left out.
#                                          It is emptied!
#   run.sh --install                       only installs the clients
#
# Clients are installed below PETRA_CACHE, each in the version that this directory names, and by Debian.
# A client is a program that gets SERVER=HOST:PORT, prints a line for every check, and fails when one does not hold.
# RESTART is the command that restarts SERVER, and REMEMBERS is set if it has its data then; SASL_SERVER, SASL_USER and
# SASL_PASSWORD, TLS_SERVER and TLS_CA (the certificate to trust) are for those that can.
# CLIENT_JOBS (6) is how many clients run at a time.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
E2E=$(dirname "$HERE")
CACHE=${PETRA_CACHE:-$HOME/.cache/petracache}
CLIENTS=$CACHE/clients
export GOCACHE=${GOCACHE:-$CACHE/go-build} GOMODCACHE=${GOMODCACHE:-$CACHE/go-mod}
export SASL_USER=petra SASL_PASSWORD='cached, twice'
# The slowest takes some ten seconds, most of it waiting for values to expire and for the server to be back.
CLIENT_TIMEOUT_S=120

# NAME  what it can do beside the plain protocol  command, in this directory
table() {
  local python=$CLIENTS/python/bin/python java="java -XX:TieredStopAtLevel=1 -cp $CLIENTS/downloads/*"
  cat << TABLE
pymemcache     tls   $python pymemcache_client.py
pylibmc        no    $python pylibmc_client.py
bmemcached     sasl,tls  $python bmemcached_client.py
spymemcached   sasl  $java -Dnet.spy.log.LoggerImpl=net.spy.memcached.compat.log.SLF4JLogger SpymemcachedClient.java
xmemcached     sasl  $java XmemcachedClient.java
gomemcache     tls   $CLIENTS/gomemcache
memjs          sasl  env MEMJS=$CLIENTS/memjs/package node memjs_client.js
dalli          sasl,tls  ruby dalli_client.rb
php-memcached  sasl  php php_memcached_client.php
TABLE
}

main() {
  case ${1:-} in
    --one) one "$2"; return ;;
    --install) install; return ;;
    --server) export SERVER=${2:?HOST:PORT}; shift 2 ;;
    '' | -*) sed -n '2,13p' "$0"; exit 2 ;;
    *) BINARY=$(realpath "$1"); export BINARY; shift ;;
  esac
  local clients=("$@")
  [ $# != 0 ] || mapfile -t clients < <(table | awk '{print $1}')
  install
  RUN=$(mktemp -d); export RUN
  trap clean_up EXIT
  printf '%s\n' "${clients[@]}" | xargs -P "$(jobs_at_a_time)" -I{} "$0" --one {} || true
  report "${clients[@]}"
}

# Clients empty the server: on one server, one after the other.
jobs_at_a_time() { if [ -n "${SERVER:-}" ]; then echo 1; else echo "${CLIENT_JOBS:-6}"; fi; }

# Servers take a second or two to end: all of them together, therefore.
clean_up() {
  local server
  for server in "$RUN"/*/*server; do
    [ ! -d "$server" ] || "$E2E/server.sh" stop "$server" &
  done
  wait
  rm -rf "$RUN"
}

install() {
  "$E2E/lab/install.sh" "$HERE/packages.txt"
  mkdir -p "$CLIENTS/downloads"
  exec 9> "$CLIENTS/lock"
  flock 9
  install_downloads
  install_python
  (cd "$HERE" && GOFLAGS=-modcacherw GOWORK=off CGO_ENABLED=0 go build -trimpath -buildvcs=false -mod=readonly -o "$CLIENTS/gomemcache" .)
  exec 9>&-
}

install_downloads() {
  local sha256 address file
  while read -r sha256 address; do
    file=$CLIENTS/downloads/${address##*/}
    if [ ! -f "$file" ]; then
      echo "downloading ${address##*/}"
      curl -fsSL --retry 3 -o "$file.new" "$address"
      sha256sum --quiet -c <<< "$sha256  $file.new"
      mv "$file.new" "$file"
    fi
  done < <(grep -v '^#' "$HERE/downloads.txt")
  unpack memjs "$(sed -n 's/.*\(memjs-[0-9.]*\.tgz\)$/\1/p' "$HERE/downloads.txt")"
}

# unpack NAME ARCHIVE: anew whenever it is another archive.
unpack() {
  [ "$(cat "$CLIENTS/$1/.from" 2> /dev/null)" != "$2" ] || return 0
  rm -rf "${CLIENTS:?}/$1"
  mkdir -p "$CLIENTS/$1"
  tar -xzf "$CLIENTS/downloads/$2" -C "$CLIENTS/$1"
  echo "$2" > "$CLIENTS/$1/.from"
}

install_python() {
  cmp -s "$HERE/requirements.txt" "$CLIENTS/python/.from" || {
    echo "installing the Python clients"
    /usr/bin/python3 -m venv --clear "$CLIENTS/python"
    "$CLIENTS/python/bin/pip" install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r "$HERE/requirements.txt"
    cp "$HERE/requirements.txt" "$CLIENTS/python/.from"
  }
}

# one CLIENT: prints its checks when it has ended, so that those of several do not mix.
one() {
  local can='' command='' dir=$RUN/$1 status=0 start=$SECONDS
  read -r _ can command < <(table | awk -v name="$1" '$1 == name') || true
  mkdir "$dir"
  if [ -z "$command" ]; then
    echo "FAIL there is no client $1: there are $(table | awk '{printf "%s ", $1}')" > "$dir/log"; status=2
  elif [ -n "${SERVER:-}" ] || servers "$dir" "$can" > "$dir/log" 2>&1; then
    # The table's commands are split at spaces, and nothing in them is expanded: a * is Java's.
    local words; read -ra words <<< "$command"
    (cd "$HERE" && PYTHONDONTWRITEBYTECODE=1 timeout --foreground "$CLIENT_TIMEOUT_S" "${words[@]}") > "$dir/log" 2>&1 || status=$?
  else
    status=1
  fi
  verdict "$1" "$status" $((SECONDS - start))
}

verdict() {
  local log=$RUN/$1/log checks
  checks=$(grep -c '^ok ' "$log" || true)
  [ "$2" != 124 ] || echo "FAIL hangs: ended after $CLIENT_TIMEOUT_S s" >> "$log"
  if [ "$2" = 0 ] && [ "$checks" -gt 0 ]; then touch "$RUN/$1/passed"; fi
  { echo "$1"; sed 's/^/  /' "$log"
    if [ -f "$RUN/$1/passed" ]; then echo "  pass: $checks checks, $3 s"; else echo "  FAIL: $1, after $checks checks, exit status $2"; fi
  } > "$RUN/$1/report"
  cat "$RUN/$1/report"
}

# servers DIR CAN: starts a client's servers and says in the environment where they are.
servers() {
  "$E2E/server.sh" start "$1/server" "$BINARY" || return
  SERVER=127.0.0.1:$(< "$1/server/port")
  RESTART=$(printf '%q restart %q' "$E2E/server.sh" "$1/server")
  REMEMBERS=$("$BINARY" --help 2> /dev/null | grep -c -e --db-path || true)
  [ "$REMEMBERS" = 0 ] && REMEMBERS=
  export SERVER RESTART REMEMBERS
  if [[ $2 = *sasl* ]]; then sasl_server "$1" || return; fi
  if [[ $2 = *tls* ]]; then tls_server "$1" || return; fi
}

sasl_server() {
  sasl_user "$1" || return
  "$E2E/server.sh" start "$1/sasl-server" "$BINARY" -S -B binary || return
  SASL_SERVER=127.0.0.1:$(< "$1/sasl-server/port")
  export SASL_SERVER
}

# tls_server DIR: with a certificate of its own, which its clients trust.
tls_server() {
  export TLS_CA=$1/certificate.pem
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=IP:127.0.0.1,DNS:localhost -keyout "$1/key.pem" -out "$TLS_CA" 2> "$1/openssl.log" || return
  # Readable for memcached's own user, which loses root before it reads.
  chmod 755 "$1"; chmod 644 "$1/key.pem"
  "$E2E/server.sh" start "$1/tls-server" "$BINARY" -Z -o "ssl_chain_cert=$TLS_CA,ssl_key=$1/key.pem" || return
  TLS_SERVER=127.0.0.1:$(< "$1/tls-server/port")
  export TLS_SERVER
}

# sasl_user DIR: the user in the database of Cyrus SASL, for Debian's memcached, and in the text file that memcached reads
# when it is built with --enable-sasl-pwdb, for servers without Cyrus SASL.
sasl_user() {
  export MEMCACHED_SASL_PWDB=$1/sasl-pwdb SASL_CONF_PATH=$1
  (umask 077
    echo "$SASL_USER:$SASL_PASSWORD" > "$MEMCACHED_SASL_PWDB"
    printf '%s\n' 'mech_list: plain' "sasldb_path: $1/sasldb" > "$1/memcached.conf"
    printf '%s' "$SASL_PASSWORD" | /usr/sbin/saslpasswd2 -p -c -a memcached -f "$1/sasldb" "$SASL_USER")
}

report() {
  local client failed=()
  for client in "$@"; do
    [ -f "$RUN/$client/passed" ] || failed+=("$client")
  done
  [ ${#failed[@]} = 0 ] || echo "failing: ${failed[*]}" >&2
  echo "$(($# - ${#failed[@]})) of $# clients pass"
  [ ${#failed[@]} = 0 ]
}

main "$@"
