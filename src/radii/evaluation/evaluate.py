"""The evaluation of a model: clean, proved and unbroken accuracy, and each point's distance to an error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from radii.attacks.alarms import model_alarms, result_alarms
from radii.attacks.minimum_norm import MinimumNorm
from radii.attacks.suite import SAMPLE_SIZE, Member, SuiteResult, members, run_suite, suite_name
from radii.certificates.certificate import Certificate
from radii.certificates.choose import choose
from radii.errors import InputError, checked
from radii.evaluation.bracket import proved_in, reconciled
from radii.evaluation.scores import PointTable, Scores
from radii.models.adapter import BlackBox, ModelLike, Outputs, prepare
from radii.models.classifier import ask, check_inputs, check_labels, frozen, predict
from radii.randomness import stream
from radii.threat import Ball, per_row


@checked
def evaluate(
    model: ModelLike,
    x: ArrayLike | Tensor,
    y: ArrayLike | Tensor,
    ball: Ball | str,
    *,
    suite: str | None = None,
    certificate: Certificate | Literal["auto"] | None = "auto",
    seed: int = 0,
    surrogate: nn.Module | None = None,
    radii: bool | None = None,
    alarms: bool = True,
    lipschitz: bool = False,
    complete: float = 0.0,
    batch_size: int = 256,
    outputs: Outputs = "auto",
    nhwc: bool = False,
) -> Scores:
    """Clean accuracy, the bracket of robust accuracy and the broken radius of every point.

    The predictions are attacked, whatever the labels, so that one run gives robust accuracy and robustness
    with respect to predictions. Points whose certificate covers the ball are proved and not attacked in it.

    Args:
        model: a network from inputs to logits, or anything that :func:`radii.models.adapter.adapt` takes.
        x: inputs [n, …] in the ball's box, a tensor or an array; never changed.
        y: labels [n].
        ball: norm, radius and box of the perturbations, or their text (``linf:8/255``).
        suite: the attacks: ``standard``, ``fast``, ``sampled``, ``exhaustive``, ``black-box`` or ``pgd``; default
            ``standard``, or ``black-box`` for a model without gradients.
        certificate: ``auto`` (default): the strongest that the model allows
            (:func:`radii.certificates.choose.choose`); a certificate of the model as it is now; or None.
        seed: seed of all random numbers; default 0.
        surrogate: a second model from which a transfer attack starts; default none.
        radii: measure every point's distance to its nearest error by a minimum-norm attack, which also checks
            that no proved radius is wrong; default True, except for the suite ``black-box``.
        alarms: look for signs that the attacks fail for reasons other than robustness; default True.
        lipschitz: also estimate the local Lipschitz constant; default False.
        complete: seconds of complete verification for each point, which moves proved and broken radius towards
            each other; how far depends on the speed of the machine. Default 0: none.
        batch_size: inputs in one forward pass; default 256.
        outputs: what the model returns: ``auto`` (default), ``logits`` or ``probabilities``.
        nhwc: whether images have their channels last; default False.

    Returns:
        The scores: accuracies with intervals, and a table with one row per point.

    Raises:
        InputError: inputs outside the box, labels that do not fit, or an unknown suite.
        ContradictionError: a point is proved and broken.
    """
    if batch_size < 1 or complete < 0:
        raise InputError(f"batch_size must be at least 1 and complete at least 0, got {batch_size} and {complete:g}.")
    own, ball = prepare(model, x, y, outputs=outputs, nhwc=nhwc), Ball.of(ball)
    model, x, y = own.model, own.x, own.y
    suite = suite or ("black-box" if isinstance(model, BlackBox) else "standard")
    suite = suite_name(suite)
    attacks = members(suite, batch_size)
    if surrogate is not None:
        from radii.attacks.baseline import Transfer

        attacks += (Member("transfer", Transfer(surrogate, batch_size=batch_size)),)
    _check(model, x, y, ball)
    prediction = predict(model, x, batch_size)
    _check_predictions(prediction)
    if certificate == "auto":
        certificate = choose(model, x, ball).certificate
    if certificate is not None:
        certificate.check(model)
    warned = model_alarms(model, x, y, ball, seed) if alarms else []
    proved_radius, notes = proved_in(certificate, ball.norm, x, prediction)
    proved = proved_radius >= ball.radius if ball.radius > 0 else proved_radius > 0
    todo = torch.from_numpy(np.flatnonzero(~proved)).to(x.device)
    attacked = run_suite(
        attacks, model, x[todo], prediction[todo], ball, seed, sample=SAMPLE_SIZE if suite == "sampled" else None
    )
    reached = _Reached.of_suite(x, ball, todo, attacked)
    if radii if radii is not None else suite != "black-box":
        reached = reached.with_radii(model, x, prediction, ball, seed, batch_size)
    distance = reached.distance.cpu().numpy()
    proved_radius, more = reconciled(reached.nearest, prediction, proved_radius, distance, certificate)
    method = None if certificate is None else certificate.method
    if complete > 0:
        from radii.evaluation.closing import close_brackets

        before = proved_radius
        proved_radius, broken, nearest, closed = close_brackets(
            model, x, ball, before, reached.distance, reached.nearest, complete
        )
        reached = reached.with_errors(x, ball, nearest, broken, "complete")
        distance = reached.distance.cpu().numpy()
        proved, more = proved_radius >= ball.radius, more + closed
        if (proved_radius > before).any():
            method = " + ".join(filter(None, (method, "complete")))
    points = PointTable(
        label=y.cpu().numpy(),
        prediction=prediction.cpu().numpy(),
        adversarial_prediction=predict(model, reached.x_adv, batch_size).cpu().numpy(),
        proved_radius=proved_radius,
        proved=proved & (proved_radius >= ball.radius),
        changed=reached.changed.cpu().numpy(),
        changed_radius=distance,
        broken_by=reached.by,
        queries=reached.queries.cpu().numpy(),
    )
    if alarms:
        warned += result_alarms(_first_breaks(points, attacked.passes), len(y))
    steepness = None
    if lipschitz:
        from radii.evaluation.local_lipschitz import local_lipschitz

        steepness = local_lipschitz(model, x, ball, seed=seed, batch_size=batch_size).mean
    return Scores(
        ball, suite, seed, points, reached.passes, reached.x_adv, method, notes + more, tuple(warned),
        attacked.survivor_bound, steepness,
    )  # fmt: skip


@dataclass(frozen=True)
class _Reached:
    """The results of the attacks so far."""

    x_adv: Tensor  # worst input in the ball
    changed: Tensor
    nearest: Tensor  # nearest input with another prediction, in the ball or not
    distance: Tensor
    by: tuple[str, ...]
    queries: Tensor
    passes: dict[str, int]

    @classmethod
    def of_suite(cls, x: Tensor, ball: Ball, todo: Tensor, attacked: SuiteResult) -> _Reached:
        """A suite's result on the rows ``todo`` of ``x``, spread over all rows."""
        x_adv = x.float().clone()
        changed = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        queries = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        x_adv[todo], changed[todo], queries[todo] = attacked.x_adv, attacked.broken, attacked.queries
        # A success may exceed the radius by the rounding of a float32 input; it is a success at the radius.
        away = ball.distance(x.double(), x_adv.double()).clamp_max(ball.radius)
        by = [""] * len(x)
        for point, name in zip(todo.tolist(), attacked.broken_by, strict=True):
            by[point] = name
        distance = torch.where(changed, away, torch.inf)
        return cls(x_adv, changed, x_adv, distance, tuple(by), queries, dict(attacked.passes))

    def with_radii(
        self, model: nn.Module, x: Tensor, prediction: Tensor, ball: Ball, seed: int, batch_size: int
    ) -> _Reached:
        """These results joined with those of the minimum-norm attack on all points."""
        attack = MinimumNorm(batch_size=batch_size)
        near = attack.radii(model, x, prediction, ball, stream(seed, "attack", "minimum-norm"))
        return replace(
            self.with_errors(x, ball, near.x_adv, near.radius, "minimum-norm"),
            queries=self.queries + near.queries,
            passes={**self.passes, "minimum-norm": int(near.queries.sum())},
        )

    def with_errors(self, x: Tensor, ball: Ball, errors: Tensor, radius: Tensor, name: str) -> _Reached:
        """These results joined with ``errors`` at the distances ``radius`` (inf: none)."""
        closer = radius < self.distance
        inside = ball.contains(errors, x.float()) & (radius < torch.inf) & ~self.changed
        return replace(
            self,
            x_adv=torch.where(per_row(inside, x), errors, self.x_adv),
            changed=self.changed | inside,
            nearest=torch.where(per_row(closer, x), errors, self.nearest),
            distance=torch.where(closer, radius, self.distance),
            by=tuple(name if new else old for old, new in zip(self.by, inside.tolist(), strict=True)),
        )


