#!/bin/sh
# The wheel on every supported Python that this machine has: built once, installed without constraints into a fresh
# environment, and used: version, help, an audit, a training and its evaluation. Newest dependencies that pip finds.
# LOWEST=1 installs the lowest declared versions of the direct dependencies instead.
set -eu
cd "$(dirname "$0")/.."
mkdir -p build/matrix
rm -f build/matrix/*.whl
python3 -m pip wheel --quiet --no-deps --wheel-dir build/matrix .
wheel=$(echo build/matrix/radii-*.whl)
lowest=""
if [ "${LOWEST:-0}" = 1 ]; then
  python3 tests/lowest_versions.py > build/matrix/lowest.txt
  lowest="--constraint build/matrix/lowest.txt"
fi
for version in ${PYTHONS:-3.11 3.12 3.13 3.14}; do
  python=$(command -v "python$version" || true)
  if [ -z "$python" ] || ! "$python" -c '' 2>/dev/null; then
    echo "python$version: not on this machine, skipped"
    continue
  fi
  folder=build/matrix/venv-$version
  rm -rf "$folder"
  "$python" -m venv "$folder"
  # shellcheck disable=SC2086
  "$folder/bin/pip" install --quiet $lowest "torch==${TORCH:-2.13.0}" "$wheel"
  export RADII_RUNS="$folder/runs"
  "$folder/bin/radii" --help > /dev/null
  "$folder/bin/radii" audit digits --quick --json - > /dev/null
  "$folder/bin/radii" train digits --model mlp epochs=1 > /dev/null
  "$folder/bin/radii" evaluate train digits --threat linf:0.05 --suite fast --points 50 > /dev/null
  echo "python$version: works with $("$folder/bin/pip" list --format=freeze 2>/dev/null | grep -E '^(torch|numpy|scipy|pydantic|typer)==' | tr '\n' ' ')"
done
