#!/bin/sh
# All other studies that train, the cheapest first: about 6,400 GPU-hours by counted operations.
# Steps are spread over a Ray cluster. What was computed is kept: start it again after a stop.
# Options are those of `radii study run`: --address ray://HEAD:10001 --device cuda --store FOLDER, or --dry-run.
set -e
for study in overfitting gamma capacity-mnist sample-complexity trade-off sensitivity-cifar capacity-cifar compute-scaling extra-data subspaces yang-cifar dropout sample-size data-scaling; do
    radii study run "$study" --budget paper --executor ray "$@"
done
