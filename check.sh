#!/usr/bin/env bash
# The gate: everything that must hold before a change is merged. CI runs exactly this file.
#
# Needs bash, a Rust toolchain with rustfmt and clippy, and access to crates.io for the first build;
# for the official clients python3 with venv, node with npm, and PyPI and npm for the first run
# (where apt-get may be used without a password, those two are installed if they are missing).
# `cargo deny` runs where it is installed; OUTLAST_INSTALL_TOOLS=1 installs it
# (a quarter of an hour or more on two cores, once).
# Without it, `tidy` still checks where every dependency comes from.
set -euo pipefail
cd "$(dirname "$0")"

# Everything is built once: what the compiler keeps for the next build would be most of what lands on
# the disk, a dozen GiB instead of two.
export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}
# A gate never rewrites what it checks.
export INSTA_UPDATE=no
export RUST_BACKTRACE=0

missing() {
  echo "check.sh: $1" >&2
  exit 1
}
command -v cargo >/dev/null ||
  missing "cargo is not installed; get Rust from rustup.rs, then run this again"
cargo fmt --version >/dev/null 2>&1 ||
  missing "rustfmt is not installed; run: rustup component add rustfmt"
cargo clippy --version >/dev/null 2>&1 ||
  missing "clippy is not installed; run: rustup component add clippy"

started=$SECONDS
part() {
  local name=$1 begun=$SECONDS
  shift
  echo "==> $name"
  if ! "$@"; then
    echo "check.sh: '$name' failed: $*" >&2
    exit 1
  fi
  echo "    $name: $((SECONDS - begun)) s"
}

# The library builds few crates: next to none without features, and no TLS or AWS ones by default.
lean() {
  crates_at_most 45 --no-default-features --edges normal &&
    crates_at_most 75 --edges normal,build
}

crates_at_most() {
  local max=$1 crates count heavy
  shift
  crates=$(cargo tree --package outlast "$@" --prefix none --locked | cut -d' ' -f1 | sort -u) ||
    return 1
  count=$(wc -l <<<"$crates")
  heavy=$(grep -E '^(aws-|lambda_|rustls|native-tls|openssl|ring$|hyper|reqwest)' <<<"$crates" || true)
  echo "    $count crates ($*)"
  [[ $count -le $max ]] || { echo "    more than $max" >&2; return 1; }
  [[ -z $heavy ]] || { echo "    too heavy: $heavy" >&2; return 1; }
}

deny() {
  if ! cargo deny --version >/dev/null 2>&1; then
    if [[ ${OUTLAST_INSTALL_TOOLS:-0} != 1 ]]; then
      echo "    not installed, left out (OUTLAST_INSTALL_TOOLS=1 installs it)"
      return 0
    fi
    cargo install --locked cargo-deny || return 1
  fi
  cargo deny --all-features check licenses bans sources || return 1
  # Advisories need their database; without a network the rest still counts.
  if cargo deny --all-features fetch db >/dev/null 2>&1; then
    cargo deny --all-features check --disable-fetch advisories
  else
    echo "    the advisory database cannot be reached, left out"
  fi
}

has_python() { python3 -c 'import ensurepip, venv' 2>/dev/null; }
has_npm() { command -v npm >/dev/null; }

# Installs packages of the system, if nobody has to be asked for that.
provide() {
  local root=()
  [[ $EUID == 0 ]] || root=(sudo -n)
  command -v apt-get >/dev/null && "${root[@]}" true 2>/dev/null || return 0
  echo "    installing $*"
  "${root[@]}" apt-get update -qq >/dev/null 2>&1 || true
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y "$@" >/dev/null 2>&1 || true
}

# Unmodified AWS clients and SDKs; they are installed below the target folder, once.
official() {
  has_python || provide python3 python3-venv
  has_npm || provide nodejs npm
  if ! has_python || ! has_npm; then
    echo "    LEFT OUT: python3 with venv, or npm, is missing and could not be installed" >&2
    return 0
  fi
  tests/official/run.sh
}

# Every official requirement, every one of our own, and spans, judged by the official runner. A newer set
# than the runner's own is taken where it lies beside the repository.
conformance() {
  has_python || provide python3 python3-venv
  if ! has_python; then
    echo "    LEFT OUT: python3 with venv is missing and could not be installed" >&2
    return 0
  fi
  local newer=../shared/conformance/requirements options=()
  [[ ! -d $newer ]] || options=(--requirements "$newer")
  conformance/run "${options[@]}" && conformance/run --own && conformance/run --otel
}

# The README's commands, so that they cannot rot. The first survives a kill in its middle.
example() {
  local data out
  data=$(mktemp -d)
  cargo build --quiet --locked --package outlast --example survive || return 1
  OUTLAST_DATA=$data timeout --signal=KILL 3 "${CARGO_TARGET_DIR:-target}/debug/examples/survive" >/dev/null
  out=$(OUTLAST_DATA=$data timeout 120 "${CARGO_TARGET_DIR:-target}/debug/examples/survive") || return 1
  rm -rf "$data"
  [[ $out == *"goes on"*"done: shipped"* && $out != *"charging"* ]] || {
    echo "    the order did not go on after it was killed: $out" >&2
    return 1
  }
  cargo run --quiet --locked --package outlast --features testing --example order >/dev/null
}

part "format" cargo fmt --all --check
part "lint" cargo clippy --workspace --all-targets --all-features --locked -- -D warnings
part "test" cargo test --workspace --all-features --locked --lib --bins --tests --examples --quiet
part "doctest" cargo test --workspace --all-features --locked --doc --quiet
RUSTDOCFLAGS="-D warnings" part "docs" cargo doc --workspace --all-features --locked --no-deps --quiet
part "example" example
part "lean" lean
part "deny" deny
part "official" official
part "conformance" conformance
echo "==> all checks passed in $((SECONDS - started)) s"
