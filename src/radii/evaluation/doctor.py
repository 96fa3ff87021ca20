"""Will an evaluation of this model on these data mean something, and how long will it take?

Everything is tried on a few points. How many follows from the operations of one forward pass, so that a large
network is examined in about ten seconds, too; no clock decides it. Only the expected times are measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from radii.attacks.caveats import Alarm
from radii.attacks.losses import cross_entropy
from radii.certificates.choose import PASSES, choose
from radii.errors import InputError, checked
from radii.evaluation import _trust_alarms as alarms
from radii.evaluation._likely_cause import likely_cause
from radii.evaluation.accuracy import accuracy
from radii.evaluation.evaluate import look_first
from radii.models.adapter import BlackBox, ModelLike, Outputs, prepare
from radii.models.classifier import input_gradient
from radii.networks.calling import ask, frozen
from radii.tables import Table, Tabular, table
from radii.threat import Ball

Verdict = Literal["fine", "note", "doubtful", "wrong"]
VERSION = 1  # of the JSON
POINTS = 200  # points for the clean accuracy, at most
EVALUATED, ASSESSED = 1000, 500  # points that evaluate and assess take by default
ALLOWED = 1e11  # floating point operations of one check
LARGE = 4e9  # operations of one forward pass from which no bounds are tried
# Passes of the standard suite with the minimum-norm attack, per point: forward and backward together, forward alone.
UNBROKEN, BROKEN, FAST, ANSWERS = (2000, 5000), (120, 0), (200, 0), (0, 5000)


@dataclass(frozen=True)
class Finding:
    """One check.

    Attributes:
        check: what was looked at.
        verdict: ``fine``, ``note``, ``doubtful``, or ``wrong``: a result would not mean what it says.
        says: what was found.
        remedy: what to do; empty where nothing is to be done.
    """

    check: str
    verdict: Verdict
    says: str
    remedy: str = ""


@dataclass(frozen=True, repr=False)
class Diagnosis(Tabular):
    """What :func:`doctor` found, in the order in which it was looked at."""

    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return all(finding.verdict != "wrong" for finding in self.findings)

    @property
    def remedies(self) -> tuple[str, ...]:
        """What to do, the worst first."""
        order = ("wrong", "doubtful", "note", "fine")
        told = sorted((each for each in self.findings if each.remedy), key=lambda each: order.index(each.verdict))
        return tuple(f"{each.check}: {each.remedy}" for each in told)

    def table(self, title: str = "") -> Table:
        """A row for each check."""
        rows = [{"check": each.check, "verdict": each.verdict, "finding": each.says} for each in self.findings]
        return table(rows, ["check", "verdict", "finding"], title)

    def summary(self) -> dict[str, Any]:
        """All findings as JSON data."""
        return {"version": VERSION, "passed": self.passed, "findings": [asdict(each) for each in self.findings]}

    def __repr__(self) -> str:
        lines = [f"{each.check} ({each.verdict}): {each.says} {each.remedy}".rstrip() for each in self.findings]
        return "\n".join(lines)


@checked
def doctor(
    model: ModelLike,
    x: ArrayLike | Tensor,
    y: ArrayLike | Tensor | str | None = None,
    threat: Ball | str | None = None,
    *,
    seed: int = 0,
    outputs: Outputs = "auto",
    nhwc: bool = False,
) -> Diagnosis:
    """Look at a model and its data before an evaluation, in about ten seconds.

    Shapes, range, labels, clean accuracy, normalization and order of the classes, randomness, gradients, whether
    proofs are possible, and the expected time. Everything is tried on a few points, and every finding says on how many.

    Args:
        model: a network from inputs to logits, or anything that :func:`radii.evaluate` takes.
        x: inputs [n, …], a tensor or an array; never changed.
        y: labels [n]; None if ``x`` has them, as in :func:`radii.evaluate`.
        threat: the ball of the evaluation, or its text; default ``linf:8/255`` for inputs in [0, 1], else
            ``linf:0.1,nobox``.
        seed: seed of the short attacks; default 0.
        outputs: what the model returns: ``auto`` (default), ``logits`` or ``probabilities``.
        nhwc: whether images have their channels last; default False.

    Returns:
        The findings; ``passed`` says whether nothing is wrong, ``remedies`` what to do.

    Raises:
        InputError: the threat is not understood.
    """
    ball = None if threat is None else Ball.of(threat)
    try:
        own = prepare(model, x, y, outputs=outputs, nhwc=nhwc)
        return examined(own.model, own.x, own.y, own.within(ball or usual(own.x)), seed, len(own.x))
    except InputError as refusal:
        return Diagnosis((refused("model and inputs", refusal),))


def examined(model: nn.Module, x: Tensor, y: Tensor, ball: Ball, seed: int, total: int) -> Diagnosis:
    """The findings about a module on some points.

    Args:
        x: inputs [n, …].
        y: labels [n].
        total: test points that there are; the expected times are about as many of them as a command takes.
    """
    try:
        return Diagnosis(tuple(_Patient(model, *_spread(x, y), ball, seed, total).findings()))
    except InputError as refusal:
        return Diagnosis((refused("model and inputs", refusal),))


def refused(check: str, refusal: InputError) -> Finding:
    """The finding that something cannot be used; the refusal says what would be."""
    return Finding(check, "wrong", str(refusal), "Mend this first; the other checks need it.")


def usual(x: Tensor) -> Ball:
    """The threat that is tried where the user names none."""
    inside = x.dim() == 4 or bool((x.min() >= 0) & (x.max() <= 1))
    return Ball("linf", 8 / 255) if inside else Ball("linf", 0.1, None)


def _spread(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """At most POINTS points from all over the data, which may be sorted by class."""
    rows = torch.linspace(0, len(x) - 1, min(POINTS, len(x))).long()
    return x[rows], y[rows]


@dataclass(frozen=True)
class _Patient:
    """A model with the points on which it is tried."""

    model: nn.Module
    x: Tensor
    y: Tensor
    ball: Ball
    seed: int
    total: int

    def findings(self) -> Iterator[Finding]:
        """All checks; those after a refusal are left out."""
        yield self._inputs()
        count = self._affordable(passes=1, least=20)
        x, y = self.x[:: max(1, len(self.x) // count)], self.y[:: max(1, len(self.y) // count)]
        prediction = look_first(self.model, x, y, self.ball.box, say=False)
        yield self._answers()
        yield from self._clean(x, y, prediction)
        steady = self._as_finding("randomness", list(alarms.randomized(self.model, x[:8])), "answers repeat")
        yield steady
        mode = list(alarms.train_mode(self.model))
        if mode:
            yield Finding("mode", "doubtful", mode[0].message)
        right = torch.nonzero(prediction == y)[:, 0]
        if steady.verdict == "fine":
            yield self._gradients(x[right], y[right])
            yield self._proofs(x[right])
        yield from self._times(x, y)

    def _affordable(self, passes: int, least: int) -> int:
        """How many points may be asked so often each."""
        cost = max(self.operations * passes, 1.0)
        return int(min(len(self.x), max(least, ALLOWED / cost)))

    @property
    def operations(self) -> float:
        """Floating point operations of a forward pass of one point; 0 where they cannot be counted."""
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counter, torch.no_grad(), frozen(self.model):
            ask(self.model, self.x[:1])
        return float(counter.get_total_flops())

    def _inputs(self) -> Finding:
        shape, kind = " × ".join(map(str, self.x.shape[1:])), str(self.x.dtype).removeprefix("torch.")
        low, high = float(self.x.min()), float(self.x.max())
        says = f"{shape} numbers in [{low:.3g}, {high:.3g}], {kind}; labels {int(self.y.min())}..{int(self.y.max())}"
        if self.x.dim() == 4 and low >= 0 and high <= 1 / 200:
            return Finding("inputs", "wrong", says, "They were divided by 255 twice: give them in [0, 1].")
        return Finding("inputs", "fine", says)

    def _answers(self) -> Finding:
        with torch.no_grad(), frozen(self.model):
            classes = ask(self.model, self.x[:1]).shape[1]
        weights = sum(parameter.numel() for parameter in self.model.parameters())
        size = f", {weights:,} weights" if weights else ""
        absent = classes - int(self.y.max()) - 1
        if absent > max(1, classes // 2):
            remedy = "Check that a label is the number of the same class in the model: these data use few of them."
            return Finding("answers", "doubtful", f"{classes} classes, labels up to {int(self.y.max())}{size}", remedy)
        return Finding("answers", "fine", f"{classes} classes{size}")

    def _clean(self, x: Tensor, y: Tensor, prediction: Tensor) -> Iterator[Finding]:
        clean = accuracy((prediction == y).tolist())
        few = "; few points, so the interval is wide" if len(y) < 100 else ""
        says = f"{clean} of {len(y)} points{few}"
        chance = list(alarms.at_chance(x, y, prediction, self.model))
        cause = likely_cause(self.model, x, y) if clean.interval[1] < 0.9 or chance else None
        yield Finding(
            "clean accuracy", "wrong" if chance else "fine", says + ("; guessing reaches that, too" if chance else "")
        )
        tried = "as given" if clean.interval[1] >= 0.9 else "no other scale that was tried is better"
        orders = "the data's" if clean.interval[1] >= 0.9 else "no other order is better"
        for kind, name, fine in (("scale", "normalization", tried), ("order", "order of classes", orders)):
            if cause is not None and cause.kind == kind:
                seen = f"with {cause.what} {cause.right} of {cause.points} points are right, instead of {cause.given}"
                yield Finding(name, "wrong", seen, cause.remedy)
            elif not chance:
                yield Finding(name, "fine", fine)
        if chance and cause is None:
            remedy = "Does it have its weights, and were they trained on such inputs with these classes?"
            yield Finding("weights", "wrong", "no scale and no order of classes that was tried is better", remedy)

    def _as_finding(self, check: str, told: list[Alarm], fine: str) -> Finding:
        if not told:
            return Finding(check, "fine", fine)
        remedies = " ".join(dict.fromkeys(REMEDIES[alarm.name] for alarm in told))
        return Finding(check, "wrong", " ".join(alarm.message for alarm in told), remedies)

    def _gradients(self, x: Tensor, y: Tensor) -> Finding:
        if isinstance(self.model, BlackBox) or not alarms.differentiable(self.model, self.x[:1]):
            suite = getattr(self.model, "suite", "black-box")
            remedy = f"Attacks ask for outputs only: --suite {suite}, the default for such a model."
            return Finding("gradients", "note", "none", remedy)
        if not len(x):
            return Finding("gradients", "note", "not tried: no point is classified correctly")
        few = max(1, min(16, self._affordable(passes=3 * alarms.STEPS, least=2)))
        told = list(alarms.gradients(self.model, x[:few].float(), y[:few], self.ball, self.seed))
        fine = f"present; {alarms.STEPS} steps along them raise the loss at {min(few, len(x))} points"
        return self._as_finding("gradients", told, fine)

    def _proofs(self, x: Tensor) -> Finding:
        if self.operations > LARGE:
            return Finding("proofs", "note", "not tried: the network is too large for bounds to be useful")
        passes = max(20, min(PASSES // 10, int(ALLOWED / max(self.operations, 1.0))))
        few = x[:2].float() if len(x) else self.x[:2].float()
        try:
            choice = choose(self.model, few, self.ball, passes=passes)
        except InputError as refusal:
            return Finding("proofs", "note", f"not possible: {refusal}")
        if choice.certificate is None:
            only_answers = "it gives answers only, its layers cannot be read"
            why = only_answers if isinstance(self.model, BlackBox) else choice.why
            return Finding("proofs", "note", f"not possible: {why}", self._plain_layers())
        held = int((choice.certificate.radius >= self.ball.radius).sum())
        says = f"possible; {choice.certificate.method} proves {held} of {len(few)} points at {self.ball}"
        if held:
            return Finding("proofs", "fine", says)
        if choice.refusals:
            says += "; evaluate spends more on each point and may prove more"
        remedy = "A smaller radius, or a network that was trained for proofs: radii train DATASET --recipe certified."
        return Finding("proofs", "note", says, remedy)

    def _plain_layers(self) -> str:
        """What makes layers of deel-torchlip and of orthogonium readable; empty where the model has none."""
        if any(hasattr(part, "vanilla_export") for part in self.model.modules()):
            return "Give the plain layers of deel-torchlip: model.vanilla_export()."
        if any(type(part).__module__.startswith("orthogonium") for part in self.model.modules()):
            return "Replace orthogonium's layers by plain ones: torch.nn.utils.parametrize.remove_parametrizations."
        return ""

    def _times(self, x: Tensor, y: Tensor) -> Iterator[Finding]:
        few = max(1, min(256, self._affordable(passes=8, least=4)))
        x, y = x[:few], y[:few]
        forward = _seconds(lambda: self._ask(x)) / len(x)
        answers_only = isinstance(self.model, BlackBox) or not alarms.differentiable(self.model, x[:1])
        both = 0.0 if answers_only else _seconds(lambda: self._ask_gradient(x, y)) / len(x)

        evaluated, assessed = min(EVALUATED, self.total), min(ASSESSED, self.total)

        def spent(passes: tuple[int, int], points: int) -> float:
            return points * (passes[0] * both + passes[1] * forward)

        proofs = f"proofs at most {words(PASSES * forward * evaluated)} more"
        if answers_only:
            most, share = spent(ANSWERS, evaluated), spent(ANSWERS, assessed)
            attacks, part = f"at most about {words(most)} for Square", f"at most about {words(share)}"
        else:
            ends = [words(spent(passes, evaluated)) for passes in (BROKEN, UNBROKEN)]
            attacks = (
                f"about {ends[0]} if attacks break all, {ends[1]} if none; --suite fast {words(spent(FAST, evaluated))}"
            )
            part = f"about {words(spent(BROKEN, assessed))} to {words(spent(UNBROKEN, assessed))}"
            attacks += "" if self.operations > LARGE else f"; {proofs}"
        yield Finding("time of evaluate", "note", f"{attacks} ({evaluated:,} points, one process)")
        yield Finding("time of assess", "note", f"{part} for this model ({assessed} points), then audit and references")

    @torch.no_grad()
    def _ask(self, x: Tensor) -> None:
        with frozen(self.model):
            ask(self.model, x)

    def _ask_gradient(self, x: Tensor, y: Tensor) -> None:
        with frozen(self.model), torch.enable_grad():
            point = x.detach().float().requires_grad_()
            input_gradient(cross_entropy(ask(self.model, point), y).sum(), point)


REMEDIES = {
    "randomized": "Fix the random numbers inside the model, or certify it by smoothing: radii certify --sigma.",
    "zero gradients": "Take rounding and .detach() out of forward, or compare with --suite black-box.",
    "exploding gradients": "Look for divisions by nearly 0 and for roots at 0 in forward.",
    "loss does not rise": "Attack a version without the part that hides gradients, and compare with --suite black-box.",
}


def _seconds(work: Callable[[], None]) -> float:
    """The shorter time of two."""
    times = []
    for _ in range(2):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def words(seconds: float) -> str:
    """A time as people say it.

    >>> words(0.2), words(75.0), words(8000.0)
    ('1 s', '75 s', '2.2 h')
    """
    if seconds < 120:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.2g} h"
