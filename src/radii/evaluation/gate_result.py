"""The answers of a gate, with the points they rest on, and a former gate's outcomes to compare with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from radii.errors import InputError
from radii.evaluation._sequential_tests import Change, Decision, FloorTest
from radii.evaluation.accuracy import Accuracy
from radii.evaluation.requirement import Requirement
from radii.tables import Field, Table, Tabular, table

COUNTED = {
    "clean": "{:,} of {:,} points are classified correctly",
    "robust": "attacks left {:,} of {:,} points unbroken",
    "proved": "{:,} of {:,} points are proved correct",
    "corrupted": "{:,} of {:,} corrupted points are classified correctly",
}


@dataclass(frozen=True)
class Rates:
    """How sure a gate is.

    Attributes:
        alpha: probability at most that a build fails although every share is at its floor and none has dropped.
        beta: probability at most that a share below its floor by the margin passes, or that a drop of the margin
            is called none.
        margin: width of the zone below a floor in which either answer may come.
    """

    alpha: float = 0.05
    beta: float = 0.05
    margin: float = 0.05


@dataclass(frozen=True)
class Former:
    """Outcomes of a former gate: for each subject, rows of the split and whether each was a success."""

    outcomes: Mapping[str, Mapping[int, bool]]

    @classmethod
    def of(cls, result: GateResult) -> Former:
        """The outcomes of a former gate."""
        return cls({own.requirement.subject: dict(zip(own.rows, own.success, strict=True)) for own in result.results})

    def among(self, rows: Collection[int]) -> Former:
        """The outcomes of these rows alone."""
        return Former({name: {row: own[row] for row in own if row in rows} for name, own in self.outcomes.items()})

    @property
    def rows(self) -> tuple[int, ...]:
        """The rows that any subject has, in their order."""
        return tuple(dict.fromkeys(row for own in self.outcomes.values() for row in own))


@dataclass(frozen=True)
class Comparison:
    """What became of the points that the former result has."""

    change: Change
    losses: int
    gains: int
    equal: int

    def sentence(self) -> str:
        """In words."""
        total = self.losses + self.gains + self.equal
        words = {
            "dropped": "a significant drop",
            "kept": "no drop as large as the margin",
            "open": "no significant drop",
        }
        return f"{words[self.change]}: {self.losses} lost and {self.gains} won of {total} common points"


@dataclass(frozen=True)
class RequirementResult:
    """One requirement with its answer.

    Attributes:
        requirement: what was asked.
        floor: the answer about the floor.
        rows: of the split, in the order in which they were used.
        success: of each of these points.
        population: points to which the floor refers; those used are a random part of them.
        rates: how sure the answer is.
        comparison: with the former result; None where there is none.
        note: why nothing is proved, if so.
    """

    requirement: Requirement
    floor: Decision
    rows: tuple[int, ...]
    success: tuple[bool, ...]
    population: int
    rates: Rates
    comparison: Comparison | None = None
    note: str = ""

    @property
    def passed(self) -> bool:
        """Whether the share is at its floor and has not dropped."""
        return self.floor == "pass" and (self.comparison is None or self.comparison.change != "dropped")

    @property
    def share(self) -> Accuracy:
        """The share among the points used. It is an estimate after a stop that depends on it."""
        return Accuracy(sum(self.success), len(self.success))

    def sentence(self) -> str:
        """The answer in whole sentences: what was counted, what is required, and how sure the answer is."""
        counted = (
            f"{COUNTED[self.requirement.measure].format(self.share.correct, self.share.total)}; {self._certainty()}"
        )
        against, said = self.comparison, counted
        if against is not None and against.change == "dropped":
            floor = "passed" if self.floor == "pass" else "failed, too"
            said = f"{against.sentence()}. The floor is {floor}: {counted}"
        elif against is not None:
            said = f"{counted} Against the former result there is {against.sentence()}."
        return f"{'pass' if self.passed else 'FAIL'}: {said} {self.note}".strip()

    def _certainty(self) -> str:
        """What is required of the counts, exactly if they decide it, else with the error rate of the test."""
        floor, rates = self.requirement.floor, self.rates
        test = FloorTest(self.population, floor, rates.margin)
        if test.known(self.share.correct, self.share.total - self.share.correct) == self.floor:
            return f"{test.enough:,} of all {self.population:,} points are required."
        required = f"{_percent(floor)} of all {self.population:,} points are required"
        if self.floor == "fail":
            other, rate = f"A model that reaches {_percent(floor)} fails", rates.alpha
        else:
            other, rate = f"A model that reaches only {_percent(floor - rates.margin)} passes", rates.beta
            if self.share.value < floor:
                required += f", and this is within the margin of {100 * rates.margin:.4g} points"
        return f"{required}. {other} with a probability of {_percent(rate)} or less."

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "requirement": str(self.requirement),
            "subject": self.requirement.subject,
            "floor": self.requirement.floor,
            "passed": self.passed,
            "floor_decision": self.floor,
            "share": self.share.summary(),
            "comparison": None if self.comparison is None else asdict(self.comparison),
            "note": self.note,
            "rows": list(self.rows),
            "success": [int(value) for value in self.success],
        }


@dataclass(frozen=True, repr=False)
class GateResult(Tabular):
    """The answers of a gate."""

    results: tuple[RequirementResult, ...]
    rates: Rates
    population: int

    @property
    def passed(self) -> bool:
        """Whether every requirement passed."""
        return all(result.passed for result in self.results)

    @property
    def points(self) -> int:
        """Points that were looked at."""
        return max(len(result.rows) for result in self.results)

    def table(self, title: str = "") -> Table:
        """One line for each requirement."""
        rows = [
            {
                "requirement": str(result.requirement),
                "answer": "pass" if result.passed else "FAIL",
                "share": result.share.value,
                "points": result.share.total,
                "compared": "" if result.comparison is None else result.comparison.sentence(),
            }
            for result in self.results
        ]
        fields: list[Field | str] = ["requirement", "answer", Field("share", "share seen", percent=True), "points"]
        if any(result.comparison for result in self.results):
            fields.append(Field("compared", "against the former result"))
        return table(rows, fields, title, self.promise())

    def __repr__(self) -> str:
        good = sum(own.passed for own in self.results)
        return (
            f"GateResult({'passed' if self.passed else 'failed'}: {good} of {len(self.results)}, {self.points} points)"
        )

    def promise(self) -> str:
        """What the error rates mean, in words."""
        rates = self.rates
        return (
            f"Decided on {self.points:,} of {self.population:,} points in random order. A model that just meets its "
            f"floors is rejected with a probability of {_percent(rates.alpha)} or less; one that is "
            f"{100 * rates.margin:.4g} percentage points below a floor passes with a probability of "
            f"{_percent(rates.beta)} or less."
        )

    @classmethod
    def of(cls, content: Mapping[str, Any], where: str) -> GateResult:
        """Read what :meth:`to_dict` wrote."""
        try:
            population, rates = content["population"], Rates(content["alpha"], content["beta"], content["margin"])
            results = tuple(
                RequirementResult(
                    Requirement.parse(own["requirement"]),
                    own["floor_decision"],
                    tuple(map(int, own["rows"])),
                    tuple(map(bool, own["success"])),
                    population,
                    rates,
                    None if own["comparison"] is None else Comparison(**own["comparison"]),
                    own["note"],
                )
                for own in content["requirements"]
            )
            return cls(results, rates, population)
        except (KeyError, TypeError, ValueError):
            raise InputError(f"{where} is not the result of radii gate --json.") from None

    def to_dict(self) -> dict[str, Any]:
        """As JSON data; :meth:`of` reads it back."""
        return {
            "passed": self.passed,
            "points": self.points,
            "population": self.population,
            **asdict(self.rates),
            "requirements": [result.to_dict() for result in self.results],
        }


def _percent(share: float) -> str:
    return f"{100 * share:.4g}%"
