#!/usr/bin/env bash
# The seeds and the kernel tests on aarch64, under emulation: the portable emitter on a processor that is not x86.
#
# Needs the Rust target aarch64-unknown-linux-gnu, a cross linker (aarch64-linux-gnu-gcc) and qemu-aarch64; on Debian:
#   rustup target add aarch64-unknown-linux-gnu
#   apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
# Takes about ten minutes after the build. Arguments replace the default list of test programs.
set -euo pipefail
cd "$(dirname "$0")/.."

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER="${CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER:-aarch64-linux-gnu-gcc}"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="${CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER:-qemu-aarch64 -L /usr/aarch64-linux-gnu}"

tests=("$@")
if [[ "${#tests[@]}" -eq 0 ]]; then
    tests=(seeds kernels)
fi
flags=()
for name in "${tests[@]}"; do
    flags+=(--test "$name")
done
cargo test -p salient-tests --locked --target aarch64-unknown-linux-gnu "${flags[@]}"
