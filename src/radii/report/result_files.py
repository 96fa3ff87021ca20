"""Results as files that others read: JUnit XML, a Markdown comment and a badge of a gate, and the model card.

A card is Markdown with the front matter that the Hugging Face hub reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from radii.errors import InputError
from radii.evaluation.gate_result import GateResult


def junit(result: GateResult, setup: Mapping[str, Any], seconds: float) -> str:
    """JUnit XML: a test case for each requirement."""
    failures = sum(not own.passed for own in result.results)
    counts = {"tests": str(len(result.results)), "failures": str(failures), "errors": "0", "time": f"{seconds:.3f}"}
    root = ElementTree.Element("testsuites", {"name": "radii gate", **counts})
    name = _printable(f"{setup['model']} on {setup['dataset']}")
    suite = ElementTree.SubElement(root, "testsuite", {"name": name, **counts})
    properties = ElementTree.SubElement(suite, "properties")
    for key, value in {**setup, "promise": result.promise()}.items():
        ElementTree.SubElement(properties, "property", {"name": key, "value": _printable(value)})
    for own in result.results:
        case = ElementTree.SubElement(suite, "testcase", classname="radii.gate", name=str(own.requirement), time="0")
        if not own.passed:
            ElementTree.SubElement(case, "failure", message=_printable(own.sentence()), type="requirement")
        ElementTree.SubElement(case, "system-out").text = _printable(own.sentence())
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def markdown(result: GateResult, setup: Mapping[str, Any]) -> str:
    """A comment for a pull request."""
    verdict = "passed" if result.passed else "failed"
    names = f"`{code(setup['model'])}` on `{code(setup['dataset'])}`"
    lines = [f"### radii gate: {verdict}", "", f"{names}, suite {setup['suite']}, seed {setup['seed']}.", ""]
    lines += [result.table().to_markdown(), ""]
    lines += [f"- `{own.requirement}`: {own.sentence()}" for own in result.results if not own.passed or own.note]
    return "\n".join([*lines, "", result.promise(), ""])


def badge(result: GateResult) -> dict[str, Any]:
    """What the endpoint badge of shields.io reads."""
    good = sum(own.passed for own in result.results)
    label, message = "robustness gate", f"{good} of {len(result.results)} pass"
    if len(result.results) == 1:
        only = result.results[0].requirement
        label, message = only.subject, f"{'passes' if result.passed else 'fails'} {100 * only.floor:.4g}%"
    color = "brightgreen" if result.passed else "red"
    return {"schemaVersion": 1, "label": label, "message": message, "color": color, "isError": not result.passed}


def _printable(value: object) -> str:
    """Text that XML allows: no control characters."""
    return "".join(letter if letter >= " " or letter in "\t\n" else "�" for letter in str(value))


def code(value: object) -> str:
    """Text between backticks."""
    return str(value).replace("`", "'").replace("\n", " ")


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
    kinds = {
        "clean": "accuracy",
        "robust": "robust_accuracy_upper",
        "proved": "robust_accuracy_lower",
        "corrupted": "accuracy_corrupted",
    }
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
