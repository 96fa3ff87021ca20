"""Write these pages again from the results in the package: ``python docs/papers/studies/write.py [NAME …]``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

from PIL import Image

from radii.report.study_page import save
from radii.runs.store import Store
from radii.studies import results
from radii.studies.results import Evidence
from radii.studies.study import registered_study
from radii_papers.claims.claim import all_claims
from radii_papers.claims.judgment import Verdict, ledger

HERE = Path(__file__).parent
PAGES = (
    "separation",
    "sensitivity-mnist",
    "capacity-mnist",
    "sensitivity-cifar",
    "capacity-cifar",
    "data-scaling",
    "subspaces",
    "provable",
    "yang-mnist",
    "staircase",
    "nearby-points",
    "overfitting",
    "trade-off",
    "yang-cifar",
    "dropout",
    "linf-front",
    "compute-scaling",
    "scaled-digits",
    "distance-robustness",
    "extra-data",
    "sample-complexity",
    "gamma",
    "fashion-edges",
    "sample-size",
    "distributions",
)
SHIPPED = Store(HERE / "no-runs")  # nothing of the user's: only what the package brings


def page(name: str) -> str:
    """One study: command, table, picture, claims."""
    study, evidence = registered_study(name), _evidence(name)
    findings = study.analyze(evidence.measured)
    verdicts = ledger([claim for claim in all_claims() if claim.study == name], SHIPPED)
    parts = [
        f"# {study.title}",
        study.about or (sys.modules[study.plan.__module__].__doc__ or "").strip(),
        f"```\n{command(name)}\nradii study show {name} --plot {name}.png\n```",
        f"{len(evidence.measured)} of {evidence.planned} cells; the runs took {evidence.duration}, "
        f"one thread each, on a busy machine (torch {evidence.environment['versions']['torch']}).",
        *([_setups(evidence)] if any(" trained by " in words for words in evidence.setups.values()) else []),
        findings.table.to_markdown(),
        *(f"![{chart.title}]({file})" for chart, file in zip(findings.charts, _names(name), strict=False)),
        *(_claims(verdicts) if verdicts else []),
    ]
    return "\n\n".join(parts) + "\n"


def _claims(verdicts: Sequence[Verdict]) -> list[str]:
    """The section on the statements of the paper that the study judges."""
    waiting = sum(verdict.status == "not run" for verdict in verdicts)
    return [
        "## Claims",
        "| | claim | measured | published | holds in |\n| --- | --- | --- | --- | --- |\n"
        + "\n".join(
            f"| {one.outcome} | {one.statement} | {_measured(one)} | {one.expected} | {_power(one)} |"
            for one in verdicts
            if one.status != "not run"
        ),
        *([f"Claims that wait for cells that were not run: {waiting}."] if waiting else []),
        "A claim that fails stays here. The last column is the share of binomial resamples of the points in which the "
        "claim holds; between 10% and 90% it is not decided. `radii claims ID` explains one.",
    ]


def _measured(verdict: Verdict) -> str:
    """What was measured, and why it decides nothing where that is so."""
    return f"{verdict.shown}: {verdict.note}" if verdict.note else verdict.shown


def _power(verdict: Verdict) -> str:
    """The share of resamples of the points in which the claim holds."""
    return "" if verdict.power is None else f"{verdict.power:.0%}"


def _setups(evidence: Evidence) -> str:
    """One setup of each network in words: the longest, which was trained and attacked or certified."""
    longest: dict[str, str] = {}
    for setup in evidence.setups.values():
        network = re.split(r" \(| trained by ", setup)[0]
        if " trained by " in setup and len(setup) > len(longest.get(network, "")):
            longest[network] = setup
    return "Setup of one training of each network:\n\n" + "\n".join(f"- {setup}." for setup in longest.values())


def pictures(name: str) -> list[Path]:
    """The study's charts beside its page."""
    study, evidence = registered_study(name), _evidence(name)
    paths = save(study, evidence, study.analyze(evidence.measured), command(name), HERE / f"{name}.png")
    for path in paths:
        Image.open(path).convert("RGB").quantize(48).save(path, optimize=True)  # flat colors need no more
    return paths


def _names(name: str) -> Iterator[str]:
    """The files of a study's charts: the first has its name, others are numbered."""
    yield f"{name}.png"
    yield from (f"{name}-{number}.png" for number in count(2))


def command(name: str) -> str:
    """The command that computes the results."""
    return f"radii study run {name} --budget cpu"


def _evidence(name: str) -> Evidence:
    evidence = results.find(name, SHIPPED, "cpu")
    if evidence is None:
        sys.exit(f"The package has no result of {name} at the cpu budget.")
    return evidence


if __name__ == "__main__":
    for chosen in sys.argv[1:] or PAGES:
        (HERE / f"{chosen}.md").write_text(page(chosen))
        print(chosen, *(path.stat().st_size for path in pictures(chosen)))