def _check(model: nn.Module, x: Tensor, y: Tensor, ball: Ball) -> None:
    """Refuse inputs outside the box and labels that the model does not have."""
    check_inputs(x, ball.box)
    with torch.no_grad(), frozen(model):
        logits = ask(model, x[:1])
    check_labels(y, logits.expand(len(y), -1) if logits.dim() == 2 else logits)


def _check_predictions(prediction: Tensor) -> None:
    """Refuse a model that has no answer."""
    unknown = int((prediction < 0).sum())
    if unknown:
        raise InputError(
            f"The model's logits are NaN for {unknown} of {len(prediction)} inputs: it predicts no class there. "
            "Look for NaN or huge weights, and for inputs that it expects in another scale."
        )


def _first_breaks(points: PointTable, attacks: Iterable[str]) -> dict[str, int]:
    """Correct points by the attack that broke them first, in the order of the suite."""
    names: NDArray[np.str_] = np.array(points.broken_by)
    return {name: int(((names == name) & points.correct).sum()) for name in attacks}


def joined(parts: Sequence[Scores], model: nn.Module, x: Tensor, y: Tensor) -> Scores:
    """The scores ``parts`` of consecutive parts of ``x``, ``y``, evaluated without alarms, as one evaluation.

    Attacks treat each point alone, so nothing changes but the alarms, which come from ``model`` and all points.
    """
    first = parts[0]
    arrays = [field.name for field in fields(PointTable) if field.name != "broken_by"]
    points = PointTable(
        broken_by=tuple(name for part in parts for name in part.points.broken_by),
        **{name: np.concatenate([getattr(part.points, name) for part in parts]) for name in arrays},
    )
    suite = [member.name for member in members(first.suite)]
    return replace(
        first,
        points=points,
        passes={name: sum(part.passes.get(name, 0) for part in parts) for name in first.passes},
        x_adv=torch.cat([part.x_adv for part in parts]),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        alarms=(
            *model_alarms(model, x, y, first.ball, first.seed),
            *result_alarms(_first_breaks(points, suite), len(y)),
        ),
    )
