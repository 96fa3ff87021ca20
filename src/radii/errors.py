"""Errors: a mistake of a user, explained in one sentence.

Every mistake of a user (a missing file, a misspelt name, a pixel of 255) is
raised as :class:`InputError`. The command line prints its message and exits
with code 2; from Python it is an ordinary ``ValueError``.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """Bad input: the message names the file, field or value and what would be accepted."""


class ContradictionError(RuntimeError):
    """A proved radius exceeds a broken one: a certificate or an attack is wrong."""


def unknown_name(kind: str, name: str, known: Iterable[str], hint: str = "") -> InputError:
    """The error for a ``name`` of some ``kind`` that is not among ``known``, with the nearest known one and a ``hint``.

    >>> print(unknown_name("model", "lenet", ["lenet5", "mlp"]))
    No model is called 'lenet'. Did you mean 'lenet5'? Known: lenet5, mlp.
    """
    names = sorted(known)
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    guess = f" Did you mean {near[0]!r}?" if near else ""
    tail = f" {hint}" if hint else ""
    return InputError(f"No {kind} is called {name!r}.{guess} Known: {', '.join(names)}.{tail}")
