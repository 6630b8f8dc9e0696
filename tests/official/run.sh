#!/usr/bin/env bash
# Unmodified official clients and SDKs against Outlast: tests/official/run.sh [PART...]
#
# Parts: cli develop python python-ric js rust; without any, all of these. Only when named: `api`,
# `runner` (builds the AWS client of our SDK), `java` (needs a JDK and Maven), and `js-ric`, which builds native code for two minutes (needs cmake,
# autoconf, automake and libtool).
#
# Everything official is installed below target/official, once; the versions are fixed here. Needs
# python3 (3.11 or newer) with venv, node (20 or newer) with npm, and their package registries.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cd "$root"
target=${CARGO_TARGET_DIR:-$root/target}
store=$target/official
mkdir -p "$store"

clients=(boto3==1.44.0 awscli==1.46.2 aws-durable-execution-sdk-python==3.0.0
  aws-durable-execution-sdk-python-testing==1.4.0)

need() {
  command -v "$1" >/dev/null || {
    echo "run.sh: $1 is not installed; $2" >&2
    exit 1
  }
}

# A virtual environment with packages, made once for each list of them.
environment() {
  local folder=$store/$1
  shift
  if [[ $(cat "$folder/made-of" 2>/dev/null) != "$*" ]]; then
    rm -rf "$folder"
    python3 -m venv "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
    echo "$*" >"$folder/made-of"
  fi
}

# A copy of a project with its packages.
node_project() {
  local folder=$store/$1
  shift
  mkdir -p "$folder"
  cp "$here"/js/* "$folder"
  if [[ $(cat "$folder/made-of" 2>/dev/null) != "$*$(cat "$here/js/package.json")" ]]; then
    rm -rf "$folder/node_modules"
    # The SDK asks for a newer Node than many machines have, and runs on 20.
    npm install --prefix "$folder" --no-audit --no-fund --loglevel=error "$@"
    echo "$*$(cat "$here/js/package.json")" >"$folder/made-of"
    cp "$here"/js/package.json "$folder"
  fi
}

python_project() {
  mkdir -p "$store/python"
  cp "$here"/python/* "$store/python"
}

# With the interpreter of the clients' environment; SDK is the environment of the handlers.
drive() {
  local sdk=$1
  shift
  VIRTUAL_ENV=$store/$sdk PYTHONDONTWRITEBYTECODE=1 OUTLAST=$target/debug/outlast \
    "$store/clients/bin/python" "$here/$1" "${@:2}"
}

run_api() {
  local out=$store/scripted.out pid endpoint
  cargo build --quiet --locked --package outlast-server --example scripted
  "$target/debug/examples/scripted" >"$out" &
  pid=$!
  for _ in {1..100}; do
    [[ -s $out ]] && break
    sleep 0.1
  done
  endpoint=$(head -n 1 "$out")
  local code=0
  "$store/clients/bin/python" crates/server/tests/clients/smoke.py "$endpoint" || code=$?
  kill "$pid"
  return "$code"
}

run_cli() { python_project && drive sdk cli.py "$store/python"; }
run_develop() { drive none develop.py; }
run_python() { python_project && drive sdk handlers.py python "$store/python" "Python 3"; }
run_python-ric() {
  environment ric awslambdaric==4.2.2 aws-durable-execution-sdk-python==3.0.0
  python_project
  drive ric handlers.py python-ric "$store/python" awslambdaric
}
run_js() { node_project js && drive none handlers.py js "$store/js" Node; }
run_js-ric() { node_project js-ric aws-lambda-ric@3 && drive none handlers.py js-ric "$store/js-ric" aws-lambda-ric; }
run_rust() {
  local folder=$store/rust
  mkdir -p "$folder"
  cp -r "$here"/rust/. "$folder"
  CARGO_TARGET_DIR=$store/rust-target cargo build --quiet --locked --manifest-path "$folder/Cargo.toml"
  cp "$store/rust-target/debug/outlast-official-rust" "$folder/worker"
  drive none handlers.py rust "$folder" ./worker
}
run_java() {
  need mvn "get Maven and a JDK from your package manager"
  mkdir -p "$store/java"
  cp -r "$here"/java/. "$store/java"
  mvn --quiet --batch-mode --file "$store/java" package dependency:copy-dependencies
  drive none java.py "$store/java"
}
run_runner() {
  local program
  program=$(cargo test --workspace --all-features --locked --test lambda --no-run \
    --message-format=json 2>/dev/null | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
  drive none runner.py "$program"
}

need python3 "get it from python.org or your package manager"
need node "get Node.js 20 or newer from nodejs.org or your package manager"
need npm "it comes with Node.js"
environment clients "${clients[@]}"
environment sdk aws-durable-execution-sdk-python==3.0.0
cargo build --quiet --locked --package outlast-cli
[[ $# -gt 0 ]] || set -- cli develop python python-ric js rust
for part in "$@"; do
  begun=$SECONDS
  "run_$part"
  echo "    $part: $((SECONDS - begun)) s"
done
