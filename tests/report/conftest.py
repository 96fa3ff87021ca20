"""A report of synthetic but realistic values: the composition of `radii assess digits`."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from radii.report import html
from radii.report.galleries import Example, Gallery, Picture, data_uri, perturbation
from radii.report.html import Card, Cards, Commands, Report, Section
from radii.tables import ChartSpec, Field, Rule, Span, table

POINTS = 360
ACCURACY = Field("accuracy", percent=True, low="low", high="high")
RADIUS = Field("radius", "L2 radius")
INJECTED = "<img src=x onerror=alert(1)>"


def interval(share: float, n: int = POINTS) -> dict[str, float]:
    """A 95% Wilson interval, as the metrics give it."""
    z = 1.96
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return {"low": middle - half, "high": middle + half}


def bracket_rows() -> list[dict]:
    """Certified and attacked accuracy over the radius for both models."""
    rows = []
    for model, clean, proved, broken in (("standard", 0.986, 0.05, 0.46), ("1-Lipschitz", 0.964, 0.62, 0.93)):
        for radius in np.linspace(0, 2, 61):
            for kind, scale in (("certified", proved), ("attacked", broken)):
                share = clean / (1 + math.exp((radius - scale) / (0.22 * scale))) * (1 + math.exp(-1 / 0.22))
                rows.append({"radius": radius, "accuracy": share, "model": model, "bound": kind, **interval(share)})
    return rows


def separation() -> ChartSpec:
    """The data audit: distances to the nearest point of another class."""
    rng = np.random.default_rng(0)
    rows = [{"distance": value, "split": "train"} for value in rng.gamma(22, 0.105, 1437)]
    rows += [{"distance": value, "split": "test to train"} for value in rng.gamma(21, 0.108, 360)]
    least = min(row["distance"] for row in rows)
    return ChartSpec(
        "histogram",
        rows,
        Field("distance", "L2 distance to the nearest point of another class"),
        series="split",
        title=f"Digits of different classes are at least {least:.2f} apart, so ε = 0.5 can be had without error",
        note="A classifier without error within ε exists on these points when they are at least 2ε apart.",
        rules=[Rule(1.0, "2ε = 1"), Rule(least, f"smallest {least:.2f}")],
    )


def bracket() -> ChartSpec:
    """Certified and attacked accuracy over the radius."""
    rows = bracket_rows()
    proved = {row["model"]: row["accuracy"] for row in rows if row["bound"] == "certified" and row["radius"] == 0.5}
    return ChartSpec(
        "curves",
        rows,
        RADIUS,
        ACCURACY,
        "model",
        dash="bound",
        title=f"At ε = 0.5 the 1-Lipschitz network is proved right on {proved['1-Lipschitz']:.0%} of the digits, "
        f"the standard one on {proved['standard']:.0%}",
        note="Solid: proved, whatever the attack. Dashed: what the attacks left standing. The truth lies between.",
        rules=[Rule(0.5, "ε = 0.5")],
    )


def training() -> ChartSpec:
    rows = [
        {"epoch": epoch, "accuracy": 0.99 - gap * math.exp(-epoch / pace), "model": model, "split": split}
        for model, pace in (("standard", 3.0), ("1-Lipschitz", 5.0))
        for split, gap in (("train", 0.85), ("test", 0.9))
        for epoch in range(1, 31)
    ]
    return ChartSpec(
        "curves", rows, Field("epoch"), Field("accuracy", percent=True), "model", dash="split",
        title="Both classifiers have converged after twenty epochs",
    )  # fmt: skip


def per_class(classes: list[str]) -> list[dict]:
    rng = np.random.default_rng(1)
    rows = []
    for number, name in enumerate(classes):
        clean, proved = 0.95 + 0.05 * rng.random(), 0.4 + 0.4 * rng.random()
        ends = {f"clean_{end}": value for end, value in interval(clean, 36).items()}
        rows.append({
            "class": name, "points": 35 + number % 3, "clean": clean, **ends, "certified": proved,
            "attacked": proved + 0.15 * rng.random(), "radius": 0.4 + 0.5 * rng.random(),
        })  # fmt: skip
    return rows


def worst_examples(name: str) -> Gallery:
    rng = np.random.default_rng(2)
    examples = []
    for number in range(6):
        across, down = np.meshgrid(np.linspace(-1, 1, 8), np.linspace(-1, 1, 8))
        ring = np.exp(-((np.hypot(across, down * (0.6 + 0.1 * number)) - 0.6) ** 2) / 0.05)
        clean = np.clip(ring, 0, 1)[None]
        broken = np.clip(clean + 0.12 * rng.standard_normal((1, 8, 8)), 0, 1)
        strip = (
            Picture(data_uri(clean), f"{name}, clean"),
            Picture(perturbation(clean, broken), "perturbation ×6"),
            Picture(data_uri(broken), "read as 3"),
        )
        examples.append(
            Example(f"Test point {17 * number + 4}", strip, f"proved 0.0{number + 1} ≤ true ≤ 0.{number + 2}1")
        )
    return Gallery(
        "The six points that break first", tuple(examples), "Smallest perturbation found on the 1-Lipschitz network."
    )


def demo(first_class: str = "0") -> Report:
    """Exactly the content of the assessment: headline, audit, training, bracket, classes, examples, reproduction."""
    classes = [first_class, *"123456789"]
    share = {"percent": True}
    runs = [
        {
            "model": "standard (LeNet-5)",
            "parameters": 61_706,
            "seconds": 9.4,
            "train": 1.0,
            "test": 0.986,
            **interval(0.986),
        },
        {
            "model": "1-Lipschitz (AOL)",
            "parameters": 118_282,
            "seconds": 31.2,
            "train": 0.991,
            "test": 0.964,
            **interval(0.964),
        },
    ]
    columns = ["model", "parameters", Field("seconds", "CPU seconds"), Field("train", "train accuracy", **share)]
    columns.append(Field("test", "test accuracy", low="low", high="high", **share))
    radii = (
        Card("proved", "0.62", "median radius no attack can break", "proved", "≤"),
        Card("true", "?", "the radius nobody can compute", "true", "≤"),
        Card("broken", "0.93", "median radius of the best attack", "broken"),
        Card("possible", "1.08", "half the separation of the data", "possible"),
    )
    by_class = [
        "class",
        "points",
        Field("clean", low="clean_low", high="clean_high", **share),
        Field("certified", "certified at 0.5", **share),
        Field("attacked", "attacked at 0.5", **share),
        Field("radius", "median proved radius"),
    ]
    reproduce = Commands(
        ("pip install radii", "radii assess digits --threat l2:0.5 --seed 0 --out report.html"),
        {"radii": "0.1.0", "torch": "2.13.0", "python": "3.11.7", "seed": "0", "threads": "1"},
    )
    return Report(
        title="How robust is a classifier of digits?",
        subtitle="digits · 1,797 images of 8×8 pixels in 10 classes · threat L2, ε = 0.5",
        verdict="The 1-Lipschitz network is proved right on 69% of the test digits within ε = 0.5 and attacks leave "
        "88%; the standard network has no proof and keeps 41%. The data would allow 100%.",
        headline=(Cards(radii, "Median radius of the 1-Lipschitz network"),),
        sections=(
            Section("What the data allows", (separation(),), "Before any model: how far apart the classes are."),
            Section("Two classifiers", (table(runs, columns, "A standard and a 1-Lipschitz classifier"), training())),
            Section("Between proved and broken", (bracket(),), "Accuracy on 360 test digits, with 95% intervals."),
            Section("Class by class", (table(per_class(classes), by_class, "The 1-Lipschitz network by class"),)),
            Section("Worst examples", (worst_examples(first_class),)),
            Section("How to reproduce", (reproduce,)),
        ),
    )


def every_chart(name: str = "a") -> tuple[ChartSpec, ...]:
    """Ten charts with every kind and every option."""
    rng = np.random.default_rng(3)
    sizes = [2**k for k in range(6, 14)]
    law = [
        {"n": n, "error": a * n**-b, "low": 0.9 * a * n**-b, "high": 1.1 * a * n**-b, "method": method}
        for method, a, b in (("natural", 2.0, 0.5), (name, 3.0, 0.35))
        for n in sizes
    ]
    axes = (Field("n", "training points", log=True), Field("error", percent=True, log=True, low="low", high="high"))
    spectrum = [{"component": k, "variance": k**-1.4, "dataset": name} for k in range(1, 800, 3)]
    classes = [
        {
            "class": name if k == 9 else str(k),
            "model": model,
            "accuracy": 0.8 + 0.02 * k,
            **interval(0.8 + 0.02 * k, 36),
        }
        for k in range(10)
        for model in ("standard", "1-Lipschitz")
    ]
    cloud = [{"clean": x, "robust": x - 0.3 * y} for x, y in rng.random((1000, 2))]
    stairs = [{"radius": r, "accuracy": max(0, 0.95 - 0.4 * r)} for r in np.linspace(0, 2, 25)]
    clean, robust, label = Field("clean", percent=True), Field("robust", percent=True), Field("class")
    decay = (Field("component", log=True), Field("variance", log=True))
    accuracy = Field("accuracy", percent=True)
    band = [{**row, "n": 1.0 * row["n"]} for row in law]
    measured = [{"n": row["n"], "error": row["error"], "method": row["method"]} for row in law]
    return (
        separation(),
        bracket(),
        training(),
        ChartSpec("points", law, *axes, "method", "Error falls as a power of the number of points", "log-log", fit=law),
        ChartSpec("curves", spectrum, *decay, "dataset", "Variance falls like a power of the component"),
        ChartSpec("bars", classes, label, ACCURACY, "model", "Ones are hardest", levels=[Rule(0.9, "goal 90%")]),
        ChartSpec("points", cloud, clean, robust, title="Robust accuracy trails clean accuracy"),
        ChartSpec("curves", stairs, RADIUS, accuracy, step=True, title="Certified accuracy is a staircase"),
        ChartSpec("histogram", cloud, robust, title="One series needs no legend", bins=20),
        ChartSpec(
            "points", measured, *axes, "method", "A law with its band", fit=band, shade=Span(8192, 16384, "unknown")
        ),
    )


@pytest.fixture(scope="session")
def demo_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo report on disk, with a class name that tries to run a script."""
    return html.write(demo(INJECTED), tmp_path_factory.mktemp("demo") / "report.html")


@pytest.fixture(scope="session")
def dozen_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with a dozen charts, hostile names among their series and classes."""
    report = Report("A dozen charts", (Section("All", every_chart("</script>" + INJECTED)),))
    return html.write(report, tmp_path_factory.mktemp("dozen") / "dozen.html")


@pytest.fixture(scope="session")
def every() -> tuple[ChartSpec, ...]:
    """Every kind of chart with every option."""
    return every_chart()
