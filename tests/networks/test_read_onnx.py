"""ONNX files run in torch as onnxruntime runs them, in old and new opsets; the rest is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from radii.errors import InputError  # noqa: E402
from radii.models.io.exported_programs import OnnxRuntime  # noqa: E402
from radii.networks.read_onnx import load_onnx  # noqa: E402
from radii.verification.checker.plain_network import ProofError, read_plain  # noqa: E402

RNG = np.random.default_rng(0)


def weights(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.normal(size=shape).astype(np.float32)


def saved(
    path: Path,
    nodes: list[Any],
    shape: list[Any],
    opset: int = 13,
    out_rank: int = 2,
    **constants: np.ndarray[Any, Any],
) -> Path:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * out_rank)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(model, str(path))
    return path


def node(kind: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(kind, inputs.split(), output.split(), name=f"the_{kind}_{output[0]}", **attributes)


def long(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.int64)


IMAGES: list[Any] = ["batch", 2, 6, 6]
CASES: dict[str, tuple[list[Any], list[Any], int, dict[str, Any]]] = {
    "gemm": ([node("Gemm", "x w b", "y", transB=1, alpha=0.5)], [1, 4], 9, {"w": weights(3, 4), "b": weights(3)}),
    "matmul add": (
        [node("MatMul", "x w", "h"), node("Add", "b h", "y")],
        ["n", 4],
        13,
        {"w": weights(4, 3), "b": weights(3)},
    ),
    "conv": (
        [
            node("Conv", "x w b", "h", strides=[2, 1], pads=[1, 0, 0, 1]),
            node("Relu", "h", "r"),
            node("Flatten", "r", "y"),
        ],
        IMAGES,
        11,
        {"w": weights(3, 2, 3, 2), "b": weights(3)},
    ),
    "same": (
        [node("Conv", "x w", "h", auto_pad="SAME_UPPER", strides=[2, 2]), node("Flatten", "h", "y")],
        IMAGES,
        12,
        {"w": weights(3, 2, 3, 3)},
    ),
    "transposed": (
        [node("ConvTranspose", "x w", "h", strides=[2, 2]), node("Flatten", "h", "y")],
        IMAGES,
        11,
        {"w": weights(2, 3, 2, 2)},
    ),
    "norm pool": (
        [
            node("BatchNormalization", "x s b m v", "h", epsilon=1e-3),
            node("MaxPool", "h", "p", kernel_shape=[2, 2], strides=[2, 2]),
            node("AveragePool", "p", "q", kernel_shape=[2, 2], pads=[1, 1, 1, 1]),
            node("Flatten", "q", "y"),
        ],
        IMAGES,
        9,
        {"s": weights(2), "b": weights(2), "m": weights(2), "v": np.abs(weights(2))},
    ),
    "old shapes": (
        [
            node("Slice", "x", "a", starts=[1], ends=[5], axes=[1]),
            node("Unsqueeze", "a", "u", axes=[2]),
            node("Squeeze", "u", "q", axes=[2]),
            node("Pad", "q", "p", pads=[0, 1, 0, 2]),
            node("Softmax", "p", "y"),
        ],
        [1, 6],
        9,
        {},
    ),
    "new shapes": (
        [
            node("Slice", "x start stop axes steps", "a"),
            node("Unsqueeze", "a one", "u"),
            node("Transpose", "u", "t", perm=[0, 2, 1]),
            node("Reshape", "t target", "r"),
            node("Concat", "r x", "c", axis=1),
            node("Split", "c parts", "l m", axis=1),
            node("Gather", "l places", "g", axis=1),
            node("Concat", "m g", "d", axis=1),
            node("Clip", "d low high", "y"),
        ],
        ["n", 6],
        13,
        {
            "start": long(-1),
            "stop": long(-100),
            "axes": long(1),
            "steps": long(-2),
            "one": long(1),
            "target": long(0, -1),
            "parts": long(4, 5),
            "places": long(0, 3, 0),
            "low": np.float32(-0.5),
            "high": np.float32(0.5),
        },
    ),
    "shape of the input": (
        [
            node("Shape", "x", "s"),
            node("Gather", "s zero", "n", axis=0),
            node("Unsqueeze", "n zeros", "k"),
            node("Concat", "k rest", "t", axis=0),
            node("Reshape", "x t", "r"),
            node("ReduceMean", "r", "y", axes=[2], keepdims=0),
        ],
        ["n", 6],
        13,
        {"zero": np.int64(0), "zeros": long(0), "rest": long(3, 2)},
    ),
    "smooth": (
        [
            node("Sigmoid", "x", "a"),
            node("Tanh", "x", "b"),
            node("Mul", "a b", "c"),
            node("Sub", "c x", "d"),
            node("Div", "d two", "e"),
            node("LeakyRelu", "e", "y", alpha=0.2),
        ],
        ["n", 5],
        22,
        {"two": np.float32(2.5)},
    ),
    "reduce 18": ([node("ReduceMean", "x axes", "h"), node("Add", "h x", "y")], ["n", 5], 18, {"axes": long(1)}),
    "global": (
        [node("GlobalAveragePool", "x", "g"), node("Dropout", "g", "d"), node("Flatten", "d", "y")],
        IMAGES,
        13,
        {},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_torch_and_onnxruntime_agree(name: str, tmp_path: Path) -> None:
    nodes, shape, opset, constants = CASES[name]
    path = saved(tmp_path / "net.onnx", nodes, shape, opset, **constants)
    network = load_onnx(path)
    x = torch.randn(5, *network.graph.input_shape)
    flat = OnnxRuntime(path)(x.flatten(1))
    torch.testing.assert_close(network(x), flat, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("opset", range(9, 23))
def test_a_small_network_is_read_in_every_opset(opset: int, tmp_path: Path) -> None:
    axes = node("Unsqueeze", "h", "u", axes=[1]) if opset < 13 else node("Unsqueeze", "h axes", "u")
    nodes = [
        node("Conv", "x k c", "z", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("BatchNormalization", "z s t m v", "n"),
        node("Relu", "n", "r"),
        node("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[1, 1]),
        node("Flatten", "p", "f", axis=1),
        node("Gemm", "f w b", "h", transB=1),
        axes,
        node("Reshape", "u sizes", "y"),
    ]
    constants = {"k": weights(3, 2, 3, 3), "c": weights(3), "s": weights(3), "t": weights(3), "m": weights(3)}
    constants |= {"v": np.abs(weights(3)) + 1, "w": weights(4, 12), "b": weights(4), "sizes": long(-1, 4)}
    constants |= {"axes": long(1)} if opset >= 13 else {}
    path = saved(tmp_path / "net.onnx", nodes, [1, 2, 6, 6], opset, **constants)
    network = load_onnx(path)
    x = torch.randn(4, *network.graph.input_shape)
    torch.testing.assert_close(network(x), OnnxRuntime(path)(x.flatten(1)), rtol=1e-5, atol=1e-5)


def test_gradients_flow_to_the_input(tmp_path: Path) -> None:
    nodes, shape, opset, constants = CASES["conv"]
    network = load_onnx(saved(tmp_path / "net.onnx", nodes, shape, opset, **constants))
    x = torch.randn(3, *network.graph.input_shape, requires_grad=True)
    (gradient,) = torch.autograd.grad(network(x).square().sum(), x)
    assert gradient.abs().sum() > 0


def test_an_unknown_operator_is_refused_with_its_node(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", [node("Hardmax", "x", "y")], [1, 4])
    with pytest.raises(InputError, match=r"the_Hardmax_y.*\(Hardmax\)"):
        load_onnx(path)


def test_weights_outside_the_folder_are_refused(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    path = saved(inside / "net.onnx", [node("MatMul", "x w", "y")], [1, 4], w=weights(4, 3))
    model = onnx.load(str(path))
    onnx.external_data_helper.set_external_data(model.graph.initializer[0], "../secret.bin")
    model.graph.initializer[0].ClearField("raw_data")
    (tmp_path / "secret.bin").write_bytes(weights(4, 3).tobytes())
    path.write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match="outside the file's folder"):
        load_onnx(path)


@pytest.mark.parametrize("content", [b"", b"not a network"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"net\.onnx"):
        load_onnx(path)


def branches(node_of: Any) -> Any:
    """An If whose two branches hold the node."""
    ends = [helper.make_tensor_value_info("r", TensorProto.FLOAT, [1, 3])]
    parts = [helper.make_graph([node_of()], name, [], ends) for name in ("then", "else")]
    return helper.make_node("If", ["cond"], ["noise"], name="the_If", then_branch=parts[0], else_branch=parts[1])


def loop(node_of: Any) -> Any:
    """A Loop of one round whose body holds the node."""
    kinds = {"i": (TensorProto.INT64, []), "go": (TensorProto.BOOL, []), "again": (TensorProto.BOOL, [])}
    values = {name: helper.make_tensor_value_info(name, *kind) for name, kind in kinds.items()}
    ends = [values["again"], helper.make_tensor_value_info("r", TensorProto.FLOAT, [1, 3])]
    body = helper.make_graph([node("Identity", "go", "again"), node_of()], "body", [values["i"], values["go"]], ends)
    return helper.make_node("Loop", ["one", "cond"], ["noise"], name="the_Loop", body=body)


def drawn(kind: str) -> Any:
    def made(output: str = "r") -> Any:
        settings: dict[str, Any] = {"name": f"the_{kind}"}
        if kind in ("RandomNormal", "RandomUniform"):
            return helper.make_node(kind, [], [output], shape=[1, 3], **settings)
        if kind == "Dropout":
            return helper.make_node(kind, ["ones", "half", "yes"], [output], **settings)
        if kind == "Multinomial":
            return helper.make_node(kind, ["ones"], [output], dtype=1, sample_size=3, **settings)
        return helper.make_node(kind, ["ones"], [output], **settings)

    return made


RANDOM = [
    "RandomNormal",
    "RandomUniform",
    "RandomNormalLike",
    "RandomUniformLike",
    "Bernoulli",
    "Multinomial",
    "Dropout",
]
VALUES: dict[str, Any] = {
    "ones": np.full((1, 3), 0.5, np.float32),
    "half": np.float32(0.5),
    "yes": np.array(True),
    "cond": np.array(True),
    "one": np.array(1, dtype=np.int64),
    "w": weights(4, 3),
}


@pytest.mark.parametrize("place", ["graph", "If", "Loop", "function"])
@pytest.mark.parametrize("kind", RANDOM)
def test_random_nodes_are_refused_by_name(tmp_path: Path, kind: str, place: str) -> None:
    """They were computed once, as if they were constants."""
    made, functions = drawn(kind), []
    if place == "graph":
        first = made("noise")
    elif place == "function":
        inside = made("r")
        functions = [
            helper.make_function("own", "Noise", list(inside.input), ["r"], [inside], [helper.make_opsetid("", 15)])
        ]
        first = helper.make_node("Noise", list(inside.input), ["noise"], domain="own", name="the_Noise")
    else:
        first = {"If": branches, "Loop": loop}[place](made)
    nodes = [first, node("MatMul", "x w", "h"), node("Add", "h noise", "y")]
    path = saved(tmp_path / "net.onnx", nodes, [1, 4], opset=15, **VALUES)
    model = onnx.load(str(path))
    model.functions.extend(functions)
    model.opset_import.append(helper.make_opsetid("own", 1))
    onnx.save(model, str(path))
    with pytest.raises(InputError, match=rf"the_{kind}' \({kind}\).*draws random numbers"):
        load_onnx(path)


def test_a_dropout_that_draws_nothing_is_read(tmp_path: Path) -> None:
    nodes = [node("Dropout", "x half no", "d"), node("MatMul", "d w", "y")]
    path = saved(
        tmp_path / "net.onnx", nodes, [1, 4], opset=15, half=np.float32(0.5), no=np.array(False), w=weights(4, 3)
    )
    x = torch.rand(3, 4)
    torch.testing.assert_close(load_onnx(path)(x), OnnxRuntime(path)(x))


def test_a_function_that_takes_the_name_of_an_operator_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", [node("Relu", "x", "y")], [1, 4], opset=15)
    model = onnx.load(str(path))
    body = [helper.make_node("Neg", ["a"], ["b"])]
    model.functions.append(helper.make_function("", "Relu", ["a"], ["b"], body, [helper.make_opsetid("", 15)]))
    onnx.save(model, str(path))
    with pytest.raises(InputError, match="replaces the operator Relu"):
        load_onnx(path)
    with pytest.raises(ProofError, match="functions"):
        read_plain(path.read_bytes())


def test_the_checker_reads_no_random_dropout_and_no_foreign_operator(tmp_path: Path) -> None:
    nodes = [node("Dropout", "x half yes", "d"), node("MatMul", "d w", "y")]
    path = saved(
        tmp_path / "a.onnx", nodes, [1, 4], opset=15, half=np.float32(0.5), yes=np.array(True), w=weights(4, 3)
    )
    with pytest.raises(ProofError, match="random numbers"):
        read_plain(path.read_bytes())
    path = saved(tmp_path / "b.onnx", [node("Relu", "x", "y", domain="own")], [1, 4], opset=15)
    with pytest.raises(ProofError, match="does not understand"):
        read_plain(path.read_bytes())


def test_the_guide_lists_every_operator() -> None:
    from radii.networks._onnx_operators import operator_list

    assert operator_list() in (Path(__file__).parents[2] / "docs" / "guide" / "verify.md").read_text()
