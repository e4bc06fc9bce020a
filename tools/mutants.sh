#!/usr/bin/env bash
# Broken versions of the compiler, one after the other: each must make a test fail. The list is tools/mutants.txt.
#
#   tools/mutants.sh FOLDER [FROM [TO]]
#
# FOLDER is a worktree that nobody else uses (`git worktree add FOLDER`); what is changed in it is put back. FROM and TO are
# numbers of versions, from 1 on. A version is built in the dev profile and shown to the quick detectors first, then to
# others, until one fails; the last lines say how many were caught by which, and name the survivors.
set -uo pipefail

list="$(cd "$(dirname "$0")" && pwd)/mutants.txt"
folder="${1:?a worktree to break things in}"
from="${2:-1}"
to="${3:-9999}"
cd "$folder" || exit 2
export INSTA_UPDATE=no CARGO_TERM_COLOR=never
# The document of the rules follows the tables: that it differs is no reason to call a version caught.
export SALIENT_WRITE_DOCS=1
# Nobody reads a backtrace here, and linking is most of the time.
export CARGO_PROFILE_DEV_DEBUG=false
log="$(mktemp)"
trap 'rm -f "$log"' EXIT

# A name, then the arguments of `cargo test`: the tests of the changed crate, the random programs, what catches most of the
# rest, all. The whole workspace is named so that features, and with them what is built, stay the same.
detectors() {
    case "$1" in
    crates/salient-opt/*) echo "rules:-p salient-opt" ;;
    crates/salient-vector/*) echo "vector:-p salient-vector -p salient-jit" ;;
    crates/salient-jit/*) echo "bodies:-p salient-jit" ;;
    esac
    echo "random:--workspace --test props"
    echo "programs:--workspace --test rulings --test contract --test definedness --test seeds --test cases --test lengths"
    case "$1" in
    crates/salient-tile/*) echo "tile:-p salient-tile -p salient-jit" ;;
    esac
    echo "all:--workspace"
}

# Puts `with` in the place of the `nth` occurrence of `find` (0: of the only one).
replace() {
    FIND="$2" WITH="$3" NTH="$4" perl -0777 -i -pe '
        my ($find, $with, $nth) = @ENV{qw(FIND WITH NTH)};
        my @at;
        my $from = 0;
        while (($from = index($_, $find, $from)) >= 0) { push @at, $from; $from += length $find }
        exit 1 if $nth ? @at < $nth : @at != 1;
        substr($_, $at[$nth ? $nth - 1 : 0], length $find) = $with;
    ' "$1"
}

declare -A caught
number=0
survivors=()
missing=()
alike=()

try() {
    number=$((number + 1))
    if ((number < from || number > to)); then return; fi
    if [[ -n "$same" ]]; then
        alike+=("$number $file: $what: $same")
        return
    fi
    cp "$file" "$log.before"
    if ! replace "$file" "$find" "$with" "${nth:-0}" || cmp -s "$file" "$log.before"; then
        cp "$log.before" "$file"
        missing+=("$number $file: $find")
        echo "$number: the text does not stand in $file as it should: $find"
        return
    fi
    local by="" started=$SECONDS
    while IFS=: read -r name arguments; do
        # A version that does not compile is none. Tests that hang are caught too.
        # shellcheck disable=SC2086
        if ! cargo test -q --no-run $arguments >"$log" 2>&1 </dev/null; then
            by="compiler"
            break
        fi
        # shellcheck disable=SC2086
        if ! timeout 900 cargo test -q $arguments >"$log" 2>&1 </dev/null; then
            by="$name"
            break
        fi
    done < <(detectors "$file")
    cp "$log.before" "$file"
    git checkout --quiet -- docs/rules.md
    if [[ -z "$by" ]]; then
        survivors+=("$number $file: $what")
        echo "$number: SURVIVES $file: $what"
    else
        caught[$by]=$((${caught[$by]:-0} + 1))
        echo "$number: $by ($((SECONDS - started)) s) $file: $what $(grep -m1 '^test .*FAILED\|^---- ' "$log" | cut -c1-100)"
    fi
}

file="" what="" find="" with="" nth="" same=""
while IFS= read -r line || [[ -n "$line" ]]; do
    case "$line" in
    "file "*) file="${line#file }" nth="" same="" ;;
    "what "*) what="${line#what }" ;;
    "find "*) find="${line#find }" ;;
    "with "*) with="${line#with }" ;;
    "nth "*) nth="${line#nth }" ;;
    "same "*) same="${line#same }" ;;
    "") if [[ -n "$file" ]]; then try; file=""; fi ;;
    esac
done < <(cat "$list"; echo; echo)

echo
for by in "${!caught[@]}"; do echo "caught by $by: ${caught[$by]}"; done
echo "survivors: ${#survivors[@]}"
((${#survivors[@]})) && printf '  %s\n' "${survivors[@]}"
echo "no program tells them apart: ${#alike[@]}"
((${#alike[@]})) && printf '  %s\n' "${alike[@]}"
echo "texts that are gone: ${#missing[@]}"
((${#missing[@]})) && printf '  %s\n' "${missing[@]}"
((${#survivors[@]} == 0 && ${#missing[@]} == 0))
