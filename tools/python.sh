#!/usr/bin/env bash
# Builds the package for Python as a wheel and runs its tests in a virtual environment outside of the project.
#
#   tools/python.sh            the wheel and its tests
#   tools/python.sh build      the wheel alone
#   tools/python.sh venv       prints the environment, with the wheel installed, for a shell or a notebook
#
# The environment is kept in the user's cache folder under a name made of what is installed in it, so that a second run installs
# the wheel alone. Torch, transformers, Ray and Dask are installed where they can be had; tests of what is not there say so and
# are skipped. SALIENT_PYTHON_EXTRAS=no leaves them out. PYTHON names another interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"
what="${1:-test}"
crate=crates/salient-python

if ! command -v "$python" >/dev/null || ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
    echo "the package for Python is not built: there is no Python 3.9 or newer (PYTHON names one)"
    exit 0
fi
if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    echo "the package for Python is not built: $python has no module venv"
    exit 0
fi

needed=(maturin numpy pytest mypy)
# As they are installed, one after the other: what cannot be had leaves the others. Behind a `/`, how.
extras=(torch/for_processors transformers "ray[data]" "dask[dataframe]" attn_gym/alone)
if [[ "${SALIENT_PYTHON_EXTRAS:-yes}" == no ]]; then extras=(); fi

version="$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
key="$(printf '%s\n' "$version" "${needed[@]}" "${extras[@]+"${extras[@]}"}" | sha256sum | cut -c1-12)"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/salient-python"
venv="$cache/$key"

install() {
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
}

# Without what it asks for: attn_gym wants torch, which is there.
alone() {
    install --no-deps "$1"
}

# Torch without what only graphics processors run. On Linux its libraries are linked with those of CUDA, and do not load without most
# of them; Triton, the solver and the bindings, 1.3 of 5.3 GB, are loaded when they are called, which nothing does on a processor. Pip
# says that they are missing.
for_processors() {
    install --no-deps "$1"
    local asked
    asked="$("$venv/bin/python" - "$1" <<'END'
import importlib.metadata
import sys

from packaging.requirements import Requirement

for line in importlib.metadata.requires(sys.argv[1]) or []:
    asked = Requirement(line)
    asked.extras -= {"cusolver", "nvtx"}
    is_asked = asked.marker is None or asked.marker.evaluate({"extra": ""})
    if is_asked and asked.name not in ("triton", "cuda-bindings"):
        asked.marker = None
        print(str(asked).replace(" ", ""))
END
    )"
    local each
    mapfile -t each <<<"$asked"
    install "${each[@]}"
}

# A download that hangs is given up. Functions are handed to the shell that has the time limit.
install_extra() {
    local how="install"
    [[ "$1" == */* ]] && how="${1#*/}"
    export -f install alone for_processors
    venv="$venv" timeout 900 bash -euo pipefail -c '"$@"' _ "$how" "${1%/*}"
}

if [[ ! -e "$venv/complete" ]]; then
    rm -rf "$venv"
    mkdir -p "$cache"
    "$python" -m venv "$venv"
    if ! install "${needed[@]}"; then
        rm -rf "$venv"
        echo "the package for Python is not built: no package index that has ${needed[*]} can be reached"
        exit 0
    fi
    for extra in "${extras[@]+"${extras[@]}"}"; do
        install_extra "$extra" || echo "${extra%/*} could not be installed: tests that need it are skipped" >&2
    done
    touch "$venv/complete"
fi
# shellcheck disable=SC1091
source "$venv/bin/activate"

wheels="$PWD/target/wheels"
rm -f "$wheels"/salient-*.whl
(cd "$crate" && maturin build --release --locked --quiet --compression-level 9 --out "$wheels") >&2
wheel=("$wheels"/salient-*.whl)
install --force-reinstall --no-deps "${wheel[0]}"

case "$what" in
venv)
    echo "$venv"
    ;;
build)
    echo "${wheel[0]}: $(stat -c %s "${wheel[0]}") bytes"
    ;;
test)
    echo "${wheel[0]}: $(stat -c %s "${wheel[0]}") bytes"
    # The package's own sources are not on the path: what is tested is what is installed.
    (cd "$crate" && mypy python/salient && python -m mypy.stubtest salient._salient --ignore-positional-only)
    # Tests that start worker processes are ended if these hang.
    (cd "$crate" && timeout --kill-after=30 1500 python -m pytest -q -rs -p no:cacheprovider)
    ;;
*)
    echo "tools/python.sh: $what is none of build, test, venv" >&2
    exit 2
    ;;
esac
