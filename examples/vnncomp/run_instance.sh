#!/bin/bash
# Verify one instance: run_instance.sh v1 CATEGORY ONNX VNNLIB RESULT SECONDS
# ONNX is a file, or a list [('f', 'a.onnx'), ('g', 'b.onnx')] of files by the names of a VNN-LIB 2.0 property.
# The first line of RESULT is unsat, sat, timeout, unknown or error; after sat follows the counterexample.
# Exit code 0 for the first four, 1 for error.
set -u

if [ "${1:-}" != v1 ] || [ $# -ne 6 ]; then
    echo "Expected: run_instance.sh v1 CATEGORY ONNX VNNLIB RESULT SECONDS" >&2
    exit 1
fi
onnx="$3" vnnlib="$4" result="$5" limit="$6"
radii="${RADII:-${RADII_HOME:-$HOME/.radii-vnncomp}/bin/radii}"
rm -f "$result"
store="$(mktemp -d)" # of this call alone: an answer of an earlier one is not found
trap 'rm -rf "$store"' EXIT

# Starting takes seconds of the limit: a twentieth of it, between 2 and 6 seconds, is kept for starting and ending.
search="$(awk -v t="$limit" 'BEGIN { k = t / 20; k = k < 2 ? 2 : k > 6 ? 6 : k; s = t - k; print (s > 0.1 ? s : 0.1) }')"
latest="$(awk -v t="$limit" 'BEGIN { s = t - 1; print (s > 0.1 ? s : 0.1) }')"

timeout --signal=KILL "$latest" \
    "$radii" verify "$onnx" "$vnnlib" --seconds "$search" --result "$result" --store "$store" --quiet
case $? in
    0 | 1 | 3) ;; # unsat, sat, not decided: the result is written
    124 | 137) echo timeout > "$result" ;;
    *) echo error > "$result" ;;
esac
[ -s "$result" ] || echo error > "$result"
[ "$(head -n 1 "$result")" != error ]
