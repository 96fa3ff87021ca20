"""The evaluation under a change of images: the weakest change that errs, and the strongest that is proved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from radii.attacks.change_grid import NAME as GRID
from radii.attacks.change_grid import ChangeGrid
from radii.certificates.choose import PASSES
from radii.change import Change
from radii.errors import InputError
from radii.evaluation.scores import PointTable, Scores
from radii.models.adapter import BlackBox
from radii.models.classifier import check_inputs, predict
from radii.randomness import stream
from radii.verification.change_radius import ChangeBracket, change_radii
from radii.verification.true_radius import RadiusBracket

PIECES = "pieces"  # the name of the proof


@dataclass(frozen=True)
class ChangeMeeting:
    """What attack and proof say of the prediction of each image; ``refusal``: why nothing is proved."""

    bracket: RadiusBracket
    prediction: Tensor
    queries: Tensor
    refusal: str | None = None

    @property
    def note(self) -> str:
        """What a reader must know of the proofs."""
        return self.bracket.note if isinstance(self.bracket, ChangeBracket) else ""


def meet_change(
    model: nn.Module, x: Tensor, change: Change, *, prove: bool = True, seed: int = 0, seconds: float = 0.0
) -> ChangeMeeting:
    """Attack the prediction at each image of ``x`` [n, …] by a grid, then prove it up to the errors.

    Args:
        prove: False only attacks.
        seconds: of proof for each image; 0: as many pieces as ``auto`` allows forward passes, so that no clock decides.
    """
    check_inputs(x)
    prediction = predict(model, x)
    if bool((prediction < 0).any()):
        raise InputError("The model's logits are NaN for some inputs: it predicts no class there.")
    met = ChangeGrid()(model, x, prediction, change, stream(seed, "attack", GRID))
    start = RadiusBracket(prediction.cpu(), torch.zeros(len(x), dtype=torch.float64), met.radius, met.x_adv.cpu())
    refusal = None
    if prove and change.form == "attack":
        refusal = f"For {change.words} there is no proof, only the attack."
    elif prove and isinstance(model, BlackBox):
        refusal = "The model only answers; its layers cannot be bounded."
    elif prove:
        try:
            return ChangeMeeting(_proved(model, x, change, start, seconds), prediction.cpu(), met.queries.cpu())
        except InputError as why:
            refusal = str(why)
    return ChangeMeeting(start, prediction.cpu(), met.queries.cpu(), refusal)


def _proved(model: nn.Module, x: Tensor, change: Change, start: RadiusBracket, seconds: float) -> ChangeBracket:
    limits = {"seconds": seconds} if seconds > 0 else {"pieces": PASSES}
    return change_radii(model, x, change, start=start, **limits)  # type: ignore[arg-type]


def change_scores(
    model: nn.Module, x: Tensor, y: Tensor, change: Change, *, prove: bool, seed: int, seconds: float
) -> Scores:
    """The scores of ``model`` at images ``x`` [n, …] with labels ``y`` [n] under ``change``."""
    met = meet_change(model, x, change, prove=prove, seed=seed, seconds=seconds)
    proved, broken = met.bracket.proved.numpy(), met.bracket.broken.numpy()
    changed = (broken <= change.radius) & np.isfinite(broken)
    beside = torch.from_numpy(~changed).view(-1, *[1] * (x.dim() - 1))
    x_adv = torch.where(beside, x.cpu(), met.bracket.nearest)
    points = PointTable(
        label=y.cpu().numpy(),
        prediction=met.prediction.numpy(),
        adversarial_prediction=predict(model, x_adv.to(x)).cpu().numpy(),
        proved_radius=proved,
        proved=(proved >= change.radius) & ~changed,
        changed=changed,
        changed_radius=broken,
        broken_by=tuple(GRID if hit else "" for hit in changed.tolist()),
        queries=met.queries.numpy(),
    )
    notes = tuple(filter(None, (met.refusal and f"Nothing is proved: {met.refusal}", met.note)))
    passes = {GRID: int(met.queries.sum())}
    method = None if met.refusal or not prove else PIECES
    return Scores(change, GRID, seed, points, passes, x_adv, method, notes)
