#!/bin/bash
# Prepare one instance: prepare_instance.sh v1 CATEGORY ONNX VNNLIB
# Nothing is computed beforehand; it only looks whether the program runs.
# Another exit code than 0 would skip the whole category, so only a missing installation gives one.
set -u

if [ "${1:-}" != v1 ] || [ $# -lt 4 ]; then
    echo "Expected: prepare_instance.sh v1 CATEGORY ONNX VNNLIB" >&2
    exit 1
fi
radii="${RADII:-${RADII_HOME:-$HOME/.radii-vnncomp}/bin/radii}"
if ! "$radii" verify --help > /dev/null; then
    echo "radii does not run; call install_tool.sh v1 first." >&2
    exit 1
fi
