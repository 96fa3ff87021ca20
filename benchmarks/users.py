"""From nothing to the report, as each kind of user would do it: the commands, their CPU seconds, the lines written.

Every persona has an empty folder, an empty cache and an empty store. What it brings (photos, weights, a table) is made
before the clock starts; what it types is what the guide tells it. A command that fails ends the benchmark.
"""

from __future__ import annotations

import os
import resource
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness import Figure, Run, figure, main

SOURCE = Path(__file__).parents[1] / "src"
NETWORK = """
from torch import nn

def network(num_classes=2):
    head = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, num_classes))
    return nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU(), head)
"""
FOREST = """
import radii
from sklearn.ensemble import RandomForestClassifier

def forest():
    train = radii.load("patients.csv+label:ill").train
    return RandomForestClassifier(50, random_state=0).fit(train.x, train.y)
"""
SCRIPT = """
import radii, torch
from net import network

model = network(); model.load_state_dict(torch.load("weights.pth"))
x, y = radii.load("photos+resize:32").test.tensors()
scores = radii.evaluate(radii.Classifier(model, mean=0.5, std=0.5), x, y, "linf:2/255")
print(scores)
Path("report.html").write_text(scores._repr_html_())
"""
QUICK = {
    "assess": "--points 20 --suite pgd --epochs 1 --workers 0",
    "evaluate": "--points 20 --suite pgd",
    "gate": "--points 40 --suite pgd",
    "audit": "--quick",
}


@dataclass(frozen=True)
class Persona:
    """A kind of user.

    Args:
        brings: makes the files that it has.
        types: its command lines; ``python`` stands for this interpreter.
        gets: a file that must be there in the end.
        lines: lines of Python that it writes for radii's sake.
    """

    brings: Callable[[Path], None]
    types: tuple[str, ...]
    gets: str = "report.html"
    lines: int = 0


def photos(folder: Path) -> None:
    """Two classes of 150 photos of two sizes: bright above, bright below, with noise."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for name, top in (("cats", 180), ("dogs", 80)):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(150):
            side = 48 if number % 2 else 60
            halves = np.repeat([top, 260 - top], side // 2)[:, None, None]
            pixels = np.clip(halves + rng.normal(0, 30, (side, side, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / "photos" / name / f"{number:03}.jpg")


def photos_and_weights(folder: Path) -> None:
    """The photos, a network in ``net.py`` and its weights, trained on pixels in [-1, 1]."""
    photos(folder)
    (folder / "net.py").write_text(NETWORK)
    training = (
        "import radii, torch; from net import network\n"
        "x, y = radii.load('photos+resize:32').train.tensors(); torch.manual_seed(0); model = network()\n"
        "optimizer = torch.optim.Adam(model.parameters(), 1e-2)\n"
        "for _ in range(40):\n"
        "    optimizer.zero_grad()\n"
        "    torch.nn.functional.cross_entropy(model(2 * x - 1), y).backward(); optimizer.step()\n"
        "torch.save(model.state_dict(), 'weights.pth')\n"
    )
    subprocess.run([sys.executable, "-c", training], cwd=folder, env=environment(folder, "before"), check=True)


def graph(folder: Path) -> None:
    """An ONNX file of a network of the digits, made by torch's exporter."""
    making = (
        "import radii, torch; from torch import nn\n"
        "x, y = radii.load('digits').train.tensors(); torch.manual_seed(0)\n"
        "model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))\n"
        "optimizer = torch.optim.Adam(model.parameters(), 1e-2)\n"
        "for _ in range(100):\n"
        "    optimizer.zero_grad(); torch.nn.functional.cross_entropy(model(x), y).backward(); optimizer.step()\n"
        "torch.onnx.export(model.eval(), (x[:1],), 'model.onnx', dynamo=True, verbose=False)\n"
    )
    subprocess.run(
        [sys.executable, "-c", making], cwd=folder, env=environment(folder, "before"), check=True, capture_output=True
    )


def table(folder: Path) -> None:
    """A CSV of patients: numbers, a word, and what is to be predicted."""
    rng = np.random.default_rng(0)
    rows = ["age,pressure,smokes,ill"]
    for _ in range(600):
        age, pressure, smokes = rng.normal(50, 15), rng.normal(130, 20), rng.random() < 0.3
        ill = (age - 50) / 15 + (pressure - 130) / 20 + smokes + rng.normal(0, 0.7) > 0.5
        rows.append(f"{age:.1f},{pressure:.0f},{'yes' if smokes else 'no'},{'ill' if ill else 'well'}")
    (folder / "patients.csv").write_text("\n".join(rows) + "\n")


