# ruff: noqa: E501
"""Broken files of every format that radii reads, and the commands that read them."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np

from campaign import valid_files


def npz(draw: Random) -> bytes:
    """An .npz with a mistake."""
    n = draw.choice((0, 1, 5, 20))
    x: object = draw.choice(
        (
            np.zeros((n, 8, 8)), np.full((n, 8, 8), np.nan), np.zeros((n, 0)), np.zeros((n, 3, 4, 5, 6)), np.zeros(n),
            np.array([{}] * n, dtype=object), np.full((n, 4), 1e30), np.full((n, 4), -3), np.zeros((n, 4), dtype=complex),
            np.array(["a"] * max(n, 1)), np.zeros((n, 8, 8), dtype=np.uint8), np.zeros((n, 4), dtype=np.float16),
        )
    )  # fmt: skip
    y: object = draw.choice(
        (
            np.zeros(n),
            np.arange(n),
            np.full(n, -1),
            np.full(n, np.nan),
            np.zeros((n, 10)),
            np.array([None] * n),
            np.zeros(n + 1),
        )
    )
    out = io.BytesIO()
    np.savez(
        out,
        **draw.choice(
            ({"x": x, "y": y}, {"x": x}, {"y": y}, {"x_train": x, "y_train": y}, {}, {"x": x, "y": y, "classes": x})
        ),
    )
    return out.getvalue()


def parquet(draw: Random) -> bytes:
    """A parquet file with a mistake."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, list[object]] = draw.choice(
        (
            {"image": [b"not an image"] * 3, "label": [0, 1, 0]}, {"image": [None, None], "label": [0, 1]}, {"label": [1, 2]},
            {"image": [{"bytes": b"", "path": "x"}], "label": [0]}, {"a": [1.0, float("nan")], "label": ["x", "y"]}, {},
            {"image": [1, 2], "label": [0, 1]}, {"image": ["text"] * 2, "label": [0, None]},
        )
    )  # fmt: skip
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def toml(draw: Random) -> bytes:
    """A study file with a mistake."""
    return draw.choice(
        (
            'name = "x"\ndata = 3\n', 'name = "a b"\n', "= 3", "name = 1\n", 'name = "x"\ndata = ["digits"]\n[[method]]\nname = "os:system"\n',
            'name = "x"\ndata = ["nowhere.npz"]\n', 'name = "x"\ndata = ["digits"]\n[settings]\nepochs = "many"\n',
            "[" * 2000, 'name = "x"\nseeds = [1.5]\n', 'name="x"\ndata=["digits"]\n[measure.nothing]\n', "\x00\x01",
            'name="x"\ndata=["digits"]\n[[model]]\nname="builtins:exec"\n',
        )
    ).encode()  # fmt: skip


def as_json(draw: Random) -> bytes:
    """JSON of a wrong shape."""
    content = draw.choice(
        ("{}", "[]", "null", "3", '"x"', '{"scaling": 3}', '{"scaling": [{}]}', "{", "[" * 5000, '{"a": NaN}', "\xff")
    )
    return content.encode("latin-1")


def csv(draw: Random) -> bytes:
    """A curve with a mistake."""
    return draw.choice(
        (
            "",
            "n,seed,value\n",
            "n,seed,value\n1,0,0.5\n",
            "n;value\n1;2\n",
            "n,seed,value\na,b,c\n",
            "n,seed,value\n1,0,nan\n",
            "\x00",
        )
    ).encode()


def safetensors(draw: Random) -> bytes:
    """Weights with a header that lies."""
    header = draw.choice(
        (
            b"{}", b"[]", b'{"w": {"dtype": "F32", "shape": [9999999999], "data_offsets": [0, 4]}}', b"x" * 50,
            b'{"w": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}}', b'{"w": 3}',
        )
    )  # fmt: skip
    return struct.pack("<Q", draw.choice((len(header), 2**60, 0))) + header + b"\0" * 4


def garbage(draw: Random) -> bytes:
    """Bytes."""
    return draw.randbytes(draw.choice((0, 1, 100, 5000)))


def vnnlib(draw: Random) -> bytes:
    """A property with a mistake."""
    lines = valid_files.PROPERTY.splitlines()
    odd = draw.choice(
        (
            "(assert (<= X_0 nan))", "(assert (<= X_0 1e999))", "(assert (>= X_0 2))", "(assert (<= X_7 1))", "(assert", "))", "(assert (<= Y_0 X_0))",
            "(declare-const Y_99999999999 Real)", "(declare-const X_99999999999 Real)", "(assert (<= (* Y_0 Y_1) 0))", "(" * 5000, "\x1b[31m", "(assert (or))",
            "(assert (and (<= Y_0 0) (or (<= Y_1 0) (>= Y_1 0))))" * 20,
        )
    )  # fmt: skip
    if draw.random() < 0.7:
        lines.insert(draw.randrange(len(lines) + 1), odd)
    else:
        lines.pop(draw.randrange(len(lines)))
    return "\n".join(lines).encode()


def instances(draw: Random) -> bytes:
    """A list of properties with a mistake."""
    return draw.choice(
        ("", "a", "net.onnx,prop.vnnlib", "net.onnx,prop.vnnlib,abc", "net.onnx,prop.vnnlib,-1", "x.onnx,y.vnnlib,5", ",,,", "\x00")
    ).encode()  # fmt: skip


