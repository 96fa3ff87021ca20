"""Square attack (Andriushchenko et al. 2020): random search over square patches, no gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, prod, sqrt

import torch
from torch import Generator, Tensor, nn

from radii.attacks import point_randomness
from radii.attacks.attack import AttackResult, AttackRun, ForwardSearch, NewPoints, State
from radii.attacks.losses import margin
from radii.threat import Ball, length, per_row

# The share of the image in a patch halves after these many of 10,000 queries (their Sec. 5).
HALVINGS = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
SKIPS = 2  # a third proposal in a row that changes nothing costs more to draw than to ask


@dataclass(frozen=True)
class Square:
    """One random patch per query, kept where the margin falls. AutoAttack's budget: 5,000 queries, share 0.8.

    Needs logits only. Feature vectors are folded into a square, so that a patch
    is a block of features.
    """

    queries: int = 5000
    share: float = 0.8
    restarts: int = 1
    batch_size: int = 256

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, ball: Ball, generator: Generator) -> AttackResult:
        """Attack every row of ``x``; see :class:`radii.attacks.attack.Attack`."""
        trial = AttackRun(model, x, y, ball, generator, self.batch_size)
        search: _LinfSearch | _BumpSearch
        for run in range(self.restarts):
            search = (_LinfSearch if ball.norm == "linf" else _BumpSearch)(self, ball, tuple(x.shape[1:]))
            trial.search(search, run, f"Square {self.queries}")
        return trial.result()


@dataclass(frozen=True)
class _SquareState(State):
    """A row of the random search."""

    best: Tensor  # [m, …] the input of the largest margin loss so far
    best_loss: Tensor  # [m]
    seed: Tensor  # [m]


@dataclass(frozen=True)
class _SquareSearch(ForwardSearch):
    attack: Square
    ball: Ball
    shape: tuple[int, ...]

    @property
    def steps(self) -> int:
        return self.attack.queries

    @property
    def grid(self) -> tuple[int, int, int]:
        """Channels, height and width; feature vectors are folded into the smallest square."""
        if len(self.shape) == 3:
            return self.shape[0], self.shape[1], self.shape[2]
        side = ceil(sqrt(prod(self.shape)))
        return 1, side, side

    @cached_property
    def sizes(self) -> Tensor:
        """The side of the patch at each query: [queries + 1]."""
        _, height, width = self.grid
        stretched = torch.arange(self.steps + 1) * 10_000 // max(self.steps, 1)
        share = self.attack.share / 2.0 ** torch.bucketize(stretched, torch.tensor(HALVINGS))
        side = (share * height * width).sqrt().round().long()
        return side.clamp(1, min(height, width))

    def begin(self, fresh: NewPoints) -> _SquareState:
        start = self.ball.clip(fresh.x + self._unscaled(self._unfolded(self._first(fresh.seed))), fresh.x)
        worst = fresh.x.new_full((len(fresh.x),), -torch.inf)
        return _SquareState(
            fresh.index, fresh.x, fresh.y, start, torch.zeros_like(fresh.y), fresh.x, worst, fresh.seed
        )  # fmt: skip

    def advance(self, state: _SquareState, logits: Tensor, gradient: Tensor) -> _SquareState:  # noqa: ARG002
        loss = margin(logits, state.y)
        better = loss > state.best_loss
        state = replace(
            state,
            best=torch.where(per_row(better, state.point), state.point, state.best),
            best_loss=torch.where(better, loss, state.best_loss),
            steps_done=state.steps_done + 1,
        )
        return self._proposed(state)

    def _proposed(self, state: _SquareState) -> _SquareState:
        """The next proposal that differs from the best point: the answer to an equal one is known.

        Skipped proposals count as steps, so the search is the same as if it asked them all. After SKIPS of
        them in a row it asks.
        """
        steps_done = state.steps_done
        point = self._proposal(steps_done, state.seed, state.x, state.best)
        same = torch.nonzero(_unchanged(point, state.best) & (steps_done < self.steps)).squeeze(1)
        if len(same):
            seed, x, best = state.seed[same], state.x[same], state.best[same]
        for _ in range(SKIPS if len(same) else 0):
            steps_done = steps_done.index_add(0, same, torch.ones_like(same))
            fresh = self._proposal(steps_done[same], seed, x, best)
            point[same] = fresh
            still = _unchanged(fresh, best) & (steps_done[same] < self.steps)
            same, seed, x, best = same[still], seed[still], x[still], best[still]
            if not len(same):
                break
        return replace(state, point=point, steps_done=steps_done)

    def _unscaled(self, step: Tensor) -> Tensor:
        """A step in the ball's scales as one of the input."""
        return step * self.ball.scales(step) if self.ball.scale else step

    def _first(self, seed: Tensor) -> Tensor:
        raise NotImplementedError

    def _proposal(self, steps_done: Tensor, seed: Tensor, x: Tensor, best: Tensor) -> Tensor:
        raise NotImplementedError

    def _window(self, place: Tensor, size: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Row and column of each cell in a window at ``place`` [m, 2]; who is inside: [m, h], [m, w], [m, 1, h, w]."""
        _, height, width = self.grid
        corner = (place * (torch.tensor([height, width], device=size.device) + 1 - size[:, None])).floor().long()
        down = torch.arange(height, device=size.device) - corner[:, :1]
        across = torch.arange(width, device=size.device) - corner[:, 1:]
        inside = _inside(down, size)[:, None, :, None] & _inside(across, size)[:, None, None, :]
        return down, across, inside

    def _folded(self, flat: Tensor) -> Tensor:
        """[m, …] to [m, c, h, w]."""
        if len(self.shape) == 3:
            return flat
        channels, height, width = self.grid
        spare = height * width - prod(self.shape)
        return torch.nn.functional.pad(flat.flatten(1), (0, spare)).view(-1, channels, height, width)

    def _unfolded(self, grid: Tensor) -> Tensor:
        """[m, c, h, w] to [m, …]; cells without a feature are dropped."""
        return grid if len(self.shape) == 3 else grid.flatten(1)[:, : prod(self.shape)].view(-1, *self.shape)


def _unchanged(point: Tensor, best: Tensor) -> Tensor:
    return (point == best).flatten(1).all(1)


def _inside(offset: Tensor, size: Tensor) -> Tensor:
    return (offset >= 0) & (offset < size[:, None])


class _LinfSearch(_SquareSearch):
    """Patches at plus or minus the radius, one sign per channel; vertical stripes at the start (their Alg. 2)."""

    def _first(self, seed: Tensor) -> Tensor:
        channels, height, width = self.grid
        return (point_randomness.sign(seed, 7, channels, 1, width) * self.ball.radius).expand(-1, -1, height, -1)

    def _proposal(self, steps_done: Tensor, seed: Tensor, x: Tensor, best: Tensor) -> Tensor:
        channels, _, _ = self.grid
        size = self.sizes.to(steps_done.device)[steps_done.clamp_max(self.steps)]
        draw = point_randomness.uniform(seed, steps_done, 2 + channels)
        _, _, patch = self._window(draw[:, :2], size)
        sign = torch.where(draw[:, 2:, None, None] < 0.5, -self.ball.radius, self.ball.radius)
        if self.ball.scale:
            changed = self._unfolded(patch.expand(-1, channels, -1, -1)).view_as(x)
            moved = self._unscaled(self._unfolded(sign.expand_as(self._folded(x))).view_as(x))
            point = torch.where(changed, x + moved, best)
        elif len(self.shape) == 3:  # nothing outside the patch moves, so only the box needs care
            point = torch.where(patch, x + sign, best)
        else:
            point = x + self._unfolded(torch.where(patch, sign, self._folded(best - x)))
        return point.clamp_(*self.ball.ends)


class _BumpSearch(_SquareSearch):
    """Moves the length of one window into another that gets a new bump (their Alg. 3): in L2 by squares."""

    @property
    def power(self) -> int:
        """Of the sizes whose sum is free to move: 2 in L2, 1 in L1."""
        return 2 if self.ball.norm == "l2" else 1

    @cached_property
    def sizes(self) -> Tensor:
        """Odd sides, as bumps have a center; of at least 3 cells in L2, while a single cell is best in L1."""
        _, height, width = self.grid
        side = super().sizes.clamp_min(min(3 if self.power == 2 else 1, height, width))
        return (side + 1 - side % 2).clamp_max(min(height, width))

    @cached_property
    def bumps(self) -> Tensor:
        """The bump of every size in the upper left corner of the image: [largest + 1, h, w]."""
        _, height, width = self.grid
        bank = torch.zeros(int(self.sizes.max()) + 1, height, width)
        for size in set(self.sizes.tolist()) | {_tile(height, width)}:
            bank[size, :size, :size] = _bump(size)
        return bank

    def _first(self, seed: Tensor) -> Tensor:
        channels, height, width = self.grid
        side = _tile(height, width)
        tall, wide = height // side, width // side
        signs = point_randomness.sign(seed, 7, channels, tall, wide)
        tiles = torch.einsum("mcij,ab->mciajb", signs, _bump(side).to(signs.device))
        tiles = tiles.reshape(len(seed), channels, tall * side, wide * side)
        top, left = (height - tall * side) // 2, (width - wide * side) // 2
        spread = signs.new_zeros(len(seed), channels, height, width)
        spread[:, :, top : top + tall * side, left : left + wide * side] = tiles
        return self._full(self._features_only(spread))

    def _proposal(self, steps_done: Tensor, seed: Tensor, x: Tensor, best: Tensor) -> Tensor:
        channels, _, _ = self.grid
        size = self.sizes.to(steps_done.device)[steps_done.clamp_max(self.steps)]
        draw = point_randomness.uniform(seed, steps_done, 5 + channels)
        step = self._folded((best - x) / self.ball.scales(x) if self.ball.scale else best - x)
        down, across, new = self._window(draw[:, :2], size)
        _, _, old = self._window(draw[:, 2:4], size)
        fresh = self._bumps_at(draw[:, 4:], size, down, across) * new
        power = self.power
        within = _powers(step * (new | old), power)
        unused = (self.ball.radius**power - _powers(step, power)).clamp_min(0)
        kept = step * new
        fresh = fresh + kept / per_row(_powers(kept, power) ** (1 / power) + 1e-12, kept)
        # Each channel of the new window gets an equal part of what is free, as in their step 9.
        norms = fresh.flatten(2).norm(p=power, dim=2)[:, :, None, None] + 1e-12
        fresh = fresh / norms * per_row((unused / channels + within) ** (1 / power), fresh)
        step = torch.where(new, fresh, torch.where(old, torch.zeros_like(step), step))
        step = self._full(self._features_only(step))
        return self.ball.clip(x + self._unscaled(self._unfolded(step)), x)

    def _full(self, step: Tensor) -> Tensor:
        """``step`` at the length of the radius."""
        return step * per_row(self.ball.radius / length(step, self.ball.norm).clamp_min(1e-12), step)

    def _bumps_at(self, draw: Tensor, size: Tensor, down: Tensor, across: Tensor) -> Tensor:
        """The bump of each row's window, lying or standing, one sign per channel: [m, c, h, w]."""
        _, height, width = self.grid
        side = min(height, width) - 1
        down, across = down.clamp(0, side)[:, :, None], across.clamp(0, side)[:, None, :]
        bank, which = self.bumps.to(size.device), size[:, None, None]
        lying = (draw[:, 0] < 0.5)[:, None, None]
        shape = torch.where(lying, bank[which, across, down], bank[which, down, across])
        return shape[:, None] * torch.where(draw[:, 1:, None, None] < 0.5, -1.0, 1.0)

    def _features_only(self, step: Tensor) -> Tensor:
        return self._folded(self._unfolded(step))


def _bump(size: int) -> Tensor:
    """A patch of two opposite pyramids, one above the other, of length 1 (their Sec. 4.2): [size, size]."""
    upper = size // 2
    patch = torch.zeros(size, size)
    if upper:
        patch[:upper] = _pyramid(upper, size)
    patch[upper:] = -_pyramid(size - upper, size)
    return patch / patch.norm()


def _pyramid(height: int, width: int) -> Tensor:
    """Nested rectangles around the center, the k-th adding 1/k^2."""
    patch = torch.zeros(height, width)
    middle, center = height // 2, width // 2
    for ring in range(max(middle, center) + 1):
        low, left = max(middle - ring, 0), max(center - ring, 0)
        patch[low : middle + ring + 1, left : center + ring + 1] += 1.0 / (ring + 1) ** 2
    return patch / patch.norm()


def _tile(height: int, width: int) -> int:
    return max(min(height, width) // 5, 1)


def _powers(step: Tensor, power: int) -> Tensor:
    return step.flatten(1).abs().pow(power).sum(1)
