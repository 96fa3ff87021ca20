"""An attack that sees classes only, no scores: it walks along the boundary, after HopSkipJump (Chen, Jordan &
Wainwright 2020).

    u_b random directions, phi_b = 1 where point + delta u_b is misclassified, else -1
    direction = mean of (phi_b - mean phi) u_b;  then a step along it, and bisection back to the boundary

It is weak: it knows the model from a few thousand yes-or-no answers. What it leaves unbroken says little.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from radii import progress
from radii.attacks.attack import Attack, AttackResult, AttackRun
from radii.attacks.point_randomness import normal, uniform
from radii.attacks.square import Square
from radii.networks.calling import frozen
from radii.threat import Ball, length, per_row

FAR = 12  # doublings of the radius within which a first error is looked for where there is no box


@dataclass(frozen=True)
class DecisionBased:
    """A walk along the boundary towards the clean input, from classes alone; L2 and Linf.

    Args:
        rounds: steps along the boundary.
        probes: directions that are asked in the first round; the square root of the round as many times later.
        halvings: bisections after each step.
        starts: random inputs among which a first error is looked for.
    """

    rounds: int = 24
    probes: int = 24
    halvings: int = 10
    starts: int = 100
    batch_size: int = 256

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: Generator) -> AttackResult:
        """Attack every row of ``x``; see :class:`radii.attacks.attack.Attack`."""
        trial = AttackRun(model, x, y, ball, generator, self.batch_size)
        left = torch.nonzero(~trial.broken).squeeze(1)
        with frozen(model), progress.task("decision-based", total=len(left), unit="points") as task:
            for index in left.split(self.batch_size):
                walk = _Walk(self, trial, index)
                walk.run()
                task.advance(len(index))
        return trial.result()


class _Walk:
    """The walks of some points, side by side; each point's random numbers are its own."""

    def __init__(self, attack: DecisionBased, trial: AttackRun, index: Tensor) -> None:
        self.attack, self.trial, self.index, self.ball = attack, trial, index, trial.ball
        self.x, self.y, self.seeds = trial.x[index], trial.y[index], trial.seeds[index]

    def run(self) -> None:
        """Walk until every point is inside the ball or has done its rounds."""
        point, known = self._first_errors()
        for number in range(self.attack.rounds):
            rows = torch.nonzero(known & ~self.trial.broken[self.index])[:, 0]
            if not len(rows):
                return
            part = self._of(rows)
            point[rows] = part.step(part.nearer(point[rows]), number)
            last = self._of(rows).nearer(point[rows])
            point[rows] = last
            self.trial.confirm(self.index[rows], last)

    def _of(self, rows: Tensor) -> _Walk:
        return _Walk(self.attack, self.trial, self.index[rows])

    def wrong(self, points: Tensor) -> Tensor:
        """Which of these ``points`` [m, …] are misclassified: [m] bool."""
        return self.trial.are_broken(self.index, points)

    def _first_errors(self) -> tuple[Tensor, Tensor]:
        """A misclassified input of each point, anywhere, and where there is one."""
        point, known = self.x.clone(), torch.zeros_like(self.y, dtype=torch.bool)
        for number in range(self.attack.starts):
            rows = torch.nonzero(~known)[:, 0]
            if not len(rows):
                break
            part = self._of(rows)
            other = part.anywhere(number)
            found = part.wrong(other)
            point[rows[found]], known[rows[found]] = other[found], True
        return point, known

    def anywhere(self, number: int) -> Tensor:
        """Random inputs: uniform in the box, and mixed with the clean input; without a box at growing distances."""
        shape = self.x.shape[1:]
        if self.ball.box is None:
            reach = self.ball.radius * 2.0 ** (number % (FAR + 1))
            noise = normal(self.seeds, number, *shape)
            noise = noise * per_row(reach / length(noise, self.ball.norm).clamp_min(1e-12), noise)
            return self.ball.keep_fixed(self.x + noise, self.x)
        low, high = self.ball.box
        noise = low + (high - low) * uniform(self.seeds, number, *shape)
        share = 1.0 if number % 2 == 0 else 0.5
        return self.ball.keep_fixed(self.x + share * (noise - self.x), self.x)

    def _toward(self, point: Tensor, share: Tensor) -> Tensor:
        """``point`` at ``share`` of its distance from the clean input: in L2 by scaling, in Linf by clipping."""
        step = point - self.x
        if self.ball.norm == "linf":
            limit = per_row(share * length(step, "linf"), step)
            return self.x + torch.minimum(torch.maximum(step, -limit), limit)
        return self.x + per_row(share, step) * step

    def nearer(self, point: Tensor) -> Tensor:
        """Bisection to the boundary; what is returned is misclassified if ``point`` is."""
        near, far = torch.zeros(len(point)).to(point), torch.ones(len(point)).to(point)
        for _ in range(self.attack.halvings):
            middle = (near + far) / 2
            wrong = self.wrong(self._toward(point, middle))
            near, far = torch.where(wrong, near, middle), torch.where(wrong, middle, far)
        return self._toward(point, far)

    def step(self, point: Tensor, number: int) -> Tensor:
        """A step along the estimated direction, halved until it is misclassified; else ``point`` itself."""
        direction = self._direction(point, number)
        reach = length(point - self.x, self.ball.norm) / (number + 1) ** 0.5
        best, open_ = point.clone(), torch.ones_like(self.y, dtype=torch.bool)
        for _ in range(self.attack.halvings):
            rows = torch.nonzero(open_)[:, 0]
            if not len(rows):
                break
            moved = self.ball.keep_fixed(point + per_row(reach, point) * direction, self.x)
            moved = moved.clamp(*self.ball.ends)
            wrong = self.wrong(moved) & open_
            best[wrong] = moved[wrong]
            open_, reach = open_ & ~wrong, reach / 2
        return best

    def _direction(self, point: Tensor, number: int) -> Tensor:
        """The unit direction in which errors become surer, from classes at random inputs around ``point``."""
        count = int(self.attack.probes * (number + 1) ** 0.5)
        delta = length(point - self.x, "l2").clamp_min(1e-6) * 0.1
        total, mean, first = torch.zeros_like(point), torch.zeros_like(point), torch.zeros(len(point)).to(point)
        for probe in range(count):
            draw = normal(self.seeds, 1_000_000 * (number + 1) + probe, *point.shape[1:])
            draw = self.ball.keep_fixed(draw, torch.zeros_like(draw))
            draw = draw / per_row(length(draw, "l2").clamp_min(1e-12), draw)
            answer = self.wrong((point + per_row(delta, draw) * draw).clamp(*self.ball.ends)).to(point) * 2 - 1
            total, mean, first = total + per_row(answer, draw) * draw, mean + draw, first + answer
        direction = total - per_row(first / count, mean) * mean
        if self.ball.norm == "linf":
            return direction.sign()
        return direction / per_row(length(direction, "l2").clamp_min(1e-12), direction)


DECISIONS: dict[str, Attack] = {
    "decision-based": DecisionBased(),
    "square": Square(),
}  # Square draws at random where it sees no scores
