#!/usr/bin/env bash
# Compares the size of the stripped binary of the profile `dist` with the most that it may have. `--build` builds it first; without
# it, one that is older than the sources is not looked at.
set -euo pipefail
cd "$(dirname "$0")/.."

most=$((15 * 1000 * 1000))
binary="${CARGO_TARGET_DIR:-target}/dist/salient"
if [[ "${1:-}" == "--build" ]]; then
    cargo build --profile dist -p salient-cli --locked
elif [[ ! -e "$binary" || -n "$(find Cargo.lock Cargo.toml crates -newer "$binary" -type f -print -quit)" ]]; then
    echo "there is no current $binary: tools/dist-size.sh --build makes it"
    exit 0
fi
bytes=$(wc -c <"$binary")
echo "$binary has $bytes bytes; it may have $most"
((bytes <= most))
