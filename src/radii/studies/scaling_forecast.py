"""How much data a target needs: scaling curves from a study's result, a CSV or Python, and their laws."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from radii.errors import InputError, checked, reason, unknown_name
from radii.forecasting.envelope import with_median
from radii.forecasting.law import Needed, Observation, ScalingLaw, fit
from radii.spec import read_json
from radii.studies import results
from radii.studies.study import STUDIES, ScalingCurve, registered_study
from radii.tables import ChartSpec, Field, Rule, Span, Table, listing, table
from radii.untrusted_text import check_file

SHOWN = 2.0  # the axis of a chart ends at so many times the last size that the law speaks of


@dataclass(frozen=True)
class Forecast:
    """A curve, its law, and what was asked of it."""

    curve: ScalingCurve
    law: ScalingLaw
    at: tuple[float, ...] = ()
    target: float | None = None

    @property
    def title(self) -> str:
        """``mnist, 1-Lipschitz: certified accuracy at l2 1``."""
        subject = ", ".join(part for part in (self.curve.data, self.curve.model) if part)
        return ": ".join(part for part in (subject, self.curve.metric) if part)

    @property
    def needed(self) -> Needed | None:
        """The data that the target needs."""
        return None if self.target is None else self.law.needed(self.target)

    @property
    def verdict(self) -> str:
        """How far the law may speak, and what the target needs, in one or two sentences."""
        law = self.law
        if law.validated_factor > 1:
            reach = (
                f"Sizes up to {law.limit:,} can be forecast: within a factor of {law.validated_factor}, forecasts from "
                "the smaller training sets matched the larger ones."
            )
        else:
            reach = (law.refusal(2 * law.largest) or "").replace(f" at {2 * law.largest:,}:", ":")
        needed = self.needed
        if needed is None:
            return reach
        chance = f" There is a {needed.never:.0%} chance that more data never suffices."
        never = chance if needed.never >= 0.005 else ""
        return f"Reaching {needed.target:.1%} takes {needed.words}.{never} {reach}"

    def rows(self) -> list[dict[str, Any]]:
        """One row for every size asked for: the interval, or why there is none."""
        rows = []
        for n in self.at:
            row: dict[str, Any] = {"n": n, "low": None, "median": None, "high": None, "refused": self.law.refusal(n)}
            if row["refused"] is None:
                row |= with_median(self.law.predict(n))
            rows.append(row)
        return rows

    def table(self) -> Table:
        """Sizes measured with the mean over seeds, then sizes forecast or refused."""
        law = self.law
        lines = [
            (f"{int(n):,}", f"{mean:.1%}", "measured, 1 seed" if seeds == 1 else f"measured, {seeds} seeds")
            for n, mean, seeds in zip(law.sizes.n, law.sizes.mean, law.sizes.seeds, strict=True)
        ]
        for n in self.at:
            if law.refusal(n):
                lines.append((f"{n:,.0f}", "refused", f"> {law.limit:,}" if n > law.limit else f"< {law.smallest:,}"))
            else:
                at = law.predict(n)
                lines.append((f"{n:,.0f}", f"{at.value:.1%}", f"{at.low:.1%} to {at.high:.1%}"))
        return listing(self.title, ("training points", "accuracy", "90% interval"), lines)

    @property
    def finding(self) -> str:
        """The gain of the last doubling, or what the target needs, as the title of a chart."""
        law, needed = self.law, self.needed
        if needed is not None:
            return f"Reaching {needed.target:.1%} takes {needed.words}"
        if 2 * law.smallest > law.largest:
            return f"{self.title} over the number of training points"
        gain = law.doubling(law.largest / 2)
        return f"The last doubling of the data added {100 * gain.low:.1f} to {100 * gain.high:.1f} points"

    def chart(self) -> ChartSpec:
        """What was measured, the curve with its band up to the validated limit, the target, and the unknown shaded."""
        law = self.law
        sizes = sorted({*(float(n) for n in law.sizes.n), *self.at, float(law.limit)})
        size = Field("n", "training points", log=True)
        accuracy = Field("accuracy", self.curve.metric or "accuracy", percent=True, low="low", high="high")
        return ChartSpec(
            "points",
            [{"n": each["n"], "accuracy": each["value"]} for each in self.curve.observations],
            size,
            accuracy,
            title=self.finding,
            note=f"Points: measured, one for each seed. Band: 90% interval of the law. Shaded: beyond {law.limit:,} "
            "points these data say nothing.",
            fit=[self._predicted(min(n, law.limit)) for n in np.geomspace(law.smallest, law.limit, 49).tolist()],
            levels=[Rule(self.target, f"target {self.target:.1%}")] if self.target else [],
            shade=Span(law.limit, SHOWN * law.limit, "not forecast"),
            numbers=table(
                [self._predicted(n) | {"n": round(n)} for n in sizes if law.refusal(n) is None], [size, accuracy]
            ),
        )

    def _predicted(self, n: float) -> dict[str, float]:
        at = self.law.predict(n)
        return {"n": n, "accuracy": at.value, "low": at.low, "high": at.high}

    def summary(self) -> dict[str, Any]:
        """As JSON data."""
        law, needed = self.law, self.needed
        half = law.largest / 2
        return {
            "data": self.curve.data,
            "model": self.curve.model,
            "metric": self.curve.metric,
            "law": law.summary(),
            "last_doubling": None if half < law.smallest else with_median(law.doubling(half)),
            "forecasts": self.rows(),
            "needed": None if needed is None else needed.summary(),
            "verdict": self.verdict,
        }


@checked
def forecast(
    source: str | Path | ScalingCurve,
    target: float | None = None,
    *,
    at: Sequence[float] = (),
    factors: Sequence[float] = (),
    classes: int | None = None,
    test_points: int | None = None,
    ceiling: float = 1.0,
    floor: float | None = None,
) -> tuple[Forecast, ...]:
    """The law of every curve in ``source``, its forecasts, and the data that ``target`` needs.

    Args:
        source: a study's result (JSON), a CSV with the columns n, seed and value, the name of a study whose
            result exists, or a curve.
        target: the accuracy that is wanted, in [0, 1].
        at: numbers of training points to forecast.
        factors: the same, as multiples of the largest size measured.
        classes: number of classes; a CSV needs it.
        test_points: number of test points; a CSV needs it.
        ceiling: the highest accuracy that is possible.
        floor: the accuracy that curves start from; 1 / classes by default.

    Returns:
        A forecast for each curve. Sizes beyond the validated factor are refused: their rows say why.

    Raises:
        InputError: the source cannot be read or has no curves, or the target is out of range.
    """
    curves = (source,) if isinstance(source, ScalingCurve) else read_curves(source, classes, test_points)
    forecasts = []
    for curve in curves:
        observations = [Observation(int(each["n"]), int(each["seed"]), each["value"]) for each in curve.observations]
        law = fit(observations, curve.classes, curve.test_points, ceiling=ceiling, floor=floor)
        sizes = (*at, *(factor * law.largest for factor in factors))
        forecasts.append(Forecast(curve, law, tuple(dict.fromkeys(sizes)), target))
        if target is not None:
            law.needed(target)  # a bad target is reported at once
    return tuple(forecasts)


def read_curves(
    source: str | Path, classes: int | None = None, test_points: int | None = None
) -> tuple[ScalingCurve, ...]:
    """The scaling curves of a file or of a study by name.

    Args:
        classes: number of classes; only for a CSV.
        test_points: number of test points; only for a CSV.
    """
    path = Path(source)
    if path.suffix.lower() == ".csv":
        return (_from_csv(path, classes, test_points),)
    if path.suffix.lower() == ".json":
        return _from_json(path)
    return _from_study(str(source))


def _from_study(name: str) -> tuple[ScalingCurve, ...]:
    if name not in STUDIES:
        raise unknown_name(
            "study", name, STUDIES, "A forecast also reads a study's .json, or a .csv of n, seed, value."
        )
    evidence = results.find(name)
    if evidence is None:
        raise InputError(f"The study {name} has no result yet; run `radii study run {name}`.")
    curves = registered_study(name).analyze(evidence.measured).scaling
    if not curves:
        raise InputError(f"The study {name} has no curve over the number of training points; data-scaling has.")
    return curves


def _from_json(path: Path) -> tuple[ScalingCurve, ...]:
    curves = read_json(path, "a JSON file of scaling curves").get("scaling")
    if not isinstance(curves, list) or not curves:
        raise InputError(f"{path} has no scaling curves: a list under 'scaling' is expected, as data-scaling writes.")
    return tuple(_curve(each, f"{path}, curve {number}") for number, each in enumerate(curves, 1))


def _curve(content: Any, where: str) -> ScalingCurve:
    try:
        return ScalingCurve(
            str(content.get("data", "")),
            str(content.get("model", "")),
            str(content.get("metric", "")),
            int(content["classes"]),
            int(content["test_points"]),
            tuple(_observation(each, where) for each in content["observations"]),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{where} needs classes, test_points and observations of n, seed, value: {error!r}."
        ) from error


def _observation(row: Mapping[str, Any], where: str) -> Mapping[str, float]:
    try:
        return {"n": float(row["n"]), "seed": float(row.get("seed") or 0), "value": float(row["value"])}
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{where} needs numbers n, seed and value in every row, got {dict(row)}.") from error


def _from_csv(path: Path, classes: int | None, test_points: int | None) -> ScalingCurve:
    if classes is None or test_points is None:
        raise InputError(
            f"{path.name} does not say how many classes and test points there were; add --classes and --test-points."
        )
    check_file(path)
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is not a readable CSV file: {reason(error)}.") from error
    if not rows or not {"n", "value"} <= set(rows[0]):
        raise InputError(f"{path} needs a header with the columns n, seed, value and a row for every training.")
    observations = tuple(_observation(row, f"{path}, line {number}") for number, row in enumerate(rows, 2))
    return ScalingCurve(path.stem, "", "accuracy", classes, test_points, observations)
