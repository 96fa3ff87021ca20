"""The result file of competitions: a verdict, and after ``sat`` the counterexample with its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod


def result_text(verdict: str, written: tuple[Sequence[str], Sequence[str]] | None, tensors: Sequence[str] = ()) -> str:
    """``sat`` and a counterexample as the version of the property writes it.

    VNN-LIB 1.0: ``((X_0 0.5)`` … ``(Y_0 1.25))``. 2.0: a line ``X float32 [1,5]`` for each tensor, and one for each of
    its numbers.

    Args:
        written: the decimals of all inputs, and of all hidden values and outputs.
        tensors: of VNN-LIB 2.0: ``input X float32 [1,5]``, ``output Y real [2]`` … in the order of their declarations.
    """
    if written is None:
        return f"{verdict}\n"
    if tensors:
        return "\n".join([verdict, *_assigned(written, tensors)]) + "\n"
    values = [
        f"({letter}_{index} {number})"
        for letter, numbers in zip("XY", written, strict=True)
        for index, number in enumerate(numbers)
    ]
    return f"{verdict}\n(" + "\n".join(values) + ")\n"


def _assigned(written: tuple[Sequence[str], Sequence[str]], tensors: Sequence[str]) -> list[str]:
    inputs, others = (iter(numbers) for numbers in written)
    lines = []
    for tensor in tensors:
        role, _, head = tensor.partition(" ")
        sizes = head[head.index("[") + 1 : -1]
        count = prod(int(size) for size in sizes.split(",")) if sizes else 1
        numbers = inputs if role == "input" else others
        lines += [head, *(next(numbers) for _ in range(count))]
    return lines
