"""Wrong arguments of the public functions: one sentence that names the argument, before any work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import nn

import radii
from radii.errors import InputError, _annotation, _check_kind, _kind, checked
from radii.threat import Ball

FUNCTIONS = [
    "assess", "attack", "audit", "certify", "check_proof", "compare", "doctor", "evaluate", "export", "forecast",
    "gate", "lipschitz_bound", "load", "train", "verify",
]  # fmt: skip
ODD = [None, -1, 0.5, float("nan"), "a", (), object(), [float("nan")], True, torch.zeros(2, 2), np.zeros(3), {}]
X, Y = torch.rand(6, 4, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 3
NET = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)).eval()


def stop(*_args: Any, **_settings: Any) -> Any:
    raise AssertionError("the body was reached")


def test_every_public_function_is_checked() -> None:
    names = {name for name in radii.__all__ if callable(getattr(radii, name)) and name.islower()}
    assert names - {"__version__"} == set(FUNCTIONS)
    assert all(hasattr(getattr(radii, name), "__wrapped__") for name in FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_argument_of_another_kind_is_refused_by_name(name: str) -> None:
    function = getattr(radii, name).__wrapped__
    declared, tried = signature(function), 0
    for own in declared.parameters.values():
        annotation = _annotation(function, own.annotation)
        parts = getattr(annotation, "__args__", ()) if "|" in str(own.annotation) else (annotation,)
        kinds = [_kind(part) for part in parts]
        if None in kinds:
            continue
        for value in ODD:
            if any(kind is not None and kind[1](value) for kind in kinds):
                continue
            tried += 1
            call = checked(_alone(function, own))
            with pytest.raises(InputError, match=rf"^{own.name} must be .* instead\.$") as caught:
                call(**{own.name: value})
            assert "\n" not in str(caught.value)
    assert tried >= 6, f"{name} has hardly an argument whose kind is known"


def _alone(function: Callable[..., Any], own: Parameter) -> Callable[..., Any]:
    """A function with one parameter of ``function``, which must not be reached."""

    def lone(**_settings: Any) -> None:
        stop()

    lone.__signature__ = signature(function).replace(  # type: ignore[attr-defined]
        parameters=[own.replace(kind=Parameter.KEYWORD_ONLY)]
    )
    bound = type(function)(lone.__code__, {**function.__globals__, "stop": stop}, "lone")
    bound.__signature__ = lone.__signature__  # type: ignore[attr-defined]
    return bound


@pytest.mark.parametrize("value", ODD)
def test_odd_values_end_in_an_answer_or_a_sentence(value: Any) -> None:
    calls: list[Callable[[], object]] = [
        lambda: Ball(value, 0.1),
        lambda: Ball("linf", value),
        lambda: Ball("linf", 0.1, value),
        lambda: Ball("linf", 0.1, fixed=value),
        lambda: Ball.of(value),
        lambda: radii.certify(NET, value),
        lambda: radii.certify(NET, X, value),
        lambda: radii.certify(NET, X, "crown", radii=value),
        lambda: radii.certify(NET, X, "crown", norm=value),
        lambda: radii.certify(NET, X, "crown", box=value),
        lambda: radii.certify(NET, X, "smoothing", sigma=value, samples=200, radii=(0.1,)),
        lambda: radii.evaluate(NET, X, Y, value, suite="fast", radii=False),
        lambda: radii.attack(NET, X, Y, value),
        lambda: radii.attack(NET, value, Y, "linf:0.1"),
        lambda: radii.attack(NET, X, value, "linf:0.1"),
        lambda: radii.attack(value, X, Y, "linf:0.1"),
    ]
    for call in calls:
        sentence = ""
        try:
            call()
        except InputError as error:
            sentence = str(error)
        assert "\n" not in sentence


def test_counts_have_a_range() -> None:
    for settings in ({"batch_size": 0}, {"batch_size": -1}, {"complete": -1.0}):
        with pytest.raises(InputError, match="at least"):
            radii.evaluate(NET, X, Y, "linf:0.1", **settings)


def test_numbers_of_numpy_and_torch_are_numbers() -> None:
    for value in (1, 0.5, np.float32(0.5), np.array(0.5), torch.tensor(0.5), np.int64(3), float("inf")):
        _check_kind("epsilon", value, float)
    for value in (3, np.int32(3)):
        _check_kind("seed", value, int)
    _check_kind("radii", np.array([0.1, 0.2]), Sequence[float] | None)
    _check_kind("radii", None, Sequence[float] | None)
    _check_kind("path", "a.onnx", Path)
    _check_kind("norm", "l2", Literal["l2", "linf"])
    _check_kind("whatever", object(), object)


@pytest.mark.parametrize("kind", [torch.float64, torch.float16, torch.bfloat16])
def test_weights_of_another_type_are_named(kind: torch.dtype) -> None:
    network = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)).eval()
    bound = radii.lipschitz_bound(network, (4,))
    certificate = radii.certify(network, X)
    network.to(kind)
    from radii.certificates.lipschitz import certify

    calls: list[Callable[[], object]] = [
        lambda: certify(network, X, bound),
        lambda: radii.certify(network, X),
        lambda: radii.evaluate(network, X, Y, "l2:0.1", certificate=certificate),
        lambda: radii.evaluate(network, X.double(), Y, "l2:0.1"),
        lambda: radii.attack(network, X, Y, "l2:0.1"),
    ]
    for call in calls:
        with pytest.raises(InputError, match=r"give model\.float\(\)|computed for other weights"):
            call()
