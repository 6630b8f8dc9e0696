#!/usr/bin/env bash
# Builds a program as the `bootstrap` of an AWS Lambda function: ./build.sh x86_64|arm64|--here
#
#   --package NAME   the package (default: outlast)
#   --example NAME   an example of it (default: anywhere, unless --bin is given)
#   --bin NAME       a program of it
#   --out FOLDER     where `bootstrap` goes (default: build, beside this file)
#   --debug          without optimisation, which takes a third of the time
#
# x86_64 and arm64 are for provided.al2023, whose glibc is 2.34. They need cargo-zigbuild and zig
# (pip install cargo-zigbuild ziglang) and the target of rustup. --here is for this machine, to be run
# by `outlast dev`, and needs cargo alone. The package needs the feature `lambda` of outlast.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

fail() {
  echo "build.sh: $1" >&2
  exit 1
}

package=outlast kind=--example name=anywhere out=$here/build architecture='' profile=release
while [[ $# -gt 0 ]]; do
  case $1 in
    x86_64 | arm64 | --here) architecture=$1 ;;
    --package) package=${2:?} && shift ;;
    --example | --bin) kind=$1 name=${2:?} && shift ;;
    --out) out=${2:?} && shift ;;
    --debug) profile=dev ;;
    *) fail "unknown argument $1; usage: $0 x86_64|arm64|--here [--package P] [--bin B|--example E] [--out FOLDER] [--debug]" ;;
  esac
  shift
done
command -v cargo >/dev/null || fail "cargo is not installed; get Rust from rustup.rs"

command=build target=()
case $architecture in
  x86_64) triple=x86_64-unknown-linux-gnu ;;
  arm64) triple=aarch64-unknown-linux-gnu ;;
  --here) triple='' ;;
  *) fail "say for what: x86_64, arm64 or --here" ;;
esac
if [[ -n $triple ]]; then
  cargo zigbuild --help >/dev/null 2>&1 ||
    fail "cargo-zigbuild is not installed; run: pip install cargo-zigbuild ziglang"
  [[ -d $(rustc --print sysroot)/lib/rustlib/$triple ]] ||
    fail "the target is not installed; run: rustup target add $triple"
  command=zigbuild target=(--target "$triple.2.34")
fi

cd "$root"
features=()
# The example itself has no features; a package of your own turns on `lambda` in its Cargo.toml.
[[ $package == outlast ]] && features=(--no-default-features --features "lambda,log")
[[ $package == outlast-conformance ]] && features=(--features lambda)
CARGO_PROFILE_RELEASE_STRIP=symbols cargo "$command" --locked --profile "$profile" \
  --package "$package" "$kind" "$name" ${features[@]+"${features[@]}"} ${target[@]+"${target[@]}"}

folder=${CARGO_TARGET_DIR:-$root/target}/${triple:+$triple/}
folder+=$([[ $profile == dev ]] && echo debug || echo release)
[[ $kind == --example ]] && folder+=/examples
mkdir -p "$out"
install -m 755 "$folder/$name" "$out/bootstrap"
echo "$out/bootstrap is $name for ${architecture#--}, $(wc -c <"$out/bootstrap") bytes"
