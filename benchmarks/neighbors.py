"""CPU time of exact nearest other-class neighbors against scikit-learn, scipy, torch and faiss, at equal results.

The peers compare all pairs, so their time is linear in the queries: they are
timed on few queries of one class against all references of the others, given
to them ready-made in the type they like best, and scaled. Ours is timed whole,
preparation included, on queries of all classes.

Measured on two cores of an AMD EPYC (AVX2): see benchmarks/results/neighbors.json.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from harness import Figure, cpu_seconds, figure, main, medians
from radii.data.dataset import Data
from radii.data.sources import load
from radii.geometry.search.engine import Work
from radii.geometry.search.neighbors import nearest
from radii.threat import Norm

ONE = Work(workers=1)


@dataclass(frozen=True)
class Few:
    """What the peers get: a few queries of one class and all references of the others, as float32."""

    queries: np.ndarray
    references: np.ndarray
    rows: np.ndarray  # which queries these are

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray, reference_x: np.ndarray, reference_y: np.ndarray, count: int) -> Few:
        label = y[0]
        rows = np.flatnonzero(y == label)[:count]
        return cls(flat(x[rows]), flat(reference_x[reference_y != label]), rows)


def flat(x: np.ndarray) -> np.ndarray:
    return x.reshape(len(x), -1).astype(np.float32)


def by_scikit_learn(few: Few, norm: Norm) -> Callable[[], np.ndarray]:
    from sklearn.neighbors import NearestNeighbors

    metric = {"linf": "chebyshev", "l2": "euclidean"}[norm]
    index = NearestNeighbors(n_neighbors=1, algorithm="brute", metric=metric).fit(few.references)
    return lambda: index.kneighbors(few.queries)[0][:, 0]


def by_scipy(few: Few, norm: Norm) -> Callable[[], np.ndarray]:
    from scipy.spatial.distance import cdist

    metric = {"linf": "chebyshev", "l2": "euclidean"}[norm]
    queries, references = few.queries.astype(np.float64), few.references.astype(np.float64)
    return lambda: np.concatenate([cdist(q[None], references, metric).min(1) for q in queries])


def by_torch(few: Few, norm: Norm) -> Callable[[], np.ndarray]:
    import torch

    p = {"linf": float("inf"), "l2": 2.0}[norm]
    queries, references = torch.from_numpy(few.queries), torch.from_numpy(few.references)
    return lambda: torch.cdist(queries, references, p=p).amin(1).numpy()


def by_faiss(few: Few, norm: Norm) -> Callable[[], np.ndarray]:
    import faiss

    faiss.omp_set_num_threads(1)
    metric = {"linf": faiss.METRIC_Linf, "l2": faiss.METRIC_L2}[norm]
    index = faiss.IndexFlat(few.references.shape[1], metric)
    index.add(few.references)
    root = np.sqrt if norm == "l2" else np.asarray
    return lambda: root(index.search(few.queries, 1)[0][:, 0])


PEERS = {"scikit-learn": by_scikit_learn, "scipy": by_scipy, "torch": by_torch, "faiss": by_faiss}


def compare(
    name: str, norm: Norm, queries: tuple, references: tuple, counts: dict[str, int], rounds: int, tolerance: float
) -> dict[str, float]:
    """CPU seconds for all queries, ours and the peers' scaled; refuses to go on if distances differ."""
    x, y = queries
    levels = 255.0 if x.dtype == np.uint8 else 1.0
    results: list[np.ndarray] = []
    search = {"radii": lambda: results.append(nearest(x, y, references, norm=norm, work=ONE).distance[:, 0] * levels)}
    seconds = medians(search, rounds=rounds, warmup=0)
    whole_few = Few.of(x, y, *references, max(counts.values()))
    for peer, count in counts.items():
        few = Few(whole_few.queries[:count], whole_few.references, whole_few.rows[:count])
        action = PEERS[peer](few, norm)
        found: list[np.ndarray] = []
        spent = cpu_seconds(lambda action=action, found=found: found.append(action()))
        seconds[peer] = spent * len(x) / len(few.rows)
        gap = float(np.abs(found[0] - results[0][few.rows]).max())
        if gap > tolerance * levels:
            raise SystemExit(f"{name}: {peer} differs by {gap:g}")
    for who, value in seconds.items():
        figure(f"  {name}, {who}: CPU seconds", value)
    return seconds


def ratio(name: str, seconds: dict[str, float], goal: float) -> Figure:
    best = min(value for who, value in seconds.items() if who != "radii")
    return figure(name, seconds["radii"] / best, goal)


