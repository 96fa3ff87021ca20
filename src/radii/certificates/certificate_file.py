"""A certificate and its network in one file: ``.safetensors`` to read it back, ``.onnx`` to run it elsewhere."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from radii.certificates.certificate import Certificate
from radii.errors import InputError
from radii.files import write_whole
from radii.models.equality_check import check_same, probes
from radii.models.io.exported_programs import OnnxRuntime
from radii.models.io.weights import read_tensors, write_tensors
from radii.networks.calling import predicted_class
from radii.networks.frozen import Frozen
from radii.networks.write_onnx import onnx_content

VERSION = 1
SUFFIXES = (".safetensors", ".onnx")


def write_certificate(certificate: Certificate, path: Path, x: Tensor) -> None:
    """Write ``certificate`` with its network; see :meth:`~radii.certificates.certificate.Certificate.save`."""
    network = certificate.network
    if path.suffix not in SUFFIXES:
        raise InputError(f"A certificate is written as {' or '.join(SUFFIXES)}, got {path.name!r} instead.")
    if network is None:
        raise InputError(f"A certificate by {certificate.method!r} asks the model itself: it has no network to write.")
    _check_inputs(certificate, network, x)
    facts = _facts(certificate, network, x)
    if path.suffix == ".onnx":
        values = {"prediction": certificate.prediction.tolist(), "radius": certificate.radius.tolist()}
        content = onnx_content(network, facts | values)
        _check_runtime(certificate, network, content, x)
        write_whole(path, content)
    else:
        own = {"prediction": certificate.prediction, "radius": certificate.radius}
        structure = {"structure": network.structure, "head": network.head}
        write_tensors(path, {**dict(network.named_buffers()), **own}, facts | structure)


def read_certificate(path: Path | str) -> Certificate:
    """The certificate in a ``.safetensors`` file, with its network; no code of the file runs."""
    tensors, facts = read_tensors(Path(path))
    try:
        prediction, radius = tensors.pop("prediction"), tensors.pop("radius")
        numbers = [tensors[f"tensor{number}"] for number in range(len(tensors))]
        network = Frozen.of_parts(facts["structure"], numbers, facts["head"])
        known: dict[str, Any] = {name: facts[name] for name in ("norm", "kind", "method", "arithmetic", "alpha")}
        known |= {name: tuple(facts[name]) for name in ("assumptions", "methods", "scale")}
        certificate = Certificate(prediction, radius, **known, network=network)
    except (KeyError, TypeError, InputError) as error:
        raise InputError(f"{path} holds no certificate of radii: {error}") from error
    if network.digest != facts["network"]:
        raise InputError(f"{path} is damaged: its network is not the one that was certified.")
    return certificate


def _facts(certificate: Certificate, network: Frozen, x: Tensor) -> dict[str, Any]:
    return {
        "version": VERSION,
        "network": network.digest,
        "norm": certificate.norm,
        "scale": list(certificate.scale),
        "kind": certificate.kind,
        "method": certificate.method,
        "methods": list(certificate.methods),
        "alpha": certificate.alpha,
        "arithmetic": certificate.arithmetic,
        "assumptions": list(certificate.assumptions),
        "inputs": [hashlib.sha256(row.cpu().contiguous().numpy().tobytes()).hexdigest() for row in x],
    }


@torch.no_grad()
def _check_inputs(certificate: Certificate, network: Frozen, x: Tensor) -> None:
    """Refuse inputs that the certificate is not about."""
    if len(x) != len(certificate.radius):
        raise InputError(f"The certificate is about {len(certificate.radius)} inputs, got {len(x)} instead.")
    said = predicted_class(network(x.cpu()))
    other = torch.nonzero((said != certificate.prediction.cpu()) & (certificate.radius.cpu() > 0))[:, 0]
    if len(other):
        first = int(other[0])
        raise InputError(
            f"The network returns class {int(said[first])} for input {first}, and the certificate says "
            f"{int(certificate.prediction[first])}: these are not the inputs that were certified."
        )


@torch.no_grad()
def _check_runtime(certificate: Certificate, network: Frozen, content: bytes, x: Tensor) -> None:
    """Refuse to write a file to which onnxruntime, with and without its optimizations, gives other answers."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        write_whole(path, content, durable=False)
        proved = torch.where(certificate.radius > 0, certificate.prediction, -1).cpu()
        for optimized in (False, True):
            runtime = OnnxRuntime(path, optimized)
            for random in probes(network.input_shape, torch.zeros(())):
                check_same(network(random), (runtime(random),) * 2)
            said = predicted_class(runtime(x))
            if bool(((said != proved) & (proved >= 0)).any()):
                raise InputError("onnxruntime returns another class for a certified input: the file is not written.")
