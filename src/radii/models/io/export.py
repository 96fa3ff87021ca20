"""A model for use elsewhere: folded to plain layers, as ONNX or ``.pt2``, with the numbers of its certificate.

The file carries, as JSON under the name ``radii``, what a prediction needs to
be certified without this package: radius = min_c (s_y - s_c - 2 e) /
(features * pairs(y, c)), where e bounds the error of float32 arithmetic; an
estimate of it, much smaller, stands beside it under a name that says so.
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

from radii.atomic import check_writable, write_whole
from radii.errors import InputError
from radii.models.lipschitz.float32 import float32_error
from radii.models.lipschitz.folding import fold
from radii.models.lipschitz.network_bound import LipschitzBound, certified_network, lipschitz_bound
from radii.threat import Box

NAME = "radii"
SAFETY = 10.0  # times the largest float32 error seen


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
    """Write ``model`` in eval mode, float32, to ``path`` (.onnx or .pt2); returns the card in the file.

    Outputs equal the model's to about 1e-6. With ``certificate`` the network
    is bounded (or ``bound`` is checked against its weights); ``box`` is the range
    of inputs for which the error of float32 is bounded, None if they have none.
    """
    if path.suffix not in (".onnx", ".pt2"):
        raise InputError(f"A model is exported to .onnx or .pt2, got {path.name!r} instead.")
    check_writable(path)
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
        "estimated_evaluation_error": SAFETY * _largest_seen(plain, exact, bound.input_shape, box),
        "assumption": f"inputs in {list(box)}; float32 sums of products in any order; the estimate is ten times the "
        "largest error on 256 inputs",
    }


@torch.no_grad()
def _largest_seen(plain: nn.Module, exact: nn.Module, shape: tuple[int, ...], box: Box) -> float:
    """The largest logit error of float32 arithmetic on random inputs, half of them black and white."""
    x = torch.rand(256, *shape, generator=torch.Generator().manual_seed(0))
    x[::2] = x[::2].round()
    x = box[0] + (box[1] - box[0]) * x
    return float((plain(x).double() - exact(x.double())).abs().max()) + 1e-7


def _onnx(plain: nn.Module, probe: Tensor, card: dict[str, Any]) -> bytes:
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise InputError("Writing ONNX needs the extra packages: pip install 'radii[onnx]'.") from None
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
