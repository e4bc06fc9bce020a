#!/usr/bin/env bash
# The only room with `unsafe` and its tests under AddressSanitizer: the Rust around machine code, not the machine code itself.
#
# Needs the pinned toolchain alone, whose runtime is used as nightly features are. Takes about five minutes with the build,
# which lies in a folder of its own. Arguments replace the default list of test programs.
set -euo pipefail
cd "$(dirname "$0")/.."

tests=("$@")
if [[ "${#tests[@]}" -eq 0 ]]; then
    tests=(programs bodies)
fi
flags=()
for name in "${tests[@]}"; do
    flags+=(--test "$name")
done

target=x86_64-unknown-linux-gnu
# What Cranelift, egg and the tests keep to the end of the process is no fault.
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=0}"
export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target/sanitized}"
exec cargo test --target "$target" -p salient-jit --lib "${flags[@]}"
