"""The attack on changes of images: a grid of their parameters, then refinement of the weakest that succeeds.

Few parameters need no gradient: rays from 0 are walked outward in equal steps, all images at once, until the prediction
changes; the last step is halved, and with several parameters the ray is turned a little, again and again. Every error
is an image that :meth:`radii.change.Change.apply` makes, and is predicted again alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import torch
from torch import Generator, Tensor, nn

from radii import progress
from radii.attacks.attack import AttackResult, misclassified
from radii.change import Change
from radii.errors import InputError
from radii.models.classifier import check_inputs, check_labels
from radii.networks.calling import ask, frozen, predicted_class
from radii.threat import Ball

NAME = "grid"
HALVINGS = 24
TURNS, NEARBY = 6, 8  # rounds in which a ray is turned, and rays of a round
SIDE = 5  # rays along one side of the box, with several parameters


@dataclass(frozen=True)
class ChangeAttackResult(AttackResult):
    """Changed images, which of them are errors, and the parameters.

    ``radius`` [n] float64 is that of the weakest change that was found to be an error, inf where none was; ``t`` [n, k]
    are its parameters.
    """

    radius: Tensor
    t: Tensor


@dataclass(frozen=True)
class ChangeGrid:
    """Rays from 0 in ``steps`` equal steps; each image leaves at its first error."""

    steps: int = 64
    batch_size: int = 512

    def __call__(
        self, model: nn.Module, x: Tensor, y: Tensor, threat: Change | Ball, generator: Generator
    ) -> ChangeAttackResult:
        """The weakest change of each image of ``x`` [n, …] with another class than ``y`` [n]."""
        if isinstance(threat, Ball):
            raise InputError(f"The attack 'grid' is for changes as brightness:0.2, got the ball {threat}.")
        check_inputs(x)
        with frozen(model), torch.no_grad():
            check_labels(y, ask(model, x[:1]).expand(len(y), -1))
            return _Walk(self, model, x.detach().float(), y, threat, generator).result()


class _Walk:
    """One attack on some images. ``share`` [n] of the ray ``way`` [n, k] is the weakest error so far."""

    def __init__(
        self, grid: ChangeGrid, model: nn.Module, x: Tensor, y: Tensor, change: Change, generator: Generator
    ) -> None:
        self.grid, self.model, self.x, self.y, self.change, self.generator = grid, model, x, y, change, generator
        self.path = change.path(x)
        self.queries = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        self.share = torch.full((len(x),), torch.inf, dtype=torch.float64)
        self.way = torch.zeros(len(x), change.parameters, dtype=torch.float64)
        self.strengths = torch.tensor(change.strengths, dtype=torch.float64)

    def result(self) -> ChangeAttackResult:
        """Walk, refine and confirm."""
        self._walk(_rays(self.change))
        self._halve(1 / self.grid.steps)
        for turn in range(TURNS if self.change.parameters > 1 else 0):
            self._turn(0.3 * 0.6**turn)
        return self._confirmed()

    def _errs(self, index: Tensor, share: Tensor, way: Tensor) -> Tensor:
        """Which of the images ``index`` [m] are errors at these shares [m] of rays [m, k]: [m] bool."""
        if not len(index):
            return torch.zeros(0, dtype=torch.bool)
        wrong = []
        for rows in torch.arange(len(index)).split(self.grid.batch_size):
            images = self.path.rows(index[rows]).at(share[rows, None] * way[rows] * self.strengths)
            wrong.append(misclassified(predicted_class(ask(self.model, images)).cpu(), self.y[index[rows]].cpu()))
        self.queries.index_add_(0, index.to(self.queries.device), torch.ones_like(index).to(self.queries.device))
        return torch.cat(wrong)

    def _walk(self, rays: Tensor) -> None:
        """Every image along all rays, outward, until one of them is an error."""
        left = torch.nonzero(~self._errs_at_zero())[:, 0]
        with progress.task("changing images", total=len(left), unit="points") as task:
            for step in range(1, self.grid.steps + 1):
                if not len(left):
                    break
                index = left.repeat_interleave(len(rays))
                share = torch.full((len(index),), step / self.grid.steps, dtype=torch.float64)
                wrong = self._errs(index, share, rays.repeat(len(left), 1)).view(len(left), len(rays))
                hit = wrong.any(1)
                self.share[left[hit]] = step / self.grid.steps
                self.way[left[hit]] = rays[wrong[hit].long().argmax(1)]
                left = left[~hit]
                task.advance(int(hit.sum()), f"{len(left)} left")

    def _errs_at_zero(self) -> Tensor:
        every = torch.arange(len(self.x))
        wrong = self._errs(every, torch.zeros(len(every), dtype=torch.float64), self.way)
        self.share[wrong] = 0.0
        return wrong

    def _halve(self, width: float) -> None:
        """The first error of each ray is within ``width`` below the one that is known; not always, but often."""
        rows = torch.nonzero((self.share > 0) & self.share.isfinite())[:, 0]
        high = self.share[rows].clone()
        low = (high - width).clamp_min(0)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            wrong = self._errs(rows, middle, self.way[rows])
            high, low = torch.where(wrong, middle, high), torch.where(wrong, low, middle)
        self.share[rows] = high

    def _turn(self, angle: float) -> None:
        """Rays near the best ones, at a slightly weaker change; what succeeds is walked inward."""
        rows = torch.nonzero((self.share > 0) & self.share.isfinite())[:, 0]
        if not len(rows):
            return
        noise = torch.randn(len(rows), NEARBY, self.way.shape[1], generator=self.generator, dtype=torch.float64)
        ways = self.way[rows, None] + angle * noise
        ways = torch.where(torch.tensor(self.change.signed), ways, ways.clamp_min(0))
        ways = ways / ways.abs().amax(2, keepdim=True).clamp_min(1e-12)
        for shrunk in (0.999, 0.98, 0.9):
            share = (shrunk * self.share[rows])[:, None].expand(-1, NEARBY).flatten()
            wrong = self._errs(rows.repeat_interleave(NEARBY), share, ways.flatten(0, 1)).view(len(rows), NEARBY)
            hit = wrong.any(1)
            if not bool(hit.any()):
                break
            best = wrong[hit].long().argmax(1)
            self.way[rows[hit]] = ways[hit].gather(1, best.view(-1, 1, 1).expand(-1, 1, ways.shape[2]))[:, 0]
            self.share[rows[hit]] *= shrunk
        self._halve(0.02)

    def _confirmed(self) -> ChangeAttackResult:
        """Errors that are errors alone, too: results of a batch may be rounded differently."""
        t = torch.where(self.share.isfinite()[:, None], self.share[:, None], 0.0) * self.way * self.strengths
        broken = self.share.isfinite()
        for row in torch.nonzero(broken)[:, 0].tolist():
            one = torch.tensor([row])
            for spare in (1.0, 1 + 1e-6, 1 + 1e-3):
                moved = (t[one] * spare).clamp(-self.strengths, self.strengths)
                image = self.path.rows(one).at(moved)
                if bool(misclassified(predicted_class(ask(self.model, image)).cpu(), self.y[one].cpu())):
                    t[row] = moved[0]
                    break
            else:
                broken[row] = False
        t = torch.where(broken[:, None], t, 0.0)
        x_adv = torch.where(broken.view(-1, *[1] * (self.x.dim() - 1)).to(self.x.device), self.path.at(t), self.x)
        radius = torch.where(broken, self.change.radius_of(t), torch.inf)
        return ChangeAttackResult(x_adv, broken.to(self.x.device), self.queries, radius, t)


def _rays(change: Change) -> Tensor:
    """Directions [m, k] of largest entry 1: both signs of one parameter, a grid on the sides of a box of several."""
    ends = [(-1.0, 1.0) if both else (0.0, 1.0) for both in change.signed]
    axes = [torch.linspace(low, high, SIDE if len(ends) > 1 else 2).tolist() for low, high in ends]
    rays = [ray for ray in product(*axes) if max(map(abs, ray)) == 1.0]
    return torch.tensor(rays, dtype=torch.float64)
