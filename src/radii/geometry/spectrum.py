"""The principal-component spectrum: in how few directions the data varies (Prach & Lampert 2025, Sec. 5.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radii.data.dataset import Dataset
from radii.data.subspace import cached_basis
from radii.errors import InputError


@dataclass(frozen=True)
class Spectrum:
    """Variances [d] of the principal components, falling."""

    variance: NDArray[np.float64]

    def share(self, first: int, last: int) -> float:
        """The share of all variance in components ``first``..``last``, 1-based and inclusive."""
        if not 1 <= first <= last <= len(self.variance):
            raise InputError(f"Components must lie in 1..{len(self.variance)}, got {first}..{last} instead.")
        total = float(self.variance.sum())
        return float(self.variance[first - 1 : last].sum()) / total if total else 0.0

    def components_for(self, share: float) -> int:
        """How many leading components hold a ``share`` of the variance."""
        total = float(self.variance.sum())
        return int(np.searchsorted(np.cumsum(self.variance), share * total * (1 - 1e-12)) + 1) if total else 0

    def rows(self) -> list[dict[str, float]]:
        """Tidy rows ``components``, ``share``: the variance held by the first k, k doubling."""
        d = len(self.variance)
        counts = sorted({min(2**power, d) for power in range(d.bit_length() + 1)})
        return [{"components": k, "share": self.share(1, k)} for k in counts]

    def summary(self) -> dict[str, Any]:
        """Components needed for 50, 90, 99 and 99.9% of the variance."""
        return {f"{share:g}": self.components_for(share) for share in (0.5, 0.9, 0.99, 0.999)}


def principal_spectrum(train: Dataset) -> Spectrum:
    """The spectrum of the flattened, mean-centered inputs of ``train``; the components are stored in the cache."""
    return Spectrum(cached_basis(train).variance)
