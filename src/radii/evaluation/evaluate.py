"""The evaluation of a model: clean, proved and unbroken accuracy, and each point's distance to an error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom
from torch import Tensor, nn

from radii.attacks import GRADIENT_FREE
from radii.attacks.exact import exact_errors
from radii.attacks.minimum_norm import BrokenRadii, MinimumNorm
from radii.attacks.suite import SAMPLE_SIZE, Member, SuiteResult, members, run_suite, suite_name
from radii.certificates.certificate import Certificate
from radii.certificates.choose import certify, choose
from radii.certificates.methods import AUTO
from radii.change import Change, given_threat, threat_of
from radii.change_kinds import GRID, PIECES
from radii.errors import ContradictionError, InputError, checked
from radii.evaluation._trust_alarms import model_alarms, result_alarms, say_clean_accuracy
from radii.evaluation.scores import EXACT, MINIMUM_NORM, PointTable, Scores
from radii.models.adapter import BlackBox, ModelLike, Outputs, prepare
from radii.models.classifier import check_inputs, check_labels, predict
from radii.networks.calling import ask, frozen, predicted_class
from radii.randomness import stream
from radii.threat import Ball, Box, per_row


@checked
def evaluate(
    model: ModelLike,
    x: ArrayLike | Tensor,
    y: ArrayLike | Tensor | str | None = None,
    threat: Ball | Change | str | None = None,
    *,
    suite: str | None = None,
    certificate: Certificate | str | None = AUTO,
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
        x: inputs [n, …] in the ball's box: a tensor, an array, a list of PIL images, a data frame; never changed. Or
            what has the labels, too: a radii.Dataset, the name of a dataset, whose test points are taken, a
            DataLoader, a dataset of torch or of Hugging Face.
        y: labels [n], numbers or words; the name of the column of labels, or None, if ``x`` has them.
        threat: must be given: norm, radius and box of the perturbations, or their text (``linf:8/255``); or a change
            of images, as ``brightness:0.2``, whose radius is its strength. A change is attacked by a grid of its
            parameters, and of the arguments below only ``certificate`` (None: no proof), ``seed`` and ``complete``
            matter.
        suite: the attacks: ``standard``, ``fast``, ``sampled``, ``exhaustive``, ``black-box`` or ``pgd``; default
            ``standard``, ``black-box`` for a model without gradients, or ``decisions`` for one that only names classes.
        certificate: ``auto`` (default): the strongest that the model allows
            (:func:`radii.certificates.choose.choose`); the name of another method, as :func:`radii.certify` takes
            it; a certificate of the model as it is now; or None.
        seed: seed of all random numbers; default 0.
        surrogate: a second model from which a transfer attack starts; default none.
        radii: measure every point's distance to its nearest error by a minimum-norm attack, which also checks
            that no proved radius is wrong; default True, except without gradients. Models whose nearest
            errors are known exactly (linear ones) are asked for these instead, and a suite attacks what is left.
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
    wanted: Ball | Change | str = given_threat("evaluate", threat)
    ball = threat_of(wanted)
    own = prepare(model, x, y, outputs=outputs, nhwc=nhwc)
    if isinstance(ball, Change):
        if suite not in (None, GRID):
            raise InputError(f"Changes of images are attacked by the suite 'grid', got {suite!r}: leave suite out.")
        if isinstance(certificate, Certificate) or certificate not in (AUTO, PIECES, None):
            raise InputError("Changes of images are proved by 'pieces': leave certificate out, or give None.")
        from radii.evaluation.change_scores import change_scores  # loaded where it is asked for

        return change_scores(own.model, own.x, own.y, ball, prove=certificate is not None, seed=seed, seconds=complete)
    ball = own.within(ball)
    if isinstance(certificate, Certificate):
        certificate.check(model if isinstance(model, nn.Module) else own.model)
    model, x, y = own.model, own.x, own.y
    suite = suite or (model.suite if isinstance(model, BlackBox) else "standard")
    suite = suite_name(suite)
    attacks = members(suite, batch_size)
    if surrogate is not None:
        from radii.attacks.gradient_free import Transfer

        attacks += (Member("transfer", Transfer(surrogate, batch_size=batch_size)),)
    prediction = look_first(model, x, y, ball.box, batch_size, say=alarms)
    if certificate == AUTO:
        certificate = choose(model, x, ball).certificate
    elif isinstance(certificate, str):
        certificate = certify(model, x, certificate, ball)
    warned = model_alarms(model, x, y, ball, seed) if alarms else []
    proved_radius, notes = proved_in(certificate, ball, x, prediction)
    notes += (ONLY_CLASSES,) if isinstance(model, BlackBox) and model.decisions else ()
    proved = proved_radius >= ball.radius if ball.radius > 0 else proved_radius > 0
    exact = exact_errors(model, x, prediction, ball)
    decided = proved if exact is None else proved | _is_known(exact, proved_radius, x, ball)
    todo = torch.from_numpy(np.flatnonzero(~decided)).to(x.device)
    attacked = run_suite(
        attacks, model, x[todo], prediction[todo], ball, seed, sample=SAMPLE_SIZE if suite == "sampled" else None
    )
    reached = _Reached.of_suite(x, ball, todo, attacked)
    if exact is not None:
        reached = reached.with_exact(x, ball, exact)
    elif radii if radii is not None else suite not in GRADIENT_FREE:
        reached = reached.with_radii(model, x, prediction, ball, seed, batch_size)
    distance = reached.distance.cpu().numpy()
    proved_radius, more = _reconciled(reached.nearest, prediction, proved_radius, distance, certificate)
    method = None if certificate is None else certificate.method
    proved_by = _methods(certificate, len(x))
    if complete > 0:
        before = proved_radius
        proved_radius, broken, nearest, closed = _close_brackets(
            model, x, ball, before, reached.distance, reached.nearest, complete
        )
        reached = reached.with_errors(x, ball, nearest, broken, "complete")
        distance = reached.distance.cpu().numpy()
        proved, more = proved_radius >= ball.radius, more + closed
        proved_by = np.where(proved_radius > before, "complete", proved_by)
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
        proved_by=tuple(np.where(proved_radius > 0, proved_by, "").tolist()),
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
        # A success lies in the ball; its float64 distance may exceed the radius by rounding.
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
        near = attack.radii(model, x, prediction, ball, stream(seed, "attack", MINIMUM_NORM))
        return replace(
            self.with_errors(x, ball, near.x_adv, near.radius, MINIMUM_NORM),
            queries=self.queries + near.queries,
            passes={**self.passes, MINIMUM_NORM: int(near.queries.sum())},
        )

    def with_exact(self, x: Tensor, ball: Ball, exact: BrokenRadii) -> _Reached:
        """These results joined with the nearest errors of a model whose nearest errors are known."""
        return replace(
            self.with_errors(x, ball, exact.x_adv, exact.radius, EXACT),
            queries=self.queries + exact.queries,
            passes={**self.passes, EXACT: int(exact.queries.sum())},
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


def _is_known(exact: BrokenRadii, proved: NDArray[np.float64], x: Tensor, ball: Ball) -> NDArray[np.bool_]:
    """Where no other attack can tell anything new: an error lies in the ball, or as near as is proved."""
    broken = exact.radius.cpu().numpy()
    met = np.isfinite(broken) & (np.where(np.isfinite(broken), broken, 0.0) * (1 - MET) <= proved)
    return np.asarray(exact.inside(x, ball).cpu().numpy() | met)


def look_first(
    model: nn.Module, x: Tensor, y: Tensor, box: Box | None, batch_size: int = 256, *, say: bool = True
) -> Tensor:
    """Before any proof or attack: refuse what does not fit together, and say how many clean points are right.

    Refused are inputs outside the box, labels that the model does not have, and a model without an answer.

    Args:
        x: inputs [n, …].
        y: labels [n].
        say: whether to say the clean accuracy.

    Returns:
        The model's classes [n].
    """
    check_inputs(x, box)
    with torch.no_grad(), frozen(model):
        logits = ask(model, x[:1])
    check_labels(y, logits.expand(len(y), -1) if logits.dim() == 2 else logits)
    prediction = predict(model, x, batch_size)
    unknown = int((prediction < 0).sum())
    if unknown:
        raise InputError(
            f"The model's logits are NaN for {unknown} of {len(prediction)} inputs: it predicts no class there. "
            "Look for NaN or huge weights, and for inputs that it expects in another scale."
        )
    if say:
        say_clean_accuracy(model, x, y, prediction)
    return prediction


def _methods(certificate: Certificate | None, count: int) -> NDArray[np.object_]:
    """The method by which a certificate says something of each of ``count`` points."""
    if certificate is None:
        return np.full(count, "", dtype=object)
    return np.array(certificate.methods or [certificate.method] * count, dtype=object)


def _first_breaks(points: PointTable, attacks: Iterable[str]) -> dict[str, int]:
    """Correct points by the attack that broke them first, in the order of the suite."""
    names: NDArray[np.str_] = np.array(points.broken_by)
    return {name: int(((names == name) & points.correct).sum()) for name in attacks}


def joined(parts: Sequence[Scores], model: nn.Module, x: Tensor, y: Tensor) -> Scores:
    """The scores ``parts`` of consecutive parts of ``x``, ``y``, evaluated without alarms, as one evaluation.

    Attacks treat each point alone, so nothing changes but the alarms, which come from ``model`` and all points.
    """
    first = parts[0]
    columns: dict[str, Any] = {}
    for field in fields(PointTable):
        each = [getattr(part.points, field.name) for part in parts]
        columns[field.name] = (
            tuple(word for words in each for word in words) if isinstance(each[0], tuple) else np.concatenate(each)
        )
    points = PointTable(**columns)
    suite = [] if isinstance(first.ball, Change) else [member.name for member in members(first.suite)]
    return replace(
        first,
        points=points,
        passes={name: sum(part.passes.get(name, 0) for part in parts) for name in first.passes},
        x_adv=torch.cat([part.x_adv for part in parts]),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        alarms=()
        if isinstance(first.ball, Change)
        else (
            *model_alarms(model, x, y, first.ball, first.seed),
            *result_alarms(_first_breaks(points, suite), len(y)),
        ),
    )


CHANCE = 1e-6  # a probabilistic certificate is contradicted if so many failures have a smaller probability


def proved_in(
    certificate: Certificate | None, ball: Ball, x: Tensor, prediction: Tensor
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Per point, the radius in the norm of ``ball`` that is proved for the model's prediction, and notes about it.

    Args:
        certificate: the certificate, or None.
        ball: with the norm and the scale of the result; radii in another norm are converted.
        x: the inputs [n, …].
        prediction: the model's predictions [n].
    """
    if certificate is None:
        return np.zeros(len(x)), ()
    if len(certificate.radius) != len(x):
        raise InputError(f"The certificate must have one row per point: {len(x)}, got {len(certificate.radius)}.")
    if not certificate.is_certified:
        return np.zeros(len(x)), (f"{certificate.method} is an estimate: nothing counts as proved.",)
    other = (certificate.prediction >= 0) & (certificate.radius > 0) & (certificate.prediction != prediction.cpu())
    if bool(other.any()):
        raise ContradictionError(
            f"The certificate ({certificate.method}) and the model predict different classes on {int(other.sum())} "
            "of the points: it belongs to another model or to other points."
        )
    radius = torch.where(certificate.prediction >= 0, certificate.radius.double(), 0.0)
    notes: tuple[str, ...] = ()
    if certificate.norm == "change":
        raise InputError("The certificate is about a change of images; give evaluate that change as its threat.")
    if (certificate.norm, certificate.scale) != (ball.norm, ball.scale):
        radius = replace(certificate, radius=radius).radius_in(ball, x[0].numel())
        scaled = " in the ball's scale" if ball.scale else ""
        notes += (f"The certificate is in {certificate.norm}; its radii were converted to {ball.norm}{scaled}.",)
    if certificate.alpha is not None:
        notes += (f"Proved up to an error probability of {certificate.alpha:g} per point.",)
    return radius.numpy(), notes


