#!/bin/sh
# What cargo calls instead of rustc for the crates of this workspace (RUSTC_WORKSPACE_WRAPPER): the node is told to count
# what is executed, for libFuzzer, and to check itself; everything else, RocksDB above all, is compiled as always, so that
# it is not compiled twice. These are the flags of cargo-fuzz, as far as stable Rust has them.
case " $* " in
  *" --crate-name petra_node --edition="*" --crate-type lib "*)
    exec "$@" --cfg fuzzing -Cdebug-assertions=on -Coverflow-checks=on -Ccodegen-units=1 -Cpasses=sancov-module \
      -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
      -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares
    ;;
esac
exec "$@"
