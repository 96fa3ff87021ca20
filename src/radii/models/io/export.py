"""Write a model for use without this package: plain layers in ONNX or ``.pt2``, with the numbers of its certificate.

The file holds, as JSON under the name ``radii``, what a prediction needs to be
certified: radius = min_c (s_y - s_c - 2 e) / (features * pairs(y, c)), where e
(``evaluation_error``) bounds the error of float32 arithmetic. An estimate of e,
much smaller, stands beside it as ``estimated_evaluation_error``.
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Sequence
from math import inf, isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from radii.errors import InputError, checked
from radii.files import write_whole
from radii.models.io import check_export
from radii.models.lipschitz._folding import fold
from radii.models.lipschitz.network_bound import LipschitzBound, certified_network, lipschitz_bound
from radii.models.lipschitz.rounding_error import float32_error
from radii.threat import Box

NAME = "radii"
SAFETY = 10.0  # the estimated error is this times the largest error measured


@checked
def export(
    model: nn.Module,
    path: Path,
    input_shape: tuple[int, ...],
    classes: Sequence[str] = (),
    *,
    box: Box | None = (0.0, 1.0),
    bound: LipschitzBound | None = None,
    certificate: bool = True,
) -> dict[str, Any]:
    """Write ``model`` in eval mode, as float32; its outputs stay equal to about 1e-6.

    Args:
        model: the network.
        path: the file, ``.onnx`` or ``.pt2``.
        input_shape: of one input, [c, h, w] or [d].
        classes: the names of the classes; default none.
        box: the range of the inputs for which the error of float32 is bounded; default (0, 1), None: no range.
        bound: a Lipschitz bound of this model, checked against its weights; default: it is computed.
        certificate: whether the file holds the numbers of a certificate; default True.

    Returns:
        The card in the file: input shape, classes and the certificate's numbers.

    Raises:
        InputError: another suffix, a place that cannot be written, or a network without a Lipschitz bound.
    """
    check_export(path)
    plain = fold(model, input_shape).float()
    card: dict[str, Any] = {"input_shape": list(input_shape), "classes": list(classes)}
    if certificate:
        bound = bound or lipschitz_bound(model, input_shape)
        exact = certified_network(model, input_shape)
        bound.check(exact)
        card["certificate"] = _certificate(bound, plain, exact, box)
    probe = torch.zeros(2, *input_shape)
    content = _onnx(plain, probe, card) if path.suffix == ".onnx" else _pt2(plain, probe, card)
    write_whole(path, content)
    return card


def _certificate(bound: LipschitzBound, plain: nn.Module, exact: nn.Sequential, box: Box | None) -> dict[str, Any]:
    proved = {
        "norm": "l2",
        "features": bound.features,
        "pairs": bound.pairs.tolist(),
        "value": bound.value,
        "digest": bound.digest,
    }
    error = inf if box is None else float32_error(exact, bound, box)
    if box is None or not isfinite(error):
        return {**proved, "assumption": "the error of float32 arithmetic has no bound: unbounded inputs or long sums"}
    return {
        **proved,
        "evaluation_error": error,
        "estimated_evaluation_error": SAFETY * _largest_error(plain, exact, bound.input_shape, box),
        "assumption": f"inputs in {list(box)}; float32 sums of products in any order; the estimate is ten times the "
        "largest error on 256 inputs",
    }


@torch.no_grad()
def _largest_error(plain: nn.Module, exact: nn.Module, shape: tuple[int, ...], box: Box) -> float:
    """The largest logit error of float32 arithmetic on random inputs, half of them black and white."""
    x = torch.rand(256, *shape, generator=torch.Generator().manual_seed(0))
    x[::2] = x[::2].round()
    x = box[0] + (box[1] - box[0]) * x
    return float((plain(x).double() - exact(x.double())).abs().max()) + 1e-7


def _onnx(plain: nn.Module, probe: Tensor, card: dict[str, Any]) -> bytes:
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise InputError("Writing ONNX needs the extra packages: pip install onnx onnxruntime onnxscript.") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            plain,
            (probe,),
            input_names=["pixels"],
            output_names=["logits"],
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    proto = program.model_proto
    entry = proto.metadata_props.add()
    entry.key, entry.value = NAME, json.dumps(card)
    content: bytes = proto.SerializeToString()
    return content


def _pt2(plain: nn.Module, probe: Tensor, card: dict[str, Any]) -> bytes:
    program = torch.export.export(plain, (probe,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    content = io.BytesIO()
    torch.export.save(program, content, extra_files={f"{NAME}.json": json.dumps(card)})
    return content.getvalue()
