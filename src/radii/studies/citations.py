"""Places in papers: whether words such as ``ding figure 2`` mean a source such as ``Ding et al. 2019, Fig. 2a``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_KINDS = {
    "figure": ("figure", "figures", "fig", "figs"),
    "table": ("table", "tables", "tab"),
    "equation": ("equation", "equations", "eq", "eqs"),
    "theorem": ("theorem", "theorems", "thm"),
    "proposition": ("proposition", "propositions", "prop"),
    "section": ("section", "sections", "sec"),
    "example": ("example", "examples"),
    "question": ("question", "questions"),
    "proposal": ("proposal", "proposals"),
}
_KIND_OF = {word: kind for kind, words in _KINDS.items() for word in words}
_WORD = re.compile(r"\w+(?:\.\w+)*")
_LABEL = re.compile(r"(?:[a-z]\.)?\d+(?:\.\d+)*[a-z]?")
_DOTTED = re.compile(r"\b(figs?|tab|eqs?|thm|prop|sec)\.(?=\d)")
_LONGEST = 200  # labels of a range: "Eq. 29 to 35"


def cites(source: str, words: Sequence[str]) -> bool:
    """Whether one part of ``source`` (parts end at ``;``) has all ``words``: places by kind and number.

    ``figure 2`` means ``Fig. 1 and 2``, ``Fig. 2a`` and ``Fig. 1 to 3``, not ``Table 2``.

    >>> cites("Ding et al. 2019, Tables 1 and 6; Yang et al. 2020, Fig. 3", ["ding", "table", "6"])
    True
    >>> cites("Ding et al. 2019, Tables 1 and 6; Yang et al. 2020, Fig. 3", ["yang", "table", "6"])
    False
    """
    wanted = list(_marks(" ".join(words)))
    return bool(wanted) and any(
        all(_stands_in(mark, list(_marks(part))) for mark in wanted) for part in source.split(";")
    )


@dataclass(frozen=True)
class _Mark:
    """A place, such as table 6, or a word, which has no kind."""

    kind: str
    label: str


def _stands_in(wanted: _Mark, marks: Sequence[_Mark]) -> bool:
    """Whether a part has the mark: 2a for figure 2; any theorem for the word theorem."""
    if not wanted.kind:
        return any(wanted.label in ((mark.kind,) if mark.kind else (mark.label,)) for mark in marks)
    return any(mark.kind == wanted.kind and wanted.label in (mark.label, mark.label.rstrip("abcdef")) for mark in marks)


def _marks(text: str) -> Iterator[_Mark]:
    """What ``text`` names, in order; the labels after a kind belong to it until another word comes."""
    kind, last, upto = "", "", False
    for word in _WORD.findall(_DOTTED.sub(r"\1 ", text.lower())):
        token = _KIND_OF.get(word, word)
        if kind and _LABEL.fullmatch(token):
            if upto and last.isdigit() and token.isdigit():
                yield from (
                    _Mark(kind, str(number)) for number in range(int(last) + 1, min(int(token), int(last) + _LONGEST))
                )
            yield _Mark(kind, token)
            last, upto = token, False
        elif kind and last and token in ("and", "to"):
            upto = token == "to"
        else:
            if kind and not last:
                yield _Mark("", kind)
            kind, last = (token, "") if token in _KINDS else ("", "")
            if not kind:
                yield _Mark("", token)
    if kind and not last:
        yield _Mark("", kind)
