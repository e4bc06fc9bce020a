#!/usr/bin/env bash
# Compares sizes of the stripped binary with the most that they may be: of the profile `dist`, which `--build` builds first, and of
# the profile `release`, which a build for other reasons leaves behind and which grows with it. What is older than the sources is
# not looked at.
set -euo pipefail
cd "$(dirname "$0")/.."

target="${CARGO_TARGET_DIR:-target}"
if [[ "${1:-}" == "--build" ]]; then
    cargo build --profile dist -p salient-cli --locked
fi

stripped="$(mktemp)"
trap 'rm -f "$stripped"' EXIT
failed=0
check() {
    local profile="$1" most="$2" binary="$target/$1/salient" bytes
    if [[ ! -e "$binary" || -n "$(find Cargo.lock Cargo.toml crates -newer "$binary" -type f -print -quit)" ]]; then
        echo "$profile: there is no current $binary"
        return
    fi
    if ! command -v strip >/dev/null; then
        echo "$profile: there is no strip to take the symbols out with"
        return
    fi
    strip -o "$stripped" "$binary"
    bytes="$(wc -c <"$stripped")"
    echo "$profile: $binary has $bytes bytes without symbols; it may have $most"
    ((bytes <= most)) || failed=1
}

check dist $((15 * 1000 * 1000))
check release $((28 * 1000 * 1000))
exit "$failed"
