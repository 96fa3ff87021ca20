#!/bin/bash
# Install radii from this checkout into an environment of its own: install_tool.sh v1
# RADII_HOME names the environment's folder; default ~/.radii-vnncomp.
set -euo pipefail

if [ "${1:-}" != v1 ]; then
    echo "Expected the version v1, got '${1:-}'." >&2
    exit 1
fi
checkout="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
home="${RADII_HOME:-$HOME/.radii-vnncomp}"
python3 -m venv "$home"
"$home/bin/pip" install --upgrade pip
"$home/bin/pip" install "${checkout}[onnx]"
"$home/bin/radii" --version