def of_run(name: str) -> Callable[[Random], bytes]:
    """A file of a true run; :func:`stage` cuts it or changes a byte, and puts the others beside it."""
    return lambda draw: next(content for path, content in valid_files.run_folder().items() if path.endswith("/" + name))


VERIFY = ["verify", "net.onnx", "prop.vnnlib", "--seconds", "3"]
RUN_COMMANDS = [
    ["runs"],
    ["runs", "check"],
    ["runs", "show", "train-"],
    ["evaluate", "train-", "digits", "--threat", "l2:0.1", "--points", "20"],
]
MAKERS: dict[str, tuple[Callable[[Random], bytes], list[list[str]]]] = {
    "data.npz": (npz, [["audit", "data.npz", "--quick"], ["train", "data.npz", "epochs=1"]]),
    "data.parquet": (parquet, [["audit", "data.parquet", "--quick"]]),
    "photos/a/1.png": (garbage, [["audit", "photos", "--quick"]]),
    "study.toml": (toml, [["study", "run", "study.toml", "--dry-run"], ["study", "show", "study.toml"]]),
    "curve.json": (as_json, [["forecast", "curve.json", "--target", "0.7"]]),
    "curve.csv": (csv, [["forecast", "curve.csv", "--classes", "10", "--test-points", "100"]]),
    "bundle/model.json": (as_json, [["evaluate", "bundle", "digits", "--threat", "l2:0.1"]]),
    "weights.safetensors": (
        safetensors,
        [["evaluate", "radii.models.zoo.mlp:MLP", "digits", "--weights", "weights.safetensors", "--threat", "l2:0.1"]],
    ),
    "net.onnx": (garbage, [["evaluate", "net.onnx", "digits", "--threat", "l2:0.1"], ["certify", "net.onnx", "digits"]]),
    "net.onnx ": (lambda draw: valid_files.onnx(64, 10), [["evaluate", "net.onnx", "digits", "--threat", "l2:0.1", "--suite", "fast", "--points", "20"], ["certify", "net.onnx", "digits", "--points", "5"]]),
    "net.onnx  ": (lambda draw: valid_files.onnx(), [VERIFY]),
    "prop.vnnlib": (vnnlib, [VERIFY]),
    "list.csv": (instances, [["verify", "--instances", "list.csv", "--workers", "0"]]),
    "photos/a/1.png ": (lambda draw: valid_files.png(), [["audit", "photos", "--quick"]]),
    **{f"run {name}": (of_run(name), RUN_COMMANDS) for name in ("spec.json", "result.json", "env.json", "model.safetensors", "manifest.json")},
    "net.pt2": (garbage, [["evaluate", "net.pt2", "digits", "--threat", "l2:0.1"]]),
    "net.pt": (garbage, [["evaluate", "net.pt", "digits", "--threat", "l2:0.1"]]),
    "config.toml": (toml, [["train", "digits", "--config", "config.toml", "epochs=1"]]),
    "runs/runs/train-00000000000000000000/result.json": (as_json, [["runs"], ["runs", "show", "train-00"], ["runs", "compare", "train-00", "train-00"]]),
    "runs/runs/train-00000000000000000001/spec.json": (as_json, [["runs"], ["runs", "check"], ["evaluate", "train-00", "digits", "--threat", "l2:0.1"]]),
}  # fmt: skip


ALWAYS_BROKEN = ("net.onnx ", "net.onnx  ", "photos/a/1.png ", "run")  # valid before they are cut


def stage(seed: int, folder: Path) -> list[str]:
    """Write one broken file into ``folder``; the command that reads it."""
    draw = Random(seed)
    name = sorted(MAKERS)[seed % len(MAKERS)]
    make, commands = MAKERS[name]
    content = make(draw)
    if draw.random() < 0.3 or name.startswith(ALWAYS_BROKEN):  # truncated, or with a changed byte
        cut = draw.randrange(len(content) + 1)
        content = content[:cut] if draw.random() < 0.3 or not cut else content[: cut - 1] + b"\xff" + content[cut:]
    _put_neighbors(name, folder, draw)
    path = folder / name.strip()
    if name.startswith("run "):
        path = folder / "runs" / next(path for path in valid_files.run_folder() if path.endswith("/" + name[4:]))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return draw.choice(commands)


def _put_neighbors(name: str, folder: Path, draw: Random) -> None:
    """The valid files that a command reads beside the broken one."""
    if name.startswith("photos"):
        (folder / "photos" / "b").mkdir(parents=True)
        (folder / "photos" / "b" / "1.png").write_bytes(draw.choice((valid_files.png(), garbage(draw))))
    elif name in ("prop.vnnlib", "list.csv", "net.onnx  "):
        (folder / "net.onnx").write_bytes(valid_files.onnx())
        (folder / "prop.vnnlib").write_text(valid_files.PROPERTY)
    elif name.startswith("run "):
        for path, whole in valid_files.run_folder().items():
            (folder / "runs" / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / "runs" / path).write_bytes(whole)
    elif name.startswith("runs/"):
        place = (folder / name).parent
        place.mkdir(parents=True)
        for other in ("spec.json", "result.json", "env.json"):
            (place / other).write_text(json.dumps({}))
