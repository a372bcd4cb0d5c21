#!/usr/bin/env bash
# Looks for bytes that break what petra_fuzz says of the node, with libFuzzer, on stable Rust.
#
#   run.sh [--seconds N] [TARGET...]   each target for N seconds (300); all of them are text meta binary login connection disk
#   run.sh --merge [TARGET...]         writes corpus/TARGET.txt again: few inputs that reach all that was ever reached here
#   run.sh --show FILE                 an input that libFuzzer has kept, as a line for regressions/TARGET.txt
#
# What is found grows below PETRA_CACHE/fuzz, and the next run goes on from there. When something fails, the input is shown:
# put that line into regressions/TARGET.txt under a remark that says what was wrong, and fix it. tests/replay.rs tries it
# from then on. More in src/lib.rs.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/../../e2e/steps.sh"

HERE=$ROOT/node/fuzz
WORK=$PETRA_CACHE/fuzz
ALL=(text meta binary login connection disk)
MAX_LEN=4096
# An input takes a millisecond. After this it has hung the node, or the machine was suspended.
TIMEOUT_S=${TIMEOUT_S:-60}
RSS_LIMIT_MB=1024

main() {
  local action=fuzz seconds=300
  while [ $# -gt 0 ]; do
    case $1 in
      --seconds) seconds=$2; shift 2 ;;
      --merge) action=merge; shift ;;
      --show) build_corpus_tool; corpus show "$2"; exit ;;
      -*) sed -n '2,10p' "$0"; exit 2 ;;
      *) break ;;
    esac
  done
  [ $# -gt 0 ] || set -- "${ALL[@]}"
  use_memory_for_databases
  build "$@"
  each "$action" "$seconds" "$@"
}

# each ACTION SECONDS TARGET...: as many at a time as there are cores, because a target keeps one busy.
each() {
  local action=$1 seconds=$2 target pid status=0 pids=(); shift 2
  for target; do
    [ "$(jobs -rp | wc -l)" -lt "$(nproc)" ] || wait -n || true
    "$action" "$target" "$seconds" & pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=1; done
  return "$status"
}

# The database of target `connection`.
use_memory_for_databases() { if [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi; }

# The node is compiled a second time, with counters; what it depends on is not. See rustc.sh.
build() {
  build_corpus_tool
  (cd "$ROOT" && RUSTC_WORKSPACE_WRAPPER=$HERE/rustc.sh \
    cargo build --quiet --release --locked --workspace --features petra-fuzz/libfuzzer "${@/#/--bin=fuzz-}")
}
build_corpus_tool() { (cd "$ROOT" && cargo build --quiet --release --locked --workspace --example fuzz-corpus); }
corpus() { "$BINARIES/examples/fuzz-corpus" "$@"; }

# fuzz TARGET SECONDS: one line about it, or what has failed.
fuzz() {
  local target=$1 seconds=$2 log=$WORK/$1.log
  fresh_seeds "$target"
  if ! libfuzzer "$target" -max_total_time="$seconds" "$WORK/$target/found" "$WORK/$target/seeds" > "$log" 2>&1; then
    failed "$target" "$log"
  fi
  awk -v target="$target" '
    / inline 8-bit counters/ { counters = substr($5, 2) }
    $2 == "DONE" { covered = $4; executions = substr($1, 2) }
    /stat::average_exec_per_sec/ { rate = $2 }
    END { printf "%-10s %9d executions, %6d/s, cov %d of %d counters\n", target, executions, rate, covered, counters }
  ' "$log"
}

failed() {
  local target=$1 log=$2 kept
  grep -E -A 3 'panicked|ERROR: libFuzzer' "$log" | head -20 >&2
  kept=$(sed -n 's/.*Test unit written to //p' "$log" | tail -1)
  if [ -n "$kept" ]; then
    echo "This input of $target fails; it is in $kept, and with run.sh --show as a line:" >&2
    corpus show "$kept" >&2
  fi
  echo "Everything that libFuzzer said is in $log" >&2
  exit 1
}

merge() {
  local target=$1
  fresh_seeds "$target"
  rm -rf "$WORK/$target/merged"; mkdir "$WORK/$target/merged"
  libfuzzer "$target" -merge=1 -use_counters=0 "$WORK/$target/merged" "$WORK/$target/seeds" "$WORK/$target/found" \
    > "$WORK/$target.log" 2>&1 || failed "$target" "$WORK/$target.log"
  corpus pack "$target" "$WORK/$target/merged"
  wc -lc "$HERE/corpus/$target.txt"
}

fresh_seeds() {
  mkdir -p "$WORK/$1/found" "$WORK/failures"
  rm -rf "$WORK/$1/seeds"
  corpus unpack "$1" "$WORK/$1/seeds"
}

libfuzzer() {
  local target=$1; shift
  "$BINARIES/fuzz-$target" -max_len=$MAX_LEN -timeout="$TIMEOUT_S" -rss_limit_mb=$RSS_LIMIT_MB -print_final_stats=1 \
    -artifact_prefix="$WORK/failures/$target-" "$@"
}

main "$@"