def _reconciled(
    nearest: Tensor,
    prediction: Tensor,
    proved: NDArray[np.float64],
    broken: NDArray[np.float64],
    certificate: Certificate | None,
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """The proved radii, each at most the broken radius of its point, and notes about those that were lowered.

    A proved radius above a broken one has two explanations. Rounding: the certificate is about exact
    arithmetic, and the certified function does not err at the misclassified input. Chance: a probabilistic
    certificate may fail on a share alpha of the points.

    Args:
        nearest: the nearest misclassified input of each point [n, …].
        prediction: the predictions [n].
        proved: the proved radii [n].
        broken: the distances of ``nearest`` [n].
        certificate: the certificate, or None.
    """
    over = np.flatnonzero(proved > broken * (1 + 1e-6) + 1e-7)
    if certificate is None or not len(over):
        return proved, ()
    rounding = _rounding_only(certificate, nearest[over], prediction[over])
    false = over[~rounding]
    allowed = 0.0 if certificate.alpha is None else float(binom.isf(CHANCE, len(proved), certificate.alpha))
    if len(false) > allowed:
        first = int(false[0])
        raise ContradictionError(
            f"{len(false)} of {len(proved)} points are broken inside their proved radius; point {first}: "
            f"proved {proved[first]:.6g}, broken {broken[first]:.6g} ({certificate.method}). "
            "The certificate or its model is wrong."
        )
    notes = []
    if rounding.any():
        notes.append(f"{int(rounding.sum())} proved radii were cut by the rounding of float32.")
    if len(false):
        notes.append(f"{len(false)} points break a probabilistic certificate, as alpha allows; they count as broken.")
    return np.minimum(proved, np.where(np.isin(np.arange(len(proved)), over), broken, np.inf)), tuple(notes)


def _rounding_only(certificate: Certificate, nearest: Tensor, prediction: Tensor) -> NDArray[np.bool_]:
    """Where the function that was certified keeps its prediction at these inputs: [m] bool.

    A certificate that covers float32 speaks about the model itself, and rounding is no excuse.
    """
    if certificate.exact_logits is None:
        return np.zeros(len(nearest), bool)
    with torch.no_grad():
        return (predicted_class(certificate.exact_logits(nearest.double().cpu())) == prediction.cpu()).numpy()


ONLY_CLASSES = (
    "The model names a class and gives no scores, so a decision-based attack searched for errors. It is weak: a point "
    "that it left may still be easy to break."
)
MET = 0.01  # proved and broken radius that differ by this share are one
FURTHEST = 4.0  # balls' radii up to which a radius is asked for where no attack found an error


def _close_brackets(
    model: nn.Module,
    x: Tensor,
    ball: Ball,
    proved: NDArray[np.float64],
    broken: Tensor,
    nearest: Tensor,
    seconds: float,
) -> tuple[NDArray[np.float64], Tensor, Tensor, tuple[str, ...]]:
    """Move the proved and the broken radius of every point towards each other, by complete verification.

    Args:
        x: inputs [n, …].
        ball: norm and box; points that no attack broke are asked up to four times its radius.
        proved: radii that are proved so far [n].
        broken: distances of the nearest errors found so far [n], inf where none is.
        nearest: these errors [n, …].
    """
    from radii.verification.true_radius import TOLERANCE, RadiusBracket, true_radii  # loaded where it is asked for

    start = RadiusBracket(
        torch.zeros(len(x), dtype=torch.int64),
        torch.from_numpy(proved).double(),
        broken.double().cpu(),
        nearest.float().cpu(),
    )
    largest = max([FURTHEST * ball.radius, *start.broken[start.broken.isfinite()].tolist()])
    try:
        found = true_radii(model.cpu(), x.float().cpu(), largest, like=ball, seconds=seconds, start=start)
    except InputError as refusal:
        return proved, broken, nearest, (f"Complete verification is not possible: {refusal}",)
    note = (
        f"Complete verification, {seconds:g} s a point at most: proved and broken radius are moved towards each other "
        f"until they meet to {TOLERANCE:.0%}."
    )
    device = broken.device
    return found.proved.numpy(), found.broken.to(device), found.nearest.to(device), (note,)
