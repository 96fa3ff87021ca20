"""A gate: does a model reach its floors on these points? Decided on as few points as the error rates allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from radii import progress
from radii.attacks.suite import members, run_suite
from radii.certificates.choose import choose
from radii.change import Change
from radii.data.dataset import Data, Dataset
from radii.data.sources import load
from radii.errors import InputError, brief, checked
from radii.evaluation._sequential_tests import Decision, DropTest, FloorTest
from radii.evaluation.evaluate import look_first, proved_in
from radii.evaluation.gate_result import Comparison, Former, GateResult, Rates, RequirementResult
from radii.evaluation.requirement import Requirement
from radii.models.adapter import PROBES, BlackBox, ModelLike, adapt, prepare
from radii.models.classifier import predict
from radii.networks.calling import frozen
from radii.randomness import numpy_stream, stream_seed

BATCH = 32  # points that are attacked at once
LEAST = 100  # points that are measured in any case, so that the next gate can compare


@checked
def gate(
    model: ModelLike,
    data: Any,
    requirements: str | Requirement | Sequence[str | Requirement],
    *,
    rates: Rates | None = None,
    former: Former | None = None,
    suite: str | None = None,
    least: int = LEAST,
    rows: NDArray[np.int64] | None = None,
    seed: int = 0,
) -> GateResult:
    """Test requirements on points in random order until each is decided.

    The false alarms of all tests together are at most ``rates.alpha``: each of them gets an equal part. The
    sample is drawn without replacement; the floors are about these points. With ``former`` its points come first
    and a significant drop fails, too; that statement is about the data from which the points were drawn.

    Args:
        model: a network from inputs to logits, or anything that :func:`radii.models.adapter.adapt` takes; in eval
            mode while it is asked.
        data: the points: a radii.Dataset or the name of a dataset, a pair of inputs and labels, or what
            :func:`radii.evaluate` takes in place of them.
        requirements: one or several, such as ``robust(linf:8/255)>=0.45``.
        rates: error rates and margin; 0.05 each by default.
        former: outcomes to compare with.
        suite: the attacks of ``robust``; default ``standard``, or those that a model without gradients allows.
        least: points that are measured in any case; a later gate can compare with as many.
        rows: the points to which the floors refer; all by default.
        seed: of the order and of the attacks.

    Returns:
        The answers with the points they rest on.

    Raises:
        InputError: a requirement cannot be read, or there is none.
    """
    several = [requirements] if isinstance(requirements, str | Requirement) else requirements
    asked = [Requirement.parse(item) if isinstance(item, str) else item for item in several]
    if not asked:
        raise InputError("A gate needs at least one requirement, for example clean>=0.9.")
    members(suite or "standard")  # a wrong name is reported before anything is computed
    model, data = points_of(model, data)
    asked = [item.on(data) for item in asked]
    everything = np.arange(len(data)) if rows is None else rows
    rates, known = rates or Rates(), (former or Former({})).among(set(everything.tolist()))
    order = _order(everything, known, seed)
    tests = len(asked) + sum(item.subject in known.outcomes for item in asked)
    open_ones = [
        _Track(item, len(order), rates, tests, min(least, len(order)), known.outcomes.get(item.subject))
        for item in asked
    ]
    network = adapt(model, data.tensors(order[:PROBES])[0].to(_device(model)), classes=len(data.classes))
    suite = suite or (network.suite if isinstance(network, BlackBox) else "standard")
    x, y = (tensor.to(_device(network)) for tensor in data.tensors(order[:LEAST]))
    look_first(network, x, y, data.box)
    with progress.task("gate", total=len(order), unit="points") as task, frozen(network):
        for start in range(0, len(order), BATCH):
            waiting = [track for track in open_ones if not track.is_done]
            if not waiting:
                break
            part = order[start : start + BATCH]
            x, y = data.tensors(part)
            for track in waiting:
                success, note = outcomes(network, x, y, track.requirement, suite, stream_seed(seed, "gate", start))
                track.add(part, success, note)
            task.advance(len(part), f"{len(waiting)} open")
    return GateResult(tuple(track.result() for track in open_ones), rates, len(order))


def points_of(model: ModelLike, data: Any) -> tuple[ModelLike, Dataset]:
    """A model, and its test points as a dataset: of a radii.Dataset, of a pair, or of what has inputs and labels.

    Args:
        model: what the words of the labels and the columns of a data frame are read by.
    """
    if isinstance(data, str):
        data = load(data)
    if isinstance(data, Dataset | Data):
        return model, data.test if isinstance(data, Data) else data
    from radii.data.examples import FORMS, gathered, holds_labels

    is_pair = isinstance(data, tuple | list) and len(data) == 2
    if not is_pair and not holds_labels(data):
        raise InputError(f"The points must be a pair of inputs and labels, {FORMS}; got {brief(data)}.")
    x, y = data if is_pair else (data, None)
    own = prepare(model, x, y)
    return own.model, gathered(own.x.cpu().numpy(), own.y.cpu().numpy(), own.fixed)


def outcomes(
    model: nn.Module, x: Tensor, y: Tensor, requirement: Requirement, suite: str, seed: int
) -> tuple[NDArray[np.bool_], str]:
    """Whether each point is a success, and why nothing can be proved, if so.

    Args:
        x: inputs [n, …].
        y: labels [n].
    """
    device = _device(model)
    x, y = x.to(device), y.to(device)
    if requirement.corruption is not None:
        from radii.data.corruptions import corrupt

        x = torch.from_numpy(corrupt(x.cpu().numpy(), requirement.corruption)).to(device)
    prediction = predict(model, x)
    right = (prediction == y).cpu().numpy()
    ball, todo = requirement.ball, np.flatnonzero(right)
    if ball is None or not len(todo):
        return right, ""
    x, y = x[todo], y[todo]
    robust = requirement.measure == "robust"
    if isinstance(ball, Change):
        from radii.evaluation.change_scores import meet_change  # loaded where it is asked for

        met = meet_change(model, x, ball, prove=not robust, seed=seed)
        bracket = met.bracket
        right[todo] = ((bracket.broken > ball.radius) if robust else (bracket.proved >= ball.radius)).numpy()
        return right, " ".join(filter(None, (met.refusal and f"Nothing is proved: {met.refusal}", met.note)))
    chosen = choose(model, x, ball, last="crown-ibp" if robust else "sdp-crown")  # attacks cost less than more proof
    held = proved_in(chosen.certificate, ball, x, y)[0] >= ball.radius
    note = "" if robust or chosen.certificate else f"Nothing is proved: {chosen.why}"
    if robust and not held.all():
        left = np.flatnonzero(~held)
        held[left] = ~run_suite(members(suite), model, x[left], y[left], ball, seed).broken.cpu().numpy()
    success = np.zeros(len(right), bool)
    success[todo] = held
    return success, note


def _device(model: ModelLike) -> torch.device:
    """Where the model's weights are."""
    parameters = model.parameters() if isinstance(model, nn.Module) else ()
    return next((parameter.device for parameter in parameters), torch.device("cpu"))


