#!/usr/bin/env bash
# Unmodified official clients and SDKs against Outlast: tests/official/run.sh [PART...]
#
#   cli         the API through the AWS CLI
#   api         the API through boto3: every operation, limit, token rule and code
#   signed      the same on a server with keys; with it the AWS CLI and the JavaScript client
#   develop     `outlast dev` itself: reload, crashes, what is missing
#   python      handlers on the Python SDK with our bootstrap; python-ric: with AWS's awslambdaric
#   js          handlers on the JavaScript SDK with our bootstrap; js-ric: with AWS's aws-lambda-ric,
#               which builds native code for minutes, once
#   rust        handlers on AWS's own Rust SDK (its first build takes minutes)
#   go          handlers on AWS's Go runtime that speak the protocol by hand through the AWS SDK for
#               Go, and that SDK as a client
#   java        the same on AWS's Java runtime interface client with the AWS SDK for Java, and a
#               handler that is not durable
#   crash       the server killed again and again under Python and JavaScript workers
#   runner      our SDK's Lambda home on AWS's local runner (builds the AWS client of our SDK)
#   cloud       the test runners of the JavaScript and Python SDKs for the cloud
#   differential SDK SEED...
#               random programs on an SDK (js or python), compared with its own local runner; a seed
#               may be FIRST-LAST, and every difference is told with its seed
#
# Without a name, all of them but differential, and js-ric, which is run when it has been installed
# once. Not a part: load.py, which measures.
#
# Everything official is installed below target/official, once; the versions are fixed here. Needs
# python3 (3.11 or newer) with venv, node (20 or newer) with npm, for go Go (1.26 or newer), for java a
# JDK and Maven, for js-ric cmake, autoconf, automake and libtool, and their package registries. Debian
# packages that are missing are installed if this runs as root; Go is not among them.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cd "$root"
target=${CARGO_TARGET_DIR:-$root/target}
store=$target/official
mkdir -p "$store"

clients=(boto3==1.44.0 awscli==1.46.2 aws-durable-execution-sdk-python==3.0.0
  aws-durable-execution-sdk-python-testing==1.4.0)

