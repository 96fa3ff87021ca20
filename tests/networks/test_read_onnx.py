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
from radii.networks.read_onnx import OPSETS, load_onnx  # noqa: E402
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


Settings = list[dict[str, Any]]
PAIR, SAME = {"kernel_shape": [2, 3]}, ("SAME_UPPER", "SAME_LOWER", "VALID")
POOLS: Settings = [
    {}, {"strides": [2, 1]}, {"pads": [1, 1, 1, 1]}, {"ceil_mode": 1, "strides": [2, 4]},
    {"ceil_mode": 1, "strides": [3, 2], "pads": [1, 1, 1, 1]}, {"auto_pad": "SAME_UPPER"},
    {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
]  # fmt: skip
WINDOWS: Settings = [
    {}, {"strides": [2, 1]}, {"pads": [0, 1, 2, 1]}, {"pads": [1, 2, 0, 1], "strides": [1, 2]}, {"dilations": [2, 1]},
    *({"auto_pad": kind, "strides": [s, 1], "dilations": [d, 1]} for kind in SAME for s in (1, 2) for d in (1, 2)),
]  # fmt: skip
AXES: Settings = [{}, {"keepdims": 0}, {"axes": [-1]}, {"axes": [2, -3], "keepdims": 0}, {"axes": [1], "keepdims": 1}]
# operator, opset, constants behind x, and its attributes; x has the shape [1, 2, 6, 6]
ATTRIBUTES: list[tuple[str, int, dict[str, Any], Settings]] = [
    ("Conv", 13, {"w": weights(3, 2, 2, 3), "b": weights(3)}, WINDOWS),
    ("Conv", 13, {"w": weights(4, 1, 2, 3)}, [{"group": 2}, {"group": 2, "auto_pad": "SAME_LOWER"}]),
    (
        "ConvTranspose", 13, {"w": weights(2, 3, 2, 3), "b": weights(3)},
        [{}, {"strides": [2, 3]}, {"pads": [1, 1, 1, 1]}, {"dilations": [2, 1]},
         {"strides": [2, 3], "pads": [0, 1, 0, 1]},
         {"strides": [2, 3], "output_padding": [1, 2]}, {"auto_pad": "SAME_UPPER"}, {"pads": [1, 0, 0, 1]}],
    ),
    ("ConvTranspose", 13, {"w": weights(2, 3, 2, 2)}, [{"group": 2}, {"group": 2, "strides": [2, 2]}]),
    ("MaxPool", 13, {}, [PAIR | own for own in [*POOLS, {"dilations": [2, 1]}, {"pads": [1, 0, 0, 1]}]]),
    ("AveragePool", 13, {}, [PAIR | own | {"count_include_pad": k} for own in POOLS for k in (0, 1)]),
    ("AveragePool", 13, {}, [PAIR | own for own in POOLS]),
    ("AveragePool", 19, {}, [PAIR | {"dilations": [2, 1]}]),
    ("ReduceMean", 13, {}, AXES),
    ("ReduceMax", 13, {}, AXES),
    ("ReduceMin", 13, {}, AXES),
    ("ReduceSum", 11, {}, AXES),
    *((kind, 18, {"a": long(*axes)}, [{}, {"keepdims": 0}, {"noop_with_empty_axes": 1}])
      for kind in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin") for axes in ((-1,), (1, -2))),
    *((kind, 18, {}, [{}, {"keepdims": 0}, {"noop_with_empty_axes": 1}])
      for kind in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")),
    ("BatchNormalization", 13, {k: weights(2) ** 2 / 100 for k in "sbmv"}, [{}, {"epsilon": 0.1}, {"momentum": 0.5}]),
    ("LayerNormalization", 17, {"s": weights(6), "b": weights(6)}, [{}, {"epsilon": 0.5}, {"axis": -1}]),
    ("LayerNormalization", 17, {"s": weights(6, 6)}, [{"axis": 2}, {"axis": -2, "epsilon": 0.5}]),
    ("Flatten", 13, {}, [{}, *({"axis": axis} for axis in (0, 1, 2, 3, -1, -2, -3))]),
    *(("Reshape", 14, {"s": long(*shape)}, [{}])
      for shape in ((0, -1), (1, 0, -1), (-1, 6, 0, 2), (2, -1, 0), (0, 2, 0, 0))),
    ("Reshape", 14, {"s": long(2, 36)}, [{"allowzero": 1}]),
    ("Resize", 18, {"": None, "s": np.float32([1, 1, 2, 2])}, [
        {}, {"mode": "linear"}, {"mode": "linear", "antialias": 1}, {"nearest_mode": "ceil"},
        *({"coordinate_transformation_mode": way, "mode": mode}
          for way in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
          for mode in ("nearest", "linear")),
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    ]),
    ("Upsample", 7, {}, [{"scales": [1.0, 1.0, 2.0, 3.0]}, {"scales": [1.0, 1.0, 2.0, 3.0], "mode": "linear"}]),
    ("Resize", 18, {"": None, "s": np.float32([2, 3])}, [{"axes": [2, 3]}, {"axes": [3, 2]}]),
    ("Resize", 18, {"": None, " ": None, "n": long(12, 18)}, [
        {"axes": [2, 3], "keep_aspect_ratio_policy": way} for way in ("stretch", "not_larger", "not_smaller")
    ]),
    ("Squeeze", 13, {"a": long(-4)}, [{}]),
    ("Squeeze", 11, {}, [{}, {"axes": [0]}, {"axes": [-4]}]),
    *(("Unsqueeze", 13, {"a": long(*axes)}, [{}]) for axes in ((1,), (-1,), (3, 1), (-1, 0), (-2, 2))),
    ("Transpose", 13, {}, [{}, {"perm": [0, 2, 3, 1]}, {"perm": [0, 3, 1, 2]}]),
    ("Pad", 9, {}, [{"pads": [0, 0, 1, 2, 0, 0, 0, 3]}, {"pads": [0, 1, 0, 0, 0, 0, 0, 1], "value": 2.5},
                    {"pads": [0, 0, -1, 1, 0, 0, -2, 0]}, {"pads": [0, 0, 1, 2, 0, 0, 2, 0], "mode": "reflect"}]),
    ("Pad", 18, {"p": long(1, 2, 0, 3), "v": np.float32(1.5), "a": long(-1, 1)}, [{}]),
    ("Pad", 13, {"p": long(0, 0, 1, 0, 0, 1, 0, 2)}, [{}, {"mode": "edge"}, {"mode": "reflect"}]),
    ("Clip", 6, {}, [{}, {"min": -0.2}, {"max": 0.3}, {"min": -0.2, "max": 0.3}]),
    ("Clip", 13, {"l": np.float32(-0.2)}, [{}]),
    ("Clip", 13, {"": None, "h": np.float32(0.3)}, [{}]),
    *(("Slice", 13, {"b": long(*own[0]), "e": long(*own[1]), **({"a": long(*own[2])} if own[2] else {}),
                     **({"s": long(*own[3])} if own[3] else {})}, [{}])
      for own in (((0, 1), (1, 2), (), ()), ((1,), (-1,), (-1,), ()), ((-1,), (-5,), (3,), (-2,)),
                  ((5,), (-99,), (2,), (-1,)), ((4,), (-4,), (2,), (-1,)), ((-99, 1), (99, 5), (1, -2), (1, 2)))),
    ("Slice", 9, {}, [{"starts": [0, 1], "ends": [1, 2]}, {"starts": [1], "ends": [-1], "axes": [2]}]),
    *(("Gather", 13, {"i": long(*own)}, [{"axis": 2}, {"axis": -1}]) for own in ((0, -1), (-2, 3, 3))),
    ("Gather", 13, {"i": long(0, 0)}, [{}]),
    *((kind, opset, {}, [{}, *({"axis": axis} for axis in (1, 2, 3, -1, -2))])
      for kind in ("Softmax", "LogSoftmax") for opset in (11, 13)),
    ("LeakyRelu", 13, {}, [{}, {"alpha": 0.3}]),
    ("Elu", 13, {}, [{}, {"alpha": 0.3}]),
    ("Celu", 13, {}, [{}, {"alpha": 0.3}]),
    ("Selu", 13, {}, [{}, {"alpha": 0.3}, {"gamma": 2.0}]),
    ("HardSigmoid", 13, {}, [{}, {"alpha": 0.3}, {"beta": 0.1}]),
    ("Gelu", 20, {}, [{}, {"approximate": "tanh"}]),
    ("SpaceToDepth", 13, {}, [{"blocksize": 2}, {"blocksize": 3}]),
    ("Concat", 13, {"c": weights(1, 2, 6, 6)}, [{"axis": 1}, {"axis": -1}, {"axis": -3}]),
    ("BatchNormalization", 8, {k: weights(2) ** 2 for k in "sbmv"}, [{"spatial": 0}]),
]  # fmt: skip
ROWS = [(kind, opset, given, own) for kind, opset, given, settings in ATTRIBUTES for own in settings]


def test_every_attribute_is_read_or_refused(tmp_path: Path) -> None:
    """One operator with its attributes left out or at unusual values computes what onnxruntime computes."""
    x = torch.randn(1, 2, 6, 6, generator=torch.Generator().manual_seed(0))
    refused, wrong = 0, []
    for number, (kind, opset, given, own) in enumerate(ROWS):
        constants = {f"c{name}": value for name, value in given.items() if name.strip()}
        inputs = ["x", *(f"c{name}" * bool(name.strip()) for name in given)]  # "" and " ": left out
        nodes = [helper.make_node(kind, inputs, ["h"], name="it", **own), node("Flatten", "h", "y", axis=0)]
        path = saved(tmp_path / f"{number}.onnx", nodes, [1, 2, 6, 6], opset, **constants)
        try:
            said = OnnxRuntime(path)(x.flatten(1))
        except Exception:  # onnxruntime does not know it
            continue
        try:
            network = load_onnx(path)
        except InputError:
            refused += 1
            continue
        got = network(x).flatten(1)
        if got.shape != said.flatten(1).shape or not torch.allclose(got, said.flatten(1), rtol=1e-4, atol=1e-5):
            wrong.append((kind, opset, own))
    assert not wrong
    assert refused < 40


@pytest.mark.parametrize(
    ("opset", "count", "parts", "own"),
    [(18, 3, (), {"num_outputs": 3}), (18, 3, (4, 1, 2), {}), (11, 2, (), {"split": [5, 2]}), (13, 7, (), {})],
)
def test_parts_of_a_value(opset: int, count: int, parts: tuple[int, ...], own: dict[str, Any], tmp_path: Path) -> None:
    """A Split into equal parts, the last one smaller, or into the parts that the file says."""
    names = [f"p{k}" for k in range(count)]
    split = helper.make_node("Split", ["x", "sizes"] if parts else ["x"], names, axis=-1, **own)
    constants = {"sizes": long(*parts)} if parts else {}
    nodes = [split, node("Concat", " ".join(names[::-1]), "y", axis=1)]
    path = saved(tmp_path / "net.onnx", nodes, [1, 7], opset, **constants)
    x = torch.arange(7.0)[None]
    assert torch.equal(load_onnx(path)(x).flatten(), OnnxRuntime(path)(x).flatten())


def test_every_attribute_of_every_operator_is_tried() -> None:
    """All attributes that the standard knows from opset 7 on, but for those that change no result."""
    from tests.networks.test_onnx_operators import CASES as BOUNDED

    from radii.networks._onnx_operators import CONVERSIONS

    nodes = [entry for nodes, *_ in CASES.values() for entry in nodes]
    nodes += [entry for (nodes, _), *_ in BOUNDED.values() for entry in nodes]
    tried = {(entry.op_type, attribute.name) for entry in nodes for attribute in entry.attribute}
    tried |= {(kind, name) for kind, _, _, own in ROWS for name in own} | {("Split", "num_outputs"), ("Split", "split")}
    harmless = {"kernel_shape", "storage_order", "ratio", "seed", "stash_type", "momentum"}
    refused = {"training_mode", "is_test", "to", "saturate", "round_mode", "output_shape"}
    of_other_modes = {"cubic_coeff_a", "extrapolation_value", "exclude_outside"}
    known = onnx.defs.get_all_schemas_with_history()
    for kind in CONVERSIONS:
        own = {s.since_version: s for s in known if (s.domain, s.name) == ("", kind) and s.since_version <= OPSETS[-1]}
        first = max((since for since in own if since <= OPSETS[0]), default=0)
        names = {name for since, schema in own.items() if since >= first for name in schema.attributes}
        missing = {(kind, name) for name in names - harmless - refused - of_other_modes} - tried
        assert not missing


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
