"""Operators of ONNX files: bounds hold what torch and both sessions of onnxruntime compute, in old and new opsets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
from tests.networks.test_read_onnx import long, node, saved, weights  # noqa: E402

from radii.bounds.bound_engine import Engine  # noqa: E402
from radii.bounds.regions import Domain  # noqa: E402
from radii.errors import InputError  # noqa: E402
from radii.models.io.exported_programs import OnnxRuntime  # noqa: E402
from radii.networks.read_onnx import load_onnx  # noqa: E402
from radii.networks.read_torch import read_torch  # noqa: E402

ONE, EMPTY = np.ones(1, np.float32), np.zeros(0, np.float32)


def flat(kind: str, opset: int = 13, more: str = "", last: bool = True, **attributes: Any) -> tuple[list[Any], int]:
    """The operator behind a matrix, on [1, 6]."""
    return [node("MatMul", "x v", "h"), node(kind, f"h{more}", "g", **attributes), *_end(last)], opset


def _end(last: bool) -> list[Any]:
    return [node("MatMul", "g w", "y")] if last else [node("Identity", "g", "y")]


def images(kind: str, opset: int, more: str = "", **attributes: Any) -> tuple[list[Any], int]:
    """The operator on [1, 2, 3, 3]."""
    shape = node("Reshape", "x z", "h")
    return [shape, node(kind, f"h{more}", "g", **attributes), node("Flatten", "g", "y")], opset


IMAGE = {"z": long(1, 2, 3, 3)}
CASES: dict[str, tuple[tuple[list[Any], int], dict[str, Any], int]] = {
    **{
        f"{kind} {opset}": (flat(kind, opset), {}, 6)
        for kind in ("Neg", "Abs", "Elu", "Selu", "Softplus", "Erf", "Sigmoid", "Tanh", "Relu", "Sin", "Cos")
        for opset in (9, 13, 18)
    },
    "Celu": (flat("Celu", 12, alpha=0.6), {}, 6),
    "HardSwish": (flat("HardSwish", 14), {}, 6),
    "HardSigmoid": (flat("HardSigmoid", 13, alpha=0.3), {}, 6),
    "Mish": (flat("Mish", 18), {}, 6),
    "Gelu": (flat("Gelu", 20), {}, 6),
    "Gelu by tanh": (flat("Gelu", 20, approximate="tanh"), {}, 6),
    "PRelu": (flat("PRelu", 13, " s"), {"s": weights(6)}, 6),
    "Pow": (flat("Pow", 13, " s"), {"s": 2 * ONE}, 6),
    "cube": (flat("Pow", 13, " s"), {"s": 3 * ONE}, 6),
    "Max with a constant": (flat("Max", 13, " s"), {"s": weights(6)}, 6),
    "Min with a constant": (flat("Min", 13, " s"), {"s": weights(1, 6)}, 6),
    "Max of two": (flat("Max", 13, " x"), {}, 6),
    "product": (flat("Mul", 13, " x"), {}, 6),
    "quotient": (
        ([node("MatMul", "x v", "h"), node("Exp", "h", "e"), node("Div", "x e", "g"), *_end(True)], 13),
        {},
        6,
    ),
    "Softmax": (flat("Softmax", 13, last=False), {}, 6),
    "Softmax inside": (flat("Softmax", 11), {}, 6),
    "Clip": (flat("Clip", 13, " a b"), {"a": np.float32(-0.3), "b": np.float32(0.2)}, 6),
    "LayerNormalization": (flat("LayerNormalization", 17, " s t"), {"s": weights(6), "t": weights(6)}, 6),
    "ReduceMax": (
        ([node("Reshape", "x z", "h"), node("ReduceMax", "h", "g", axes=[2]), node("Flatten", "g", "y")], 13),
        {"z": long(1, 2, 3)},
        6,
    ),
    "a constant on the left": (
        ([node("Reshape", "x z", "h"), node("MatMul", "m h", "g"), node("Flatten", "g", "y")], 13),
        {"z": long(1, 2, 3), "m": weights(4, 2)},
        6,
    ),
    "rank 4": (
        ([node("Reshape", "x z", "h"), node("MatMul", "h m", "g"), node("Flatten", "g", "y")], 13),
        {"z": long(1, 2, 3, 3), "m": weights(3, 2)},
        18,
    ),
    "attention": (
        (
            [
                node("Reshape", "x z", "h"),
                node("MatMul", "h a", "q"),
                node("MatMul", "h b", "k"),
                node("Transpose", "k", "t", perm=[0, 2, 1]),
                node("MatMul", "q t", "s"),
                node("Softmax", "s", "p", axis=2),
                node("MatMul", "p h", "g"),
                node("Flatten", "g", "y"),
            ],
            13,
        ),
        {"z": long(1, 3, 4), "a": weights(4, 4), "b": weights(4, 4)},
        12,
    ),
    "one-dimensional Conv": (
        ([node("Reshape", "x z", "h"), node("Conv", "h c", "g", pads=[1, 1]), node("Flatten", "g", "y")], 13),
        {"z": long(1, 2, 6), "c": weights(3, 2, 3)},
        12,
    ),
    "Resize": (images("Resize", 13, " roi s"), {**IMAGE, "roi": EMPTY, "s": np.float32([1, 1, 2, 2])}, 18),
    "Upsample": (images("Upsample", 9, " s", mode="nearest"), {**IMAGE, "s": np.float32([1, 1, 2, 3])}, 18),
    "Resize by interpolation": (
        images("Resize", 13, " roi s", mode="linear", coordinate_transformation_mode="half_pixel"),
        {**IMAGE, "roi": EMPTY, "s": np.float32([1, 1, 2, 2])}, 18,
    ),
    **{
        f"{kind} of more axes": (images(kind, 13, " k"), {**IMAGE, "k": np.abs(weights(4, 2, 3, 3))}, 18)
        for kind in ("Add", "Sub", "Mul", "Div", "Max", "Min")
    },
    **{f"{kind} over all axes": (images(kind, 13, axes=[1, 2, 3]), IMAGE, 18) for kind in ("ReduceMax", "ReduceMin")},
    "GlobalMaxPool": (images("GlobalMaxPool", 13), IMAGE, 18),
    "a matrix for each channel": (images("MatMul", 13, " m"), {**IMAGE, "m": weights(2, 3, 4)}, 18),
    "a matrix for each channel on the left": (
        ([node("Reshape", "x z", "h"), node("MatMul", "m h", "g"), node("Flatten", "g", "y")], 13),
        {**IMAGE, "m": weights(2, 4, 3)}, 18,
    ),
    "a vector behind": (images("MatMul", 13, " m"), {**IMAGE, "m": weights(3)}, 18),
    "a vector before": (
        ([node("Reshape", "x z", "h"), node("MatMul", "m h", "g"), node("Flatten", "g", "y")], 13),
        {**IMAGE, "m": weights(3)}, 18,
    ),
    "Gemm with the constant on the left": (
        ([node("Reshape", "x z", "h"), node("Gemm", "m h c", "g", alpha=0.5, beta=2.0), node("Flatten", "g", "y")], 13),
        {"z": long(6, 1), "m": weights(4, 6), "c": weights(1)}, 6,
    ),
    "Gemm of the transpose": (
        ([node("Reshape", "x z", "h"), node("Gemm", "h m", "g", transA=1), node("Flatten", "g", "y")], 13),
        {"z": long(3, 2), "m": weights(3, 4)}, 6,
    ),
    "Softmax of all axes": (images("Softmax", 11, axis=1), IMAGE, 18),
    "LogSoftmax": (flat("LogSoftmax", 13, axis=1), {}, 6),
    "Sum": (flat("Sum", 13, " x x"), {}, 6),
    "Mean": (flat("Mean", 13, " x x"), {}, 6),
    "Tile": (images("Tile", 13, " r"), {**IMAGE, "r": long(1, 2, 1, 1)}, 18),
    "Expand": (images("Expand", 13, " r"), {**IMAGE, "r": long(1, 2, 3, 3)}, 18),
    "SpaceToDepth": (
        ([node("Reshape", "x z", "h"), node("SpaceToDepth", "h", "g", blocksize=2), node("Flatten", "g", "y")], 13),
        {"z": long(1, 1, 4, 4)}, 16,
    ),
    **{
        f"DepthToSpace {mode}": (
            (
                [node("Reshape", "x z", "h"), node("DepthToSpace", "h", "g", blocksize=2, mode=mode),
                 node("Flatten", "g", "y")], 13,
            ),
            {"z": long(1, 4, 2, 2)}, 16,
        )
        for mode in ("DCR", "CRD")
    },
    "Pad by a number": (
        images("Pad", 13, " p k"), {**IMAGE, "p": long(0, 1, 0, 2, 0, 0, 1, 0), "k": np.float32(0.7)}, 18,
    ),
    **{
        f"Pad by {mode}": (images("Pad", 13, " p", mode=mode), {**IMAGE, "p": long(0, 0, 1, 2, 0, 0, 1, 0)}, 18)
        for mode in ("reflect", "edge")
    },
    "Pad of some axes": (
        images("Pad", 18, " p k a"), {**IMAGE, "p": long(1, 2), "k": np.float32(0), "a": long(-1)}, 18,
    ),
    "Gather": (images("Gather", 13, " i", axis=2), {**IMAGE, "i": long(2, 0)}, 18),
}  # fmt: skip


def constants(given: dict[str, Any], inputs: int) -> dict[str, Any]:
    return {"v": weights(inputs, inputs), "w": weights(inputs, 3), **given}


@pytest.mark.parametrize("name", CASES)
def test_every_operator_is_computed_and_bounded(name: str, tmp_path: Path) -> None:
    (nodes, opset), more, inputs = CASES[name]
    used = {word for entry in nodes for word in entry.input}
    path = saved(
        tmp_path / "net.onnx", nodes, [1, inputs], opset,
        **{key: value for key, value in constants(more, inputs).items() if key in used},
    )  # fmt: skip
    model = load_onnx(path)
    generator = torch.Generator().manual_seed(0)
    center, reach = torch.rand(3, inputs, generator=generator), torch.tensor([[0.0], [0.01], [0.1]])
    x = center + reach * (2 * torch.rand(60, 3, inputs, generator=generator) - 1)
    runtimes = [OnnxRuntime(path), OnnxRuntime(path, optimized=True)]
    with torch.no_grad():
        torch.testing.assert_close(model(x[0]), runtimes[0](x[0]), rtol=1e-4, atol=1e-5)
        engine = Engine(read_torch(model, model.graph.input_shape, torch.float32))
        known, count = (
            engine.bounds(Domain((center - reach).double(), (center + reach).double())),
            engine.program.outputs,
        )
        rows, dom = torch.eye(count).repeat(3, 1), torch.arange(3).repeat_interleave(count)
        low = engine.lower(known, engine.program.output, rows, dom).view(3, count)
        high = -engine.lower(known, engine.program.output, -rows, dom).view(3, count)
        for run in (model, *runtimes):
            y = run(x.flatten(0, 1)).view(60, 3, count)
            assert (y >= low).all()
            assert (y <= high).all()
    assert float((high - low)[0].max()) < 1e-2


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([node("Resize", "h roi s", "g", mode="cubic")], "whole number of times"),
        ([node("Cast", "h", "c", to=7), node("Cast", "c", "g", to=1)], "casts a value"),
        (
            [node("Round", "h", "r"), node("CumSum", "r i", "g")],
            "'the_CumSum_g' .CumSum. is not among",
        ),
    ],
)
def test_what_is_not_understood_names_its_node(nodes: list[Any], words: str, tmp_path: Path) -> None:
    path = saved(
        tmp_path / "net.onnx",
        [node("Reshape", "x z", "h"), *nodes, node("Flatten", "g", "y")],
        [1, 18],
        **IMAGE, roi=EMPTY, s=np.float32([1, 1, 2, 2]), i=long(1),
    )  # fmt: skip
    with pytest.raises(InputError, match=words):
        load_onnx(path)


def test_a_refusal_of_the_bounds_names_the_node(tmp_path: Path) -> None:
    """The reader understands a product with 10^7 terms, the bounds refuse it: by the node's name, not by torch's."""
    path = saved(
        tmp_path / "net.onnx",
        [
            node("Reshape", "x s", "h"),
            node("Transpose", "h", "t", perm=[0, 2, 1]),
            node("MatMul", "h t", "g"),
            node("Flatten", "g", "y"),
        ],
        [1, 65536],
        s=long(1, 256, 256),
    )  # fmt: skip
    model = load_onnx(path)
    with pytest.raises(InputError, match="node 'the_MatMul_g'"):
        read_torch(model, model.graph.input_shape)
