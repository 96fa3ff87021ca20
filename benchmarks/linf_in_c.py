"""numba or C for the Linf kernel: the same scan over the same bit planes, written twice.

The C text is compiled here by ``cc`` (skipped with a sentence where there is
none) and called through ctypes; results must be equal. Preparing the planes and
the hubs is common to both and not timed. Queries and references are training images of CIFAR-10.
"""

from __future__ import annotations

import ctypes
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import harness
from radii.data.sources import load
from radii.geometry.search._kernels import OTHER
from radii.geometry.search._linf import CHUNK, LinfSearch, prepare, seeded
from radii.geometry.search._linf_kernels import BIT, scan_linf
from radii.geometry.search.k_best import Best
from radii.geometry.search.points import Points, labelled
from radii.randomness import numpy_stream

SOURCE = r"""
#include <stdint.h>
#include <math.h>
#include <string.h>
enum { WORDS = 64, TILE = 4096, BLOCK = 128 };

static int below_or_equal(const double *bounds, int levels, double value) {
  int low = 0, high = levels;
  while (low < high) {
    int middle = (low + high) >> 1;
    if (bounds[middle] <= value) low = middle + 1; else high = middle;
  }
  return low;
}

static int inside(const uint8_t *row, const uint8_t *lo, const uint8_t *hi,
                  const int64_t *starts, int64_t blocks, int64_t d) {
  for (int64_t i = 0; i < blocks; i++) {
    int64_t start = starts[i], stop = start + BLOCK < d ? start + BLOCK : d;
    uint8_t out = 0;
    for (int64_t j = start; j < stop; j++) out |= (uint8_t)((row[j] < lo[j]) | (row[j] > hi[j]));
    if (out) return 0;
  }
  return 1;
}

static double largest(const uint8_t *a, const uint8_t *b, int64_t d) {
  uint8_t most = 0;
  for (int64_t j = 0; j < d; j++) {
    uint8_t gap = a[j] > b[j] ? a[j] - b[j] : b[j] - a[j];
    most = gap > most ? gap : most;
  }
  return most;
}

void scan(const uint8_t *rows, const int64_t *labels, const int64_t *numbers, int64_t queries, int64_t d,
          const uint8_t *references, const int64_t *reference_labels, int64_t count,
          const int64_t *dims, const double *bounds, const double *kept, int64_t m, int64_t levels,
          const uint64_t *planes, int64_t tiles, const int64_t *starts, int64_t blocks,
          int32_t *picks, uint64_t *flips, int64_t *chosen, double *reached, double *score, int64_t *index) {
  uint8_t lo[1 << 16], hi[1 << 16];
  uint64_t mask[WORDS], alive[WORDS];
  int64_t width = 2 * m + 4;
  for (int64_t q = 0; q < queries; q++) reached[q] = NAN;
  for (int64_t t = 0; t < tiles; t++) {
    int64_t first = t * TILE;
    const uint64_t *tile = planes + t * m * (levels + 2) * WORDS;
    for (int64_t q = 0; q < queries; q++) {
      const uint8_t *row = rows + q * d;
      int32_t *pick = picks + q * width;
      uint64_t *flip = flips + q * width;
      if (q == 0 || labels[q] != labels[q - 1])
        for (int w = 0; w < WORDS; w++) {
          uint64_t word = 0;
          for (int j = 0; j < 64; j++) {
            int64_t r = first + 64 * w + j;
            if (r < count && reference_labels[r] != labels[q]) word |= (uint64_t)1 << j;
          }
          mask[w] = word;
        }
      double reach = score[q] - (first > index[q] ? 1.0 : 0.0);
      if (reach != reached[q]) {
        int64_t n = 0;
        for (int64_t i = 0; i < m; i++) {
          double x = row[dims[i]];
          int below = below_or_equal(bounds + i * levels, levels, x - reach);
          if (below > 0 && kept[i * (levels + 2) + below] < 0.95) {
            pick[n] = i * (levels + 2) + below; flip[n++] = 0;
          }
          int above = below_or_equal(bounds + i * levels, levels, x + reach) + 1;
          if (above <= levels && kept[i * (levels + 2) + above] > 0.05) {
            pick[n] = i * (levels + 2) + above; flip[n++] = ~(uint64_t)0;
          }
        }
        while (n % 4) { pick[n] = 0; flip[n++] = 0; }
        chosen[q] = n; reached[q] = reach;
      }
      memcpy(alive, mask, sizeof mask);
      for (int64_t o = 0; o < chosen[q]; o += 4) {
        const uint64_t *a = tile + pick[o] * WORDS, *b = tile + pick[o + 1] * WORDS;
        const uint64_t *c = tile + pick[o + 2] * WORDS, *e = tile + pick[o + 3] * WORDS;
        uint64_t fa = flip[o], fb = flip[o + 1], fc = flip[o + 2], fe = flip[o + 3];
        for (int w = 0; w < WORDS; w++) alive[w] &= (a[w] ^ fa) & (b[w] ^ fb) & (c[w] ^ fc) & (e[w] ^ fe);
      }
      int fresh = 0;
      for (int w = 0; w < WORDS; w++)
        for (uint64_t word = alive[w]; word; word &= word - 1) {
          int64_t r = first + 64 * w + __builtin_ctzll(word);
          if (r == numbers[q]) continue;
          if (!fresh) {
            for (int64_t j = 0; j < d; j++) {
              double low = row[j] - reach, high = row[j] + reach;
              lo[j] = low > 0 ? low : 0; hi[j] = high < 255 ? high : 255;
            }
            fresh = 1;
          }
          const uint8_t *reference = references + r * d;
          if (!inside(reference, lo, hi, starts, blocks, d)) continue;
          double found = largest(row, reference, d);
          if (found < score[q] || (found == score[q] && r < index[q])) {
            score[q] = found; index[q] = r;
            reach = found - (r >= index[q] ? 1.0 : 0.0);
            fresh = 0;
          }
        }
    }
  }
}
"""