# need PROGRAM PACKAGE...: the program, if need be from Debian's packages.
need() {
  local program=$1
  shift
  command -v "$program" >/dev/null && return
  if [[ $EUID -eq 0 ]] && command -v apt-get >/dev/null; then
    apt-get install --yes --no-install-recommends "$@" >"$store/apt.log" 2>&1 ||
      { apt-get update && apt-get install --yes --no-install-recommends "$@"; } >"$store/apt.log" 2>&1 ||
      true
  fi
  command -v "$program" >/dev/null || {
    echo "run.sh: $program is missing; on Debian: apt-get install $*" >&2
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

# A copy of a project with its packages: that in `js`, unless `source` is another.
node_project() {
  local folder=$store/$1 source=${source:-$here/js}
  shift
  mkdir -p "$folder"
  cp "$source"/* "$folder"
  if [[ $(cat "$folder/made-of" 2>/dev/null) != "$*$(cat "$source/package.json")" ]]; then
    rm -rf "$folder/node_modules"
    # The SDK asks for a newer Node than many machines have, and runs on 20.
    npm install --prefix "$folder" --no-audit --no-fund --loglevel=error "$@"
    echo "$*$(cat "$source/package.json")" >"$folder/made-of"
    cp "$source"/package.json "$folder"
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

run_cli() { drive none cli.py; }
run_api() { drive none api.py; }
run_signed() { node_project js && JS_PROJECT=$store/js drive none api.py signed; }
run_develop() { drive none develop.py; }
run_python() { python_project && drive sdk handlers.py python "$store/python" "Python 3"; }
run_python-ric() {
  environment ric awslambdaric==4.2.2 aws-durable-execution-sdk-python==3.0.0
  python_project
  drive ric handlers.py python-ric "$store/python" awslambdaric
}
run_js() { node_project js && drive none handlers.py js "$store/js" Node; }
run_js-ric() {
  need cmake cmake
  need autoconf autoconf
  need automake automake
  need libtoolize libtool
  node_project js-ric aws-lambda-ric@3
  drive none handlers.py js-ric "$store/js-ric" aws-lambda-ric
}
run_rust() {
  local folder=$store/rust
  mkdir -p "$folder"
  cp -r "$here"/rust/. "$folder"
  CARGO_TARGET_DIR=$store/rust-target cargo build --quiet --locked --manifest-path "$folder/Cargo.toml"
  cp "$store/rust-target/debug/outlast-official-rust" "$folder/worker"
  drive none handlers.py rust "$folder" ./worker
}
needs_go() {
  local version
  version=$(cd / && GOTOOLCHAIN=local go env GOVERSION 2>/dev/null) || version=go0
  [[ $(printf '%s\n' go1.26 "$version" | sort --version-sort | head -n 1) == go1.26 ]] && return
  echo "run.sh: Go 1.26 or newer is missing; see https://go.dev/dl" >&2
  return 1
}
run_go() {
  needs_go
  local folder=$store/go
  mkdir -p "$folder/build"
  cp -r "$here"/go/. "$folder"
  (cd "$folder" && go build -buildvcs=false -o build/bootstrap ./worker &&
    go build -buildvcs=false -o client ./driver)
  drive none handlers.py go "$folder" "its own program"
  drive none client.py "$folder" "$folder/client"
}
needs_java() { need javac default-jdk-headless && need mvn maven; }
run_java() {
  needs_java
  mkdir -p "$store/java"
  cp -r "$here"/java/. "$store/java"
  mvn --quiet --batch-mode -Dstyle.color=never --file "$store/java" package dependency:copy-dependencies
  # Not those that need many processes: a Java machine takes seconds to warm up.
  drive none handlers.py java "$store/java" runtime-interface-client \
    everything failure waiting_for_the_end
  drive none java.py "$store/java" \
    java -cp "$store/java/target/classes:$store/java/target/dependency/*" official.Client
}
run_crash() {
  python_project
  node_project js
  mkdir -p "$store/crash"
  cp "$here"/crash/* "$store/crash"
  drive sdk crash.py "$store/crash"
}
run_runner() {
  local program
  program=$(cargo test --workspace --all-features --locked --test lambda --no-run \
    --message-format=json 2>/dev/null | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
  [[ -n $program ]] || { echo "run.sh: the test program does not build" >&2; return 1; }
  drive none runner.py "$program"
}

programs() {
  source=$here/differential/js node_project programs-js
  mkdir -p "$store/programs-python"
  cp "$here"/differential/python/* "$store/programs-python"
}
run_cloud() {
  programs
  drive sdk differential/cloud.py "$store/programs-js" "$store/programs-python"
}
run_differential() {
  programs
  drive sdk differential/compare.py "$1" "$store/programs-$1" "${@:2}"
}

need python3 python3 python3-venv
need node nodejs npm
need npm npm
environment clients "${clients[@]}"
environment sdk aws-durable-execution-sdk-python==3.0.0
cargo build --quiet --locked --package outlast-cli
if [[ ${1:-} == differential ]]; then
  [[ $# -ge 3 ]] || { echo "run.sh: differential needs js or python, and seeds" >&2; exit 2; }
  run_differential "${@:2}"
  exit
fi
if [[ $# -eq 0 ]]; then
  set -- cli api signed develop python python-ric js rust crash runner cloud
  if (needs_go); then set -- "$@" go; else echo "    go: left out"; fi
  if (needs_java); then set -- "$@" java; else echo "    java: left out"; fi
  [[ ! -d $store/js-ric/node_modules ]] || set -- "$@" js-ric
fi
for part in "$@"; do
  begun=$SECONDS
  "run_$part"
  echo "    $part: $((SECONDS - begun)) s"
done
