#!/usr/bin/env bash
# memcached's own tests, run against any server that takes memcached's flags.
#
#   run.sh BINARY            every test that applies.txt names
#   run.sh BINARY TEST...    these (cas, or cas.t), whatever the lists say
#
# SUITE_JOBS (6) is how many tests run at a time: most of them wait most of their time.
# The tests are memcached's (BSD licence); they are fetched below PETRA_CACHE and are no part of this tree.
set -euo pipefail
SUITE=$(cd "$(dirname "$0")" && pwd)
CACHE=${PETRA_CACHE:-$HOME/.cache/petracache}/memcached-suite

# The version that Debian 12 has as a package: its tests fit its server, the judge.
VERSION=1.6.18
SHA256=35872bd25f8d29d7cc2072d23e74344530891bfd0aa4f4f64184a8ae7291164b
MIRROR=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
SOURCE=$CACHE/memcached-$VERSION
# The longest test takes a minute of mostly waiting. One that hangs is ended, and fails.
TEST_TIMEOUT_S=240

main() {
  if [ $# = 0 ] || [ ! -x "$1" ]; then sed -n '2,8p' "$0"; exit 2; fi
  SUITE_BINARY=$(realpath "$1"); shift
  "$SUITE/../lab/install.sh" "$SUITE/packages.txt"
  fetch
  every_test_is_listed_once
  prepare
  local tests; mapfile -t tests < <(chosen "$@")
  echo "memcached $VERSION's tests against $SUITE_BINARY"
  printf '%s\n' "${tests[@]}" | xargs -P "${SUITE_JOBS:-6}" -I{} "$0" --one {} || true
  report "${tests[@]}"
}

fetch() {
  [ ! -d "$SOURCE" ] || return 0
  mkdir -p "$CACHE"
  local new; new=$(mktemp -d "$CACHE/new.XXXXXX")
  echo "fetching the source of memcached $VERSION from $MIRROR"
  curl -fsSL --retry 3 -o "$new/source.tar.xz" "$MIRROR/pool/main/m/memcached/memcached_$VERSION.orig.tar.xz"
  sha256sum --quiet -c <<< "$SHA256  $new/source.tar.xz"
  tar -xf "$new/source.tar.xz" -C "$new"
  # Another run may have been faster; an interrupted one leaves nothing half done.
  mv -T "$new/memcached-$VERSION" "$SOURCE" 2> /dev/null || [ -d "$SOURCE" ]
  rm -rf "$new"
}

# listed FILE...: the names in list files, without what is said about them.
listed() { (cd "$SUITE" && awk '!/^#/ && NF {print $1}' "$@"); }

# A new version's tests are sorted by somebody who read them.
every_test_is_listed_once() {
  local wrong; wrong=$(diff <(listed applies.txt does-not-apply.txt | sort) <(cd "$SOURCE/t" && printf '%s\n' *.t | sort)) && return
  echo "applies.txt and does-not-apply.txt together are not memcached $VERSION's tests (< listed, > existing):" >&2
  grep '^[<>]' <<< "$wrong" >&2
  exit 1
}

chosen() {
  if [ $# = 0 ]; then listed applies.txt; return; fi
  printf '%s.t\n' "${@%.t}"
}

# What the tests take for the directory in which memcached was built, and everything they leave behind.
prepare() {
  SUITE_TMP=$(mktemp -d)
  # The second one is where binary-sasl.t has its users.
  trap 'rm -rf "$SUITE_TMP" /tmp/test-memcached.sasldb' EXIT
  ln -s "$SOURCE/t" "$SUITE/memcached-debug" "$SUITE/timedrun" "$SUITE_TMP/"
  SUITE_ON_DISK=no
  if "$SUITE_BINARY" --help 2> /dev/null | grep -q -e --db-path; then SUITE_ON_DISK=yes; fi
  export SUITE_BINARY SUITE_TMP SUITE_ON_DISK
  export MEMCACHED_SASL_PWDB=$SUITE_TMP/sasl-pwdb RUN_SASL_TESTS=1
  export PERL5OPT="-I$SOURCE/t/lib -I$SUITE -MRealTime" PATH=$SUITE:$PATH
  : > "$MEMCACHED_SASL_PWDB"
}

# one TEST: runs it in a process group of its own, which ends with it, and says how it went.
one() {
  local log=$SUITE_TMP/$1.log status=0 start=$SECONDS group
  if grep -q "^$1 .*tls" "$SUITE/applies.txt"; then export SSL_TEST=1; fi
  if grep -q "^$1 .*strict-delete" "$SUITE/applies.txt"; then export PETRACACHE_STRICT_DELETE=true; fi
  cd "$SUITE_TMP"
  set -m
  timeout "$TEST_TIMEOUT_S" perl "t/$1" > "$log" 2>&1 & group=$!
  set +m
  # shellcheck disable=SC2064 # the group of now
  trap "kill -KILL -- -$group 2> /dev/null || true" EXIT
  wait "$group" || status=$?
  local verdict; verdict=$(verdict "$log" "$status")
  echo "$verdict" > "$SUITE_TMP/$1.verdict"
  printf '%-5s %-26s %4d s  %s\n' "${verdict%% *}" "$1" $((SECONDS - start)) "${verdict#* }"
  [ "${verdict%% *}" = pass ] || grep -B 1 -A 12 -e '^not ok' -e 'Failed test' -e '^Illegal\|^error:' -e 'memcached not running' "$log" | head -n 60 | sed 's/^/      | /'
}

# verdict LOG STATUS: pass or FAIL, and why: the plan of the test is its closing line too.
verdict() {
  local planned passed failed skipped
  planned=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' "$1" | tail -n 1)
  passed=$(grep -c '^ok' "$1" || true)
  failed=$(grep -c '^not ok' "$1" || true)
  skipped=$(sed -n 's/^1\.\.0 # SKIP //p' "$1")
  case $2:${planned:-none} in
    124:*) echo "FAIL hangs: ended after $TEST_TIMEOUT_S s, $passed checks in" ;;
    *:0) echo "FAIL skips itself: $skipped" ;;
    0:"$passed") echo "pass $passed of $planned checks" ;;
    *) echo "FAIL $passed of ${planned:-an unknown number of} checks, $failed failed, exit status $2" ;;
  esac
}

# The tests read in the server's help what it has, and judge less when they find less: that must not look like a pass.
not_in_help() {
  local help option; help=$("$SUITE_BINARY" -h 2>&1 || true)
  for option in enable-sasl enable-ssl unix-socket; do grep -q -e "$option" <<< "$help" || echo "--$option"; done
}

report() {
  local test missing failed=()
  mapfile -t missing < <(not_in_help)
  for test in "$@"; do
    [[ $(cat "$SUITE_TMP/$test.verdict" 2> /dev/null) = pass* ]] || failed+=("${test%.t}")
  done
  [ ${#missing[@]} = 0 ] || echo "missing in the server's help, so that tests skip what is about them: ${missing[*]}" >&2
  [ ${#failed[@]} = 0 ] || echo "failing: ${failed[*]}" >&2
  echo "$(($# - ${#failed[@]})) of $# tests pass"
  [ ${#failed[@]}${#missing[@]} = 00 ]
}

if [ "${1:-}" = --one ]; then one "$2"; else main "$@"; fi
