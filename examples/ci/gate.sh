#!/usr/bin/env bash
# Runs `radii gate` with the words of the environment; action.yml and the GitLab template call it.
# In: MODEL, DATASET, REQUIRE (one a line), and WEIGHTS, SUITE, POINTS, SEED, FOLDER where they are given.
# Out: FOLDER/gate.json, gate.xml, comment.md, badge.json; FOLDER/baseline.json is read, and renewed by a pass.
set -euo pipefail
folder=${FOLDER:-radii-gate}
mkdir -p "$folder"
words=("$MODEL" "$DATASET")
while IFS= read -r line; do
  line=$(printf '%s' "$line" | tr -d '\r' | sed -e 's/^[[:space:]]*//' -e 's/[[:space:]]*$//')
  if [ -n "$line" ]; then words+=(--require "$line"); fi
done <<<"$REQUIRE"
if [ -n "${WEIGHTS:-}" ]; then words+=(--weights "$WEIGHTS"); fi
if [ -n "${SUITE:-}" ]; then words+=(--suite "$SUITE"); fi
if [ -n "${POINTS:-}" ]; then words+=(--points "$POINTS"); fi
if [ -f "$folder/baseline.json" ]; then words+=(--against "$folder/baseline.json"); fi

code=0
radii gate "${words[@]}" --seed "${SEED:-0}" --json "$folder/gate.json" --junit "$folder/gate.xml" \
  --markdown "$folder/comment.md" --badge "$folder/badge.json" || code=$?
printf '%s\n' "${PULL_REQUEST:-}" > "$folder/pull-request"
if [ -n "${GITHUB_OUTPUT:-}" ]; then
  passed=false
  if [ "$code" -eq 0 ]; then passed=true; fi
  printf 'passed=%s\nfolder=%s\n' "$passed" "$folder" >> "$GITHUB_OUTPUT"
fi
if [ -n "${GITHUB_STEP_SUMMARY:-}" ] && [ -f "$folder/comment.md" ]; then
  cat "$folder/comment.md" >> "$GITHUB_STEP_SUMMARY"
fi
if [ "$code" -eq 0 ]; then cp "$folder/gate.json" "$folder/baseline.json"; fi
exit "$code"
