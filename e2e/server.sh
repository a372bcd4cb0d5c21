#!/usr/bin/env bash
# One memcached-compatible server on a free port of the loopback interface, for tests that judge any of them.
#
#   server.sh start DIR BINARY [ARGUMENT...]   DIR/port and DIR/pid say where it is, DIR/log what it wrote
#   server.sh restart DIR                      ends it and starts it again: same port, same arguments, same data
#   server.sh stop DIR
#
# start and restart return when it accepts connections. A server that keeps its data on a disk has it in DIR/db.
set -euo pipefail

START_TIMEOUT_S=20
# A node that ends tells its clients first, and then waits for them.
STOP_TIMEOUT_S=30

main() {
  case ${1:-} in
    start) shift; start "$@" ;;
    restart) stop "$2"; launch "$2" || die "$2" "does not start again" ;;
    stop) stop "$2" ;;
    *) sed -n '2,8p' "$0"; exit 2 ;;
  esac
}

# start DIR BINARY [ARGUMENT...]: somebody else may take the port that was free, so it is tried with another one.
start() {
  local dir=$1; shift
  mkdir -p "$dir"
  for _ in 1 2 3; do
    : > "$dir/log"
    free_port > "$dir/port"
    command_line "$dir" "$@" -l 127.0.0.1 -p "$(< "$dir/port")" -U 0 > "$dir/command"
    additional_arguments "$dir" "$1" >> "$dir/command"
    if launch "$dir"; then return; fi
  done
  die "$dir" "does not start"
}

# The server writes its own pid: whoever removes DIR while one starts finds either the pid or no server.
command_line() {
  printf 'set -e; echo $$ > %q; ' "$1/pid"; shift
  printf '%q ' exec "$@"
}

# What differs between servers that otherwise take the same flags.
additional_arguments() {
  if "$2" --help 2> /dev/null | grep -q -e --db-path; then
    printf '%q ' --db-path "$1/db" --metrics-enabled false
  elif [ "$(id -u)" = 0 ]; then
    echo "-u root"
  fi
}

# launch DIR: in a session of its own, so that an interrupt of the tests does not reach it before them.
launch() {
  local pid
  setsid bash "$1/command" < /dev/null >> "$1/log" 2>&1 & pid=$!
  local deadline=$((SECONDS + START_TIMEOUT_S))
  while kill -0 "$pid" 2> /dev/null && [ "$SECONDS" -lt "$deadline" ]; do
    if accepts "$(< "$1/port")"; then return 0; fi
    sleep 0.05
  done
  stop "$1"
  return 1
}

stop() {
  local pid deadline=$((SECONDS + STOP_TIMEOUT_S))
  [ -f "$1/pid" ] || return 0
  pid=$(< "$1/pid")
  kill -TERM "$pid" 2> /dev/null || true
  while kill -0 "$pid" 2> /dev/null; do
    if [ "$SECONDS" -ge "$deadline" ]; then
      echo "the server of $1 does not end after $STOP_TIMEOUT_S s; killing it" >&2
      kill -KILL "$pid" 2> /dev/null || true
    fi
    sleep 0.05
  done
  rm -f "$1/pid"
}

free_port() {
  local port
  while port=$((20000 + RANDOM % 10000)); do
    if ! accepts "$port"; then echo "$port"; return; fi
  done
}

accepts() { (exec 3<> "/dev/tcp/127.0.0.1/$1") 2> /dev/null; }

die() {
  echo "the server $2: $(sed 's/.*; exec //' "$1/command")" >&2
  tail -n 20 "$1/log" >&2 || true
  exit 1
}

main "$@"
