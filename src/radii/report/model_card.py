"""A model card: what was measured of a model, as Markdown with the front matter that the Hugging Face hub reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from radii.errors import InputError
from radii.evaluation.gate_result import GateResult

LIMITS = (
    "*Proved* is a lower bound of robust accuracy: no input within the radius is misclassified, under the assumptions "
    "of the certificate. *Unbroken* is an upper bound: the attacks named here found no error; stronger ones may.",
    "Figures are about inputs like those of the dataset and perturbations of the stated norm and radius. They say "
    "nothing about other shifts (weather, sensors, new classes).",
    "A card reports measurements. It is not a statement of conformity with a law or a standard.",
)


@dataclass(frozen=True)
class Metric:
    """One figure of the card: its type and name on the hub, its value and, in words, its certainty."""

    type: str
    name: str
    value: float
    certainty: str


def card(content: Mapping[str, Any], where: str) -> str:
    """The card of an evaluation or a gate.

    Args:
        content: the JSON of ``radii evaluate`` or ``radii gate``.
        where: the file or run, for the sentence about one that is neither.

    Raises:
        InputError: the content is neither an evaluation nor a gate.
    """
    try:
        if "requirements" in content:
            metrics, about = _of_gate(content, where)
        else:
            metrics, about = _of_evaluation(content)
        return _front_matter(about, metrics) + _text(content, about, metrics)
    except (KeyError, TypeError):
        raise InputError(f"{where} is not the result of radii evaluate (one split) or of radii gate.") from None


def _of_evaluation(content: Mapping[str, Any]) -> tuple[list[Metric], dict[str, str]]:
    threat, robust = content["threat"], content["robust"]
    shares = [
        ("accuracy", "clean accuracy", content["clean"]),
        ("robust_accuracy_lower", f"proved robust accuracy, {threat}, at least", robust["proved"]),
        ("robust_accuracy_upper", f"unbroken robust accuracy, {threat}, at most", robust["unbroken"]),
    ]
    metrics = [Metric(kind, name, share["value"], _interval(share)) for kind, name, share in shares]
    about = {"model": content["model"], "dataset": content["dataset"], "suite": content["suite"]}
    return metrics, about | {"seed": str(content["seed"]), "points": f"{content['points']:,}"}


def _of_gate(content: Mapping[str, Any], where: str) -> tuple[list[Metric], dict[str, str]]:
    kinds = {"clean": "accuracy", "robust": "robust_accuracy_upper", "proved": "robust_accuracy_lower"}
    result, setup = GateResult.of(content, where), content["setup"]
    metrics = [
        Metric(
            kinds[own.requirement.measure],
            f"{own.requirement.subject}, required {own.requirement.floor:g}",
            own.share.value,
            f"{'passes' if own.passed else 'fails'} on {own.share.total} points",
        )
        for own in result.results
    ]
    about = {name: str(setup[name]) for name in ("model", "dataset", "suite", "seed")}
    return metrics, about | {"points": f"{result.points:,} of {result.population:,} in random order"}


def _interval(share: Mapping[str, Any]) -> str:
    low, high = share["interval"]
    return f"95% interval {low:.1%} to {high:.1%}"


def _front_matter(about: Mapping[str, str], metrics: list[Metric]) -> str:
    """YAML between two lines of dashes; strings are quoted as JSON, which is YAML."""
    lines = ["---", "tags:", '- "adversarial-robustness"', '- "radii"', "model-index:"]
    lines += [f"- name: {_quoted(about['model'])}", "  results:", "  - task:", '      type: "image-classification"']
    lines += ["    dataset:", f"      name: {_quoted(about['dataset'])}", f"      type: {_quoted(about['dataset'])}"]
    lines.append("    metrics:")
    for metric in metrics:
        lines += [f"    - type: {_quoted(metric.type)}", f"      name: {_quoted(metric.name)}"]
        lines.append(f"      value: {metric.value:.6g}")
    return "\n".join([*lines, "---", ""])


def _text(content: Mapping[str, Any], about: Mapping[str, str], metrics: list[Metric]) -> str:
    lines = [f"# {_line(about['model'])}", "", f"Robustness on `{_line(about['dataset'])}`, measured with radii.", ""]
    lines += ["| figure | value | certainty |", "| --- | --- | --- |"]
    lines += [f"| {_cell(m.name)} | {m.value:.1%} | {_cell(m.certainty)} |" for m in metrics]
    if content.get("certificate"):
        lines += ["", f"Certificate: {_line(content['certificate'])}."]
    if alarms := content.get("alarms"):
        lines += ["", "## Reasons to doubt", "", *(f"- {_line(alarm['message'])}" for alarm in alarms)]
    if "requirements" in content:
        result = GateResult.of(content, "gate")
        lines += ["", "## Requirements", "", *(f"- `{own.requirement}`: {own.sentence()}" for own in result.results)]
        lines += ["", result.promise()]
    lines += ["", "## What the figures mean", "", *(f"- {sentence}" for sentence in LIMITS)]
    lines += ["", "## How it was measured", "", *(f"- {name}: {_line(value)}" for name, value in about.items())]
    versions = dict((content.get("environment") or {}).get("versions") or {})
    lines += [f"- {name}: {_line(version)}" for name, version in versions.items()]
    return "\n".join([*lines, ""])


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _line(text: object) -> str:
    return " ".join(str(text).split())


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|")