def _order(rows: NDArray[np.int64], former: Former, seed: int) -> NDArray[np.int64]:
    """The points in random order; those of the former result first, in its order, which was random, too."""
    order = numpy_stream(seed, "gate").permutation(rows)
    first = np.array(former.rows, dtype=np.int64)
    return np.concatenate([first, order[~np.isin(order, first)]])


@dataclass
class _Track:
    """One requirement while points come in."""

    requirement: Requirement
    population: int
    rates: Rates
    tests: int  # among which the false alarms are divided
    least: int  # points to measure in any case
    former: Mapping[int, bool] | None
    rows: list[int] = field(default_factory=list)
    success: list[bool] = field(default_factory=list)
    note: str = ""
    floor: Decision | None = None
    comparison: Comparison | None = None

    def __post_init__(self) -> None:
        alpha, beta, margin = self.rates.alpha / self.tests, self.rates.beta, self.rates.margin
        self._floor_test = FloorTest(self.population, self.requirement.floor, margin, alpha, beta)
        self._drop_test = DropTest(margin, alpha, beta)
        if self.former is not None:
            self.comparison = Comparison("open", 0, 0, 0)

    @property
    def is_done(self) -> bool:
        """Whether both questions have their answers, or the former result has no more points."""
        if self.floor is None or len(self.rows) < self.least:
            return False
        more = self.former is not None and len(self.rows) < len(self.former)
        return self.comparison is None or self.comparison.change != "open" or not more

    def add(self, rows: NDArray[np.int64], success: NDArray[np.bool_], note: str) -> None:
        """The outcomes of more points, until everything is decided."""
        self.note = note or self.note
        for row, value in zip(rows.tolist(), success.tolist(), strict=True):
            if self.is_done:
                return
            self.rows.append(row)
            self.success.append(value)
            won = sum(self.success)  # the answer is that of all points so far: the rates hold at any stopping time
            self.floor = self._floor_test.decide(won, len(self.success) - won)
            if self.former is not None and row in self.former:
                self._compare(self.former[row], value)

    def _compare(self, before: bool, now: bool) -> None:
        said = self.comparison
        if said is None or said.change != "open":
            return
        losses, gains = said.losses + (before and not now), said.gains + (now and not before)
        equal = said.equal + (before == now)
        self.comparison = Comparison(self._drop_test.decide(losses, gains, equal), losses, gains, equal)

    def result(self) -> RequirementResult:
        """The answer; all points decide every floor."""
        assert self.floor is not None
        return RequirementResult(
            self.requirement, self.floor, tuple(self.rows), tuple(self.success), self.population, self.rates,
            self.comparison, self.note,
        )  # fmt: skip
