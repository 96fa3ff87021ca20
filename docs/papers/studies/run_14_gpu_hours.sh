#!/bin/sh
# The studies that decide Ding et al.'s Tables 1, 2 and 7 on MNIST, Fig. 3b, and Yang et al.'s figures of MNIST:
# about 14 GPU-hours by counted operations.
# Steps are spread over a Ray cluster. What was computed is kept: start it again after a stop.
# Options are those of `radii study run`: --address ray://HEAD:10001 --device cuda --store FOLDER, or --dry-run.
set -e
for study in sensitivity-mnist scaled-digits yang-mnist fashion-edges provable; do
    radii study run "$study" --budget paper --executor ray "$@"
done
