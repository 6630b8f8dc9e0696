#!/usr/bin/env bash
# Outlast's remote home beside Restate, on this machine, one after the other, twice, in turns:
#   bench/restate/run.sh [CLIENTS [SECONDS]]
#
# Both: a server that makes every step durable before it is acknowledged, a worker in Rust in a process
# of its own, clients in a closed loop, executions of ten trivial steps, default settings.
# Needs npm (the server comes from there, its version is fixed here), curl and a Rust toolchain.
# Everything lies below target/restate. Prints one line of JSON for each run, and the ratio.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cd "$root"
clients=${1:-256}
seconds=${2:-60}
target=${CARGO_TARGET_DIR:-$root/target}
store=$target/restate
mkdir -p "$store"

[[ -x $store/node_modules/.bin/restate-server ]] ||
  npm install --prefix "$store" --no-audit --no-fund --loglevel=error @restatedev/restate-server@1.7.12
CARGO_TARGET_DIR=$store/target cargo build --quiet --release --locked --manifest-path "$here/Cargo.toml"
cargo build --quiet --release --locked --package outlast-cli
peer=$store/target/release/outlast-bench-restate

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Waits until a command succeeds.
until_it_works() {
  for _ in {1..120}; do
    "$@" >/dev/null 2>&1 && return 0
    sleep 0.5
  done
  echo "run.sh: never worked: $*" >&2
  return 1
}

restate() {
  local folder service ingress admin node pids=()
  folder=$(mktemp -d "$store/data.XXXXXX")
  service=$(free_port) ingress=$(free_port) admin=$(free_port) node=$(free_port)
  RESTATE_INGRESS__BIND_ADDRESS=127.0.0.1:$ingress RESTATE_ADMIN__BIND_ADDRESS=127.0.0.1:$admin \
    RESTATE_BIND_ADDRESS=127.0.0.1:$node RESTATE_LOG_FILTER=warn DO_NOT_TRACK=1 \
    "$store/node_modules/.bin/restate-server" --base-dir "$folder" --node-name bench >"$store/server.log" 2>&1 &
  pids+=($!)
  "$peer" serve "$service" >"$store/service.log" 2>&1 &
  pids+=($!)
  until_it_works curl --fail --silent "http://127.0.0.1:$admin/health"
  until_it_works curl --fail --silent --json "{\"uri\": \"http://127.0.0.1:$service\"}" \
    "http://127.0.0.1:$admin/deployments"
  until_it_works curl --fail --silent --json 1 "http://127.0.0.1:$ingress/Bench/sequential"
  "$peer" load "http://127.0.0.1:$ingress" "$clients" "$seconds"
  kill "${pids[@]}"
  wait "${pids[@]}" 2>/dev/null || true
  rm -rf "$folder"
}

outlast() {
  "$target/release/outlast" bench --home remote sequential --concurrency "$clients" \
    --seconds "$seconds" --json
}

for _ in 1 2; do
  echo "restate $(restate | tee "$store/restate.json")"
  echo "outlast $(outlast | tee "$store/outlast.json")"
done
python3 - "$store" <<'PYTHON'
import json, pathlib, sys

store = pathlib.Path(sys.argv[1])
ours, theirs = (json.loads((store / f"{name}.json").read_text()) for name in ("outlast", "restate"))
print(f"ratio of the last two: {ours['steps_per_second'] / theirs['steps_per_second']:.1f}")
PYTHON