def standardized(x: np.ndarray) -> np.ndarray:
    rows = flat(x)
    some = rows[::50]
    rows -= some.mean(0)
    rows /= some.std(0) + 1e-3
    return rows


def growth(data: Data) -> list[Figure]:
    """How the Linf time grows with the references, the coordinates and the classes; 2,000 queries of CIFAR-10."""
    x, y, train_x, train_y = data.test.x[:2000], data.test.y[:2000], data.train.x, data.train.y
    figures = []
    for n in (12_500, 25_000, 50_000):
        spent = cpu_seconds(lambda n=n: nearest(x, y, (train_x[:n], train_y[:n]), work=ONE))
        figures.append(figure(f"growth: {n} references, CPU seconds", spent))
    for rows in (8, 16, 32):
        part = (np.ascontiguousarray(train_x[:, :, :rows]), train_y)
        spent = cpu_seconds(lambda part=part, rows=rows: nearest(x[:, :, :rows], y, part, work=ONE))
        figures.append(figure(f"growth: {96 * rows} coordinates, CPU seconds", spent))
    for classes in (2, 5, 10):
        spent = cpu_seconds(lambda c=classes: nearest(x, y % c, (train_x, train_y % c), work=ONE))
        figures.append(figure(f"growth: {classes} classes, CPU seconds", spent))
    return figures


def whole(data: Data) -> list[Figure]:
    """All of CIFAR-10 against itself on both cores: CPU seconds, and memory over the data's."""
    x = np.array(data.train.x)  # in memory, so that the measured growth is the search's own
    before, peak, done = resident(), [0], threading.Event()

    def watch() -> None:
        while not done.is_set():
            peak[0] = max(peak[0], resident())
            time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    found = []
    spent = cpu_seconds(lambda: found.append(nearest(x, data.train.y)))
    done.set()
    watcher.join()
    memory = 1 + (peak[0] - before) / x.nbytes
    return [
        figure("CIFAR-10 train-train Linf, CPU seconds", spent, 60),
        figure("CIFAR-10 train-train Linf, memory over the data's", memory, 1.5),
        figure("CIFAR-10 train-train separation, grey levels", found[0].distance.min() * 255, 54),
    ]


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def run(quick: bool) -> list[Figure]:
    """All figures; --quick times the peers on fewer queries and leaves out growth and the whole set."""
    cifar, mnist = load("cifar10"), load("mnist")
    warm = np.random.default_rng(0).integers(0, 256, (2500, 800), np.uint8)
    for rows in (warm, warm.astype(np.float32)):  # load or compile the kernels once
        for norm in ("linf", "l2"):
            nearest(rows, np.arange(2500) % 2, norm=norm, work=ONE)
    few = {"scikit-learn": 8, "scipy": 8, "torch": 8, "faiss": 2} if quick else dict.fromkeys(PEERS, 48) | {"faiss": 12}
    rounds = 1 if quick else 3
    figures = [] if quick else whole(cifar)
    count = 5000
    queries = (cifar.test.x[:count], cifar.test.y[:count])
    references = (cifar.train.x, cifar.train.y)
    seconds = compare("Linf CIFAR-10 5,000 x 50,000", "linf", queries, references, few, rounds, 0)
    figures.append(ratio("Linf uint8 CIFAR-10 over the best peer", seconds, 1 / 150))
    several = {peer: 4 * count for peer, count in few.items()}
    digits = ((mnist.test.x, mnist.test.y), (mnist.train.x, mnist.train.y))
    seconds = compare("Linf MNIST 10,000 x 60,000", "linf", *digits, several, rounds, 0)
    figures.append(ratio("Linf uint8 MNIST over the best peer", seconds, 1 / 50))
    many = {"faiss": 256} if quick else {"scikit-learn": 256, "torch": 256, "faiss": 450}
    seconds = compare("L2 CIFAR-10 5,000 x 50,000", "l2", queries, references, many, rounds, 1e-3)
    figures.append(ratio("L2 exact CIFAR-10 over faiss (inexact)", {k: seconds[k] for k in ("radii", "faiss")}, 0.5))
    features = standardized(np.concatenate([cifar.test.x[:count], cifar.train.x]))
    floats = ((features[:count], queries[1]), (features[count:], references[1]))
    seconds = compare("Linf float32 features 5,000 x 50,000", "linf", *floats, few, rounds, 1e-5)
    figures.append(ratio("Linf float32 over the best peer", seconds, 1 / 40))
    return figures if quick else figures + growth(cifar)


if __name__ == "__main__":
    main(run)
