"""Every step has a typed result; what is written is read back equal, whatever the step found."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from made_instances import write_files
from radii.evaluation.accuracy import Accuracy, Bracket
from radii.evaluation.gate_result import Comparison, GateResult, Rates, RequirementResult
from radii.evaluation.requirement import Requirement
from radii.runs.component_specs import DataSpec, FileSpec
from radii.runs.planning import train_step
from radii.runs.step import STEPS, Step, result_type
from radii.runs.step_results import CertifiedAccuracy, StepResult, parse_result
from radii.runs.steps import AttackStep, AuditStep, Certify, Corruptions, Evaluate, Gate, Prove, Verify
from radii.runs.steps.verify_step import NetworkFile
from radii.runs.store import Store, Workspace
from radii.threat import Ball

KINDS = tuple(STEPS)


def verification(folder: Path) -> Verify:
    """An input that meets a property: the record has a counterexample."""
    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    write_files(folder)
    return Verify(network=NetworkFile.of(folder / "net.onnx"), query=FileSpec.of(folder / "fails.vnnlib"))


def cheapest() -> dict[str, Step]:
    """The cheapest instance of every kind of step, but for those that need files."""
    data = DataSpec.of("digits+subset:100")
    network = train_step(data, "mlp", "natural", {"epochs": 1, "model": {"width": 8}})
    ball = Ball("linf", 0.05)
    certify = Certify(model=network, data=data, radii=(0.1, 0.5), points=20)

    def entry(kind: str, **fields: Any) -> Step:
        step: Step = STEPS.entry(kind).model_validate(fields)
        return step

    return {
        "train": network,
        "audit": AuditStep(data=data, norm="linf", epsilon=0.1, deep=True),
        "evaluate": Evaluate(model=network, data=data, ball=ball, suite="fast", points=20),
        "attack": AttackStep(model=network, data=data, ball=ball, attack="pgd", points=20),
        "certify": certify,
        "corruptions": Corruptions(model=network, data=data, points=4),
        "gate": Gate(model=network, data=data, requirements=("clean>=0.1",), least=10, points=20),
        "prove": Prove(model=network, data=data, ball=ball, points=20, method="ibp"),
        "theory": entry("theory", name="r-separation", arguments={}, seed=0),
        "formula": entry("formula", name="variants"),
        "volume": entry("volume", data=data, epsilon=0.1),
        "interclass": entry("interclass", data=data),
        "spectrum": entry("spectrum", data=data, bands=((1, 16), (17, 64))),
        "one-dimension": entry("one-dimension", points=3),
        "nearby-accuracy": entry("nearby-accuracy", certified=certify, radius=0.1, groups=2),
        "distribution": entry("distribution", data=data),
        "neighbor-distances": entry("neighbor-distances", data=data, queries=20),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_step_finds_is_read_back_equal(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that is added without a ``Result``, or without an instance here, fails."""
    step = verification(tmp_path) if kind == "verify" else cheapest()[kind]
    found: list[StepResult] = []
    perform = type(step).perform

    def remembered(self: Step, work: Workspace) -> StepResult:
        result = perform(self, work)
        if self == step:
            found.append(result)
        return result

    monkeypatch.setattr(type(step), "perform", remembered)
    run = Store(tmp_path).ensure(step)
    assert issubclass(step.Result, StepResult)
    assert found == [run.result] == [run.read(step.Result)]
    assert repr(run.result) == repr(found[0]), "down to the types, tuples and the order of keys"
    assert type(run.result) is step.Result is result_type(kind)
    assert parse_result(run.content, step.Result, "it").to_json() == run.content
    assert run.result.headline() == found[0].headline()


counts = st.integers(1, 10**6).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total)))
shares = counts.map(lambda pair: Accuracy(*pair))
st.register_type_strategy(Accuracy, shares)
st.register_type_strategy(
    Bracket,
    st.tuples(*[st.integers(0, 10**6)] * 3).map(
        lambda own: Bracket(*(Accuracy(count, sorted(own)[2] or 1) for count in sorted(own)[:2]))
    ),
)
st.register_type_strategy(
    CertifiedAccuracy,
    st.builds(lambda pair, bound: CertifiedAccuracy(*pair, bound), counts, st.none() | st.floats()),
)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | st.none() | st.text()
st.register_type_strategy(
    JsonValue, st.recursive(numbers, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)  # type: ignore[arg-type]
rows = st.lists(st.tuples(st.integers(0), st.booleans()), min_size=1)
st.register_type_strategy(
    GateResult,
    st.builds(
        lambda rows, floor, comparison, note, rates, population: GateResult(
            (
                RequirementResult(
                    Requirement.parse("robust(linf:8/255)>=0.5"),
                    floor,
                    tuple(row for row, _ in rows),
                    tuple(success for _, success in rows),
                    comparison,
                    note,
                ),
            ),
            rates,
            population,
        ),
        rows,
        st.sampled_from(["pass", "fail"]),
        st.none() | st.builds(Comparison),
        st.text(),
        st.builds(Rates, *[st.floats(0, 1)] * 3),
        st.integers(1),
    ),
)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_result_of_a_step_is_read_back_equal(kind: str, data: st.DataObject) -> None:
    """Also with NaN, infinities and numbers that no cheap instance finds."""
    record = result_type(kind)
    result = data.draw(
        st.builds(
            record, **{name: st.from_type(field.rebuild_annotation()) for name, field in record.model_fields.items()}
        )
    )
    again = parse_result(json.loads(result.text()), record, "it")
    assert again == result
    assert repr(again) == repr(result)
    assert again.brief() == result.brief()
    assert parse_result(json.loads(again.brief().text()), record, "it") == result.brief()


class Everything(StepResult):
    long: ClassVar[tuple[str, ...]] = ("list_",)

    real: float
    whole: int
    truth: bool
    by_number: dict[int, float]
    pairs: tuple[tuple[str, float], ...]
    maybe: float | None = None
    list_: tuple[int, ...] = ()


def test_numbers_of_numpy_are_numbers() -> None:
    result = Everything(
        real=np.float32(0.1),  # type: ignore[arg-type]
        whole=np.int64(2**53 + 1),  # type: ignore[arg-type]
        truth=np.bool_(True),  # type: ignore[arg-type]
        by_number={np.int64(3): np.float64(math.inf), 1: -math.inf, 2: math.nan},  # type: ignore[dict-item]
        pairs=[("b", np.float32(2) ** -149), ("a", 1e308)],  # type: ignore[arg-type]
    )
    again = parse_result(json.loads(result.text()), Everything, "it")
    assert again == result
    assert again.real == float(np.float32(0.1))
    assert [*again.by_number] == [3, 1, 2], "in their order"
    assert math.isnan(again.by_number[2])
    assert again.pairs == (("b", 2.0**-149), ("a", 1e308))
    assert json.loads(result.text(), parse_constant=pytest.fail)["by_number"]["3"] == "Infinity", "plain JSON"


def test_results_are_read_without_torch() -> None:
    """Lists of runs and the claims of the papers answer at once."""
    code = (
        "import sys; from radii.runs.step import RECORDS\n"
        "[RECORDS.entry(kind) for kind in RECORDS]\n"
        "loaded = {'torch', 'numba', 'sklearn'} & set(sys.modules); assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_former_result_lacks_what_has_a_default() -> None:
    result = parse_result({"train_accuracy": 1, "test_accuracy": 0.5, "parameters": 7}, result_type("train"), "it")
    assert result.to_json() == {"train_accuracy": 1.0, "test_accuracy": 0.5, "parameters": 7}
