"""The answers of a gate as files that build servers show: JUnit XML, a Markdown comment, a badge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

from radii.evaluation.gate_result import GateResult


def junit(result: GateResult, setup: Mapping[str, Any], seconds: float) -> str:
    """JUnit XML: a test case for each requirement.

    Args:
        result: the answers.
        setup: model, dataset, suite and seed.
        seconds: the time it took.
    """
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
    """A comment for a pull request.

    Args:
        result: the answers.
        setup: model, dataset, suite and seed.
    """
    verdict = "passed" if result.passed else "failed"
    names = f"`{_code(setup['model'])}` on `{_code(setup['dataset'])}`"
    lines = [f"### radii gate: {verdict}", "", f"{names}, suite {setup['suite']}, seed {setup['seed']}.", ""]
    lines += [result.table().to_markdown(), ""]
    lines += [f"- `{own.requirement}`: {own.sentence()}" for own in result.results if not own.passed or own.note]
    return "\n".join([*lines, "", result.promise(), ""])


def badge(result: GateResult) -> dict[str, Any]:
    """What the endpoint badge of shields.io reads.

    Args:
        result: the answers.
    """
    good = sum(own.passed for own in result.results)
    label, message = "robustness gate", f"{good} of {len(result.results)} pass"
    if len(result.results) == 1:
        only = result.results[0].requirement
        label, message = only.subject, f"{'≥' if result.passed else 'below'} {only.floor:.0%}"
    color = "brightgreen" if result.passed else "red"
    return {"schemaVersion": 1, "label": label, "message": message, "color": color, "isError": not result.passed}


def _printable(value: object) -> str:
    """Text that XML allows: no control characters."""
    return "".join(letter if letter >= " " or letter in "\t\n" else "�" for letter in str(value))


def _code(value: object) -> str:
    """Text between backticks."""
    return str(value).replace("`", "'").replace("\n", " ")
