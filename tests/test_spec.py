"""Specs: equal meaning, equal hash; growth without new hashes; all faults at once."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from pydantic import ValidationError

from radii.errors import InputError
from radii.spec import Spec, explain


class Inner(Spec):
    rate: float = 1.0


class Outer(Spec):
    exclude_from_hash: ClassVar[frozenset[str]] = frozenset({"place"})
    name: str
    inner: Inner = Inner()
    sizes: tuple[int, ...] = ()
    place: str = "here"


class Grown(Outer):
    omit_if_default: ClassVar[dict[str, Any]] = {"later": 0}
    later: int = 0


def test_equal_meaning_equal_hash() -> None:
    same = [
        Outer(name="a", inner=Inner(rate=1)),
        Outer(name="a", inner=Inner(rate=np.float64(1))),
        Outer(name="a"),
        Outer(name="a", inner={"rate": 1}),  # type: ignore[arg-type]
        Outer(name="a", place="elsewhere"),
        Grown(name="a"),
    ]
    assert len({spec.content_hash() for spec in same}) == 1
    assert len(same[0].content_hash()) == 20


def test_another_meaning_has_another_hash() -> None:
    different = [Outer(name="a"), Outer(name="b"), Outer(name="a", sizes=(1,)), Grown(name="a", later=1)]
    assert len({spec.content_hash() for spec in different}) == len(different)


def test_the_hash_is_what_it_was() -> None:
    """A changed canonical form would orphan every run on disk."""
    assert Outer(name="a").canonical_json() == '{"inner":{"rate":1.0},"name":"a","sizes":[]}'
    assert Outer(name="a").content_hash() == "6246470b4da2a5828d48"


def test_specs_do_not_change_and_refuse_nan() -> None:
    with pytest.raises(ValidationError):
        Outer(name="a").name = "b"  # type: ignore[misc]
    with pytest.raises(ValidationError):
        Inner(rate=float("nan"))


@pytest.mark.parametrize("value", [np.nan, [1.0, np.inf], {"a": (np.nan,)}, [[np.float32(np.nan)]]])
def test_arguments_of_components_are_finite_wherever_they_stand(value: Any) -> None:
    class Component(Spec):
        arguments: dict[str, Any] = {}

    with pytest.raises(InputError, match=r"must be a finite number, got (nan|inf) instead"):
        Component(arguments={"widths": value}).content_hash()


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(ValidationError) as caught:
        Outer(nam="a", inner={"rate": "fast"})  # type: ignore[call-arg, arg-type]
    told = str(explain(caught.value, "study.toml"))
    assert isinstance(explain(caught.value, "x"), InputError)
    for part in ("study.toml", "name", "inner.rate", "'fast'", "no setting 'nam'"):
        assert part in told