def table_and_forest(folder: Path) -> None:
    """The table and a function that fits a forest to it."""
    table(folder)
    (folder / "forest.py").write_text(FOREST)


def script(folder: Path) -> None:
    """The photos, the network and a script, as a cell of a notebook has it."""
    photos_and_weights(folder)
    (folder / "cell.py").write_text("from pathlib import Path\n" + SCRIPT)


def snapshot(folder: Path) -> None:
    """A dataset as the Hugging Face hub has it: parquet files and a card with the names of the classes."""
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq
    from PIL import Image

    photos(folder)
    rows: dict[str, list[object]] = {"image": [], "label": []}
    for label, name in enumerate(("cats", "dogs")):
        for file in sorted((folder / "photos" / name).iterdir()):
            content = io.BytesIO()
            Image.open(file).resize((32, 32)).save(content, "PNG")
            rows["image"].append({"bytes": content.getvalue(), "path": file.name})
            rows["label"].append(label)
    (folder / "pets" / "data").mkdir(parents=True)
    pq.write_table(pa.table(rows), folder / "pets" / "data" / "train-00000-of-00001.parquet")
    names = "{'0': cats, '1': dogs}"
    feature = f"{{name: label, dtype: {{class_label: {{names: {names}}}}}}}"
    card = f"---\ndataset_info:\n  features:\n  - {feature}\n---\n"
    (folder / "pets" / "README.md").write_text(card)


MINE = "--weights weights.pth --mean 0.5 --std 0.5"
PERSONAS = {
    "a folder of photos": Persona(photos, ("radii assess photos+resize:32",)),
    "weights (.pth) and net.py:network": Persona(
        photos_and_weights, (f"radii assess photos+resize:32 --model net.py:network {MINE} --no-references",)
    ),
    "a table with a label column": Persona(table, ("radii assess patients.csv --label ill",)),
    "a scikit-learn estimator": Persona(
        table_and_forest, ("radii assess patients.csv --label ill --model forest.py:forest --no-references",)
    ),
    "an ONNX file": Persona(graph, ("radii assess digits --model model.onnx --no-references",)),
    "a dataset of the hub": Persona(snapshot, ("radii datasets hf:pets", "radii assess hf:pets")),
    "a notebook": Persona(script, ("python cell.py",), lines=3),
    "a gate in CI": Persona(
        photos_and_weights,
        (f"radii gate net.py:network photos+resize:32 {MINE} --require 'clean>=0.8' "
         "--require 'robust(linf:1/255)>=0.5' --junit gate.xml",),
        "gate.xml",
    ),
    "only the data, first": Persona(photos, ("radii audit photos+resize:224 --plot report.html",)),
}  # fmt: skip


def environment(folder: Path, cache: str) -> dict[str, str]:
    """Variables of a new machine: its own cache and store."""
    own = {"RADII_CACHE": str(folder / cache), "RADII_RUNS": str(folder / "runs"), "PYTHONPATH": str(SOURCE)}
    path = os.pathsep.join([str(SOURCE), str(folder)])
    return {**os.environ, **own, "PYTHONPATH": path, "TERM": "dumb"}


def run_as(name: str) -> Run:
    """The benchmark of one persona."""

    def run(quick: bool) -> list[Figure]:
        own = PERSONAS[name]
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            own.brings(folder)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            for line in own.types:
                print(f"\n{name}: {line}", file=sys.stderr)
                words = shlex.split(line)
                words += shlex.split(QUICK.get(words[1], "")) if quick else []
                program = [sys.executable, "-m", "radii.cli.main"] if words[0] == "radii" else [sys.executable]
                done = subprocess.run(
                    [*program, *words[1:]], cwd=folder, env=environment(folder, "cache"), capture_output=True, text=True
                )
                if done.returncode:
                    raise SystemExit(f"{name} stumbles at {line}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            if not (folder / own.gets).stat().st_size:
                raise SystemExit(f"{name} gets no {own.gets}.")
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return [
            figure(f"{name}: CPU seconds", seconds),
            figure(f"{name}: command lines", float(len(own.types)), 2),
            figure(f"{name}: lines of Python", float(own.lines), 3),
        ]

    return run


if __name__ == "__main__":
    main({name: run_as(name) for name in PERSONAS})