def compiled(folder: Path) -> tuple[ctypes.CDLL, float, int]:
    """The library, the CPU seconds of the compiler, and the size in bytes."""
    source, library = folder / "linf.c", folder / "linf.so"
    source.write_text(SOURCE)
    start = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(["cc", "-O3", "-march=native", "-shared", "-fPIC", source, "-o", library], check=True)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - start
    return ctypes.CDLL(str(library)), spent, library.stat().st_size


Scan = Callable[[LinfSearch, Points, Best], None]


def by_numba(search: LinfSearch, queries: Points, best: Best) -> None:
    """The package's own scan."""
    nobody = np.full(len(queries), -1)
    scan_linf(
        queries.rows, queries.labels, nobody, search.references.rows, search.references.labels, search.want,
        search.dims, search.bounds, search.kept, search.planes, 0.0, search.starts, BIT, best.score, best.index,
    )  # fmt: skip


def in_c(library: ctypes.CDLL) -> Scan:
    """The same through ctypes."""

    def scan(search: LinfSearch, queries: Points, best: Best) -> None:
        count, (m, levels) = len(queries), search.bounds.shape
        nobody, width = np.full(count, -1), 2 * m + 4
        scratch = (
            np.empty((count, width), np.int32), np.empty((count, width), np.uint64),
            np.zeros(count, np.int64), np.empty(count),
        )  # fmt: skip
        arguments = (
            queries.rows, queries.labels, nobody, count, queries.dimensions,
            search.references.rows, search.references.labels, len(search.references),
            search.dims, search.bounds, search.kept, m, levels,
            search.planes, len(search.planes), search.starts, len(search.starts), *scratch, best.score, best.index,
        )  # fmt: skip
        library.scan(*(a.ctypes if isinstance(a, np.ndarray) else ctypes.c_int64(a) for a in arguments))

    return scan


def whole(search: LinfSearch, queries: Points, scan: Scan) -> tuple[np.ndarray, np.ndarray, float]:
    """Distances, neighbors and the CPU seconds of the scan, chunk by chunk as the package does."""
    order = np.argsort(queries.labels, kind="stable")
    score, index, seconds = np.empty(len(queries)), np.empty(len(queries), np.int64), 0.0
    for start in range(0, len(queries), CHUNK):
        chosen = order[start : start + CHUNK]
        part = Points(np.ascontiguousarray(queries.rows[chosen]), queries.labels[chosen])
        best = seeded(search, part.rows, part.labels, np.full(len(part), -1), 1)
        seconds += harness.cpu_seconds(lambda part=part, best=best: scan(search, part, best))
        score[chosen], index[chosen] = best.score[:, 0], best.index[:, 0]
    return score, index, seconds


def run(quick: bool) -> list[harness.Figure]:
    """CPU time of C over numba for the scan, and what each costs to have."""
    if shutil.which("cc") is None:
        print("There is no C compiler here: nothing to compare.", file=sys.stderr)
        return []
    data = load("cifar10")
    references = labelled(data.train.x, data.train.y)
    queries = labelled(data.test.x[: 2000 if quick else 5000], data.test.y[: 2000 if quick else 5000])
    search = prepare(references, queries, OTHER, numpy_stream(0, "linf-in-c"))
    with tempfile.TemporaryDirectory() as folder:
        library, seconds, size = compiled(Path(folder))
        scans: dict[str, Scan] = {"numba": by_numba, "C": in_c(library)}
        whole(search, queries.take(slice(0, 256)), by_numba)  # compiled or loaded from its cache
        times: dict[str, list[float]] = {name: [] for name in scans}
        results = {}
        for _ in range(3):
            for name, scan in scans.items():
                *results[name], spent = whole(search, queries, scan)
                times[name].append(spent)
    for ours, theirs in zip(results["numba"], results["C"], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    middle = {name: sorted(found)[1] for name, found in times.items()}
    return [
        harness.figure("scan in numba, CPU seconds", middle["numba"]),
        harness.figure("scan in C, CPU seconds", middle["C"]),
        harness.figure("C over numba", middle["C"] / middle["numba"]),
        harness.figure("CPU seconds of the C compiler", seconds),
        harness.figure("kilobytes of the C library", size / 1000),
    ]


if __name__ == "__main__":
    harness.main(run)
