"""The competition's result file: a verdict, and for ``sat`` the counterexample with its outputs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from radii.certificates.complete.verify import Verification


def result_text(answer: Verification) -> str:
    """The text of the result file of ``answer``: ``((X_0 0.5)`` … ``(Y_0 1.25))`` follows ``sat``."""
    if answer.counterexample is None or answer.outputs is None:
        return f"{answer.verdict}\n"
    values = [*_named("X", answer.counterexample), *_named("Y", answer.outputs)]
    return f"{answer.verdict}\n(" + "\n".join(values) + ")\n"


def _named(letter: str, values: Iterable[np.float32]) -> list[str]:
    """Every digit of each float32, without an exponent."""
    return [f"({letter}_{place} {np.format_float_positional(value, trim='0')})" for place, value in enumerate(values)]
