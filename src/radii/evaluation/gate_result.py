"""The answers of a gate, with the points they rest on, and a former gate's outcomes to compare with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from radii.errors import InputError
from radii.evaluation.accuracy import Accuracy
from radii.evaluation.drop_test import Change
from radii.evaluation.floor_test import Decision
from radii.evaluation.requirement import Requirement
from radii.tables import Field, Table, Tabular, table


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
        words = {"dropped": "a significant drop", "kept": "no drop of the margin", "open": "no significant drop"}
        return f"{words[self.change]}: {self.losses} lost and {self.gains} won of {total} common points"


@dataclass(frozen=True)
class RequirementResult:
    """One requirement with its answer.

    Attributes:
        requirement: what was asked.
        floor: the answer about the floor.
        rows: of the split, in the order in which they were used.
        success: of each of these points.
        comparison: with the former result; None where there is none.
        note: why nothing is proved, if so.
    """

    requirement: Requirement
    floor: Decision
    rows: tuple[int, ...]
    success: tuple[bool, ...]
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
        """The answer in words."""
        bound = {"clean": "", "robust": "at most ", "proved": "at least "}[self.requirement.measure]
        said = f"{bound}{self.share.value:.1%} of {self.share.total} points"
        said += " is at or above the floor" if self.floor == "pass" else " is below the floor"
        said += "" if self.comparison is None else f"; {self.comparison.sentence()}"
        return f"{said}. {self.note}".strip() if self.note else f"{said}."

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
            f"Decided on {self.points:,} of {self.population:,} points in random order. A model at its floors fails in "
            f"at most {rates.alpha:.2g} of the orders; one that is {rates.margin:.2g} below a floor passes in at most "
            f"{rates.beta:.2g}."
        )

    @classmethod
    def of(cls, content: Mapping[str, Any], where: str) -> GateResult:
        """Read what :meth:`to_dict` wrote.

        Args:
            content: the JSON data.
            where: the file or run, for the sentence about one that is not of a gate.

        Raises:
            InputError: it is not the result of a gate.
        """
        try:
            results = tuple(
                RequirementResult(
                    Requirement.parse(own["requirement"]),
                    own["floor_decision"],
                    tuple(map(int, own["rows"])),
                    tuple(map(bool, own["success"])),
                    None if own["comparison"] is None else Comparison(**own["comparison"]),
                    own["note"],
                )
                for own in content["requirements"]
            )
            return cls(results, Rates(content["alpha"], content["beta"], content["margin"]), content["population"])
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
