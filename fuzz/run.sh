#!/usr/bin/env bash
# Coverage-guided noise: fuzz/run.sh [TARGET [SECONDS]], with every target for a minute unless told.
#
# Works on the stable toolchain: libFuzzer comes as a crate, and coverage is a flag of the compiler.
# What a run learns is kept below target/fuzz; an input that breaks something is printed and kept.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${2:-60}
target=${CARGO_TARGET_DIR:-$PWD/target}/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')
passes="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
counters="-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
if [[ $# -gt 0 ]]; then targets=("$1"); else targets=(router arn sigv4 checkpoint); fi
RUSTFLAGS="--cfg fuzzing -Ccodegen-units=1 $passes $counters" CARGO_TARGET_DIR=$target \
  cargo build --quiet --release --locked --target "$host" --manifest-path fuzz/Cargo.toml
for name in "${targets[@]}"; do
  mkdir -p "$target/corpus/$name" "$target/found/$name"
  "$target/$host/release/$name" -max_total_time="$seconds" -artifact_prefix="$target/found/$name/" \
    -print_final_stats=1 "$target/corpus/$name" fuzz/seeds/"$name" 2>&1 | tail -n 12
  echo "==> $name: nothing broke"
done
