"""What a trial of the campaign counts, and how a certificate is tried."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Generator, Tensor, nn

import radii
from radii.certificates.certificate import Certificate
from radii.errors import InputError
from radii.threat import Norm

METHODS = ("auto", "margin", "ibp", "crown-ibp", "crown", "alpha-crown", "sdp-crown", "complete")
NORMS = {"margin": "l2", "sdp-crown": "l2"}  # methods that know one norm only
RADII = (0.003, 0.01, 0.03, 0.1, 0.3)
SECONDS = 0.3  # of complete proofs, for each input and radius
EXPORTED = 5  # of so many networks one is also exported and run by onnxruntime


@dataclass
class Tally:
    """Totals of trials.

    Attributes:
        networks: networks that were built.
        refused: certifications that were refused with a sentence.
        certificates: points with a positive proved radius.
        points: inputs inside proved balls at which the deployed network was asked.
        false: certificates that an input inside the ball contradicts.
        crashed: certifications that ended with anything but a certificate or a sentence.
        notes: how to repeat what failed.
    """

    networks: int = 0
    refused: int = 0
    certificates: int = 0
    points: int = 0
    false: int = 0
    crashed: int = 0
    notes: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Add the counts of ``other``."""
        for name, value in asdict(other).items():
            setattr(self, name, getattr(self, name) + value)


def points_inside(x: Tensor, radius: Tensor, norm: Norm, count: int, generator: Generator) -> Tensor:
    """``count`` inputs of each ball, in the box: at random, far corners and rims; [count, n, …] float32."""
    shape = (count, *x.shape)
    noise = torch.randn(shape, generator=generator)
    if norm == "linf":
        corner = noise.sign()
        share = torch.rand((count, len(x)), generator=generator)
        inner = torch.rand(shape, generator=generator) * 2 - 1
        pick = (share < 0.6).view(count, len(x), *[1] * (x.ndim - 1))
        step = torch.where(pick, corner, inner)
        reach = 1 - 1e-6
    else:
        step = noise / noise.flatten(2).norm(dim=2).clamp_min(1e-30).view(count, len(x), *[1] * (x.ndim - 1))
        reach = 1 - 1e-5
    away = step * reach * radius.float().view(1, -1, *[1] * (x.ndim - 1))
    return (x + away).clamp(0, 1)


def descend(model: nn.Module, x: Tensor, radius: Tensor, own: Tensor, norm: Norm, steps: int = 8) -> Tensor:
    """Inputs of each ball that a few gradient steps make less like the predicted class; [n, …]."""
    view = (-1, *[1] * (x.ndim - 1))
    reach, point = radius.float().view(view), x.clone()
    for _ in range(steps):
        point = point.detach().requires_grad_()
        logits = model(point.clone())
        if not logits.requires_grad:
            break
        rival = logits.scatter(1, own[:, None], -torch.inf).amax(1)
        lead = (rival - logits.gather(1, own[:, None])[:, 0]).sum()
        try:
            (slope,) = torch.autograd.grad(lead, point, allow_unused=True)
        except RuntimeError:  # a network that overwrites what its own gradient needs
            break
        if slope is None:
            break
        slope = slope.nan_to_num()
        if norm == "linf":
            step = (point.detach() + 0.5 * reach * slope.sign() - x).clamp(-reach, reach)
        else:
            unit = slope / slope.flatten(1).norm(dim=1).clamp_min(1e-30).view(view)
            step = point.detach() + 0.5 * reach * unit - x
            step = step * (reach / step.flatten(1).norm(dim=1).clamp_min(1e-30).view(view)).clamp_max(1 - 1e-6)
        point = (x + step * (1 - 1e-6)).clamp(0, 1)
    return point.detach()


def contradicted(model: nn.Module, points: Tensor, own: Tensor, batch: int) -> Tensor:
    """Which of the certificates some of their points contradict; points [count, n, …], own [n]."""
    wrong = torch.zeros(len(own), dtype=torch.bool)
    flat, answer = points.flatten(0, 1), own.repeat(len(points))
    rows = torch.arange(len(own)).repeat(len(points))
    with torch.no_grad():
        for part in torch.arange(len(flat)).split(batch):
            wrong[rows[part][model(flat[part].clone()).argmax(1) != answer[part]]] = True
    return wrong


def exported_wrong(proof: Certificate, x: Tensor, points: Tensor, own: Tensor) -> Tensor:
    """Which certificates onnxruntime's default session contradicts with the file of ``proof``."""
    import onnxruntime

    with TemporaryDirectory() as folder:
        proof.save(Path(folder) / "network.onnx", x)
        session = onnxruntime.InferenceSession(Path(folder) / "network.onnx")
    said = session.run(None, {"pixels": points.flatten(0, 1).numpy()})[0].argmax(1)
    return (torch.from_numpy(said).view(len(points), -1) != own).any(0)


def methods_for(norm: Norm) -> list[str]:
    """The methods that prove balls of ``norm``."""
    return [method for method in METHODS if NORMS.get(method, norm) == norm]


def try_certificates(model: nn.Module, x: Tensor, norm: Norm, seed: int, count: int, label: str) -> Tally:
    """Certify ``x`` by every method and ask the model itself inside every proved ball."""
    tally, generator = Tally(networks=1), Generator().manual_seed(seed)
    for method in methods_for(norm):
        given = x.clone()
        try:
            proof = radii.certify(model, given, method=method, norm=norm, radii=RADII, seconds=SECONDS)
        except InputError:
            tally.refused += 1
            continue
        except Exception as error:
            tally.crashed += 1
            tally.notes.append(f"{method} {norm}: {type(error).__name__}: {error}"[:200] + f" in {label}")
            continue
        if not torch.equal(given, x):
            tally.false += 1
            tally.notes.append(f"{label} {method} {norm}: the caller's inputs were changed")
        rows = torch.nonzero((proof.radius > 0) & (proof.prediction >= 0))[:, 0]
        if len(rows) == 0:
            continue
        radius, own, some = proof.radius[rows].clamp_max(10.0), proof.prediction[rows], x[rows]
        was_training = model.training
        model.eval()
        inside = points_inside(some, radius, norm, count, generator)
        wrong = contradicted(model, inside, own, batch=4096) | contradicted(model, inside[:3], own, batch=3)
        wrong |= contradicted(model, descend(model, some, radius, own, norm)[None], own, batch=1 + seed % 5)
        model.train(was_training)
        if proof.network is not None:
            wrong |= contradicted(proof.network, inside, own, batch=4096)
            wrong |= contradicted(proof.network, descend(proof.network, some, radius, own, norm)[None], own, batch=1)
            if seed % EXPORTED == 0 and proof.network.program.dtype == torch.float32:
                wrong |= exported_wrong(proof, x, inside[:64], own)
        tally.certificates += len(rows)
        tally.points += len(rows) * (count + 4)
        tally.false += int(wrong.sum())
        if wrong.any():
            tally.notes.append(f"{method} {norm}: {int(wrong.sum())} of {len(rows)} certificates are false in {label}")
    return tally
