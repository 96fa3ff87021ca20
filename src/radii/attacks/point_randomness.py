"""Random numbers with an address: each is a function of (point, purpose, position).

A point's draws come from its own seed, which is a hash of the point itself. They
do not depend on the other points of its batch or on which of them were broken
before, so an attack on one point gives the same result alone and among others.
The generator is SplitMix64 (Steele, Lea & Flood 2014), used as a counter-based hash.
"""

from __future__ import annotations

import hashlib
from math import pi, prod

import torch
from torch import Generator, Tensor

from radii.threat import Ball, length, per_row

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed 64-bit integer


def point_seeds(x: Tensor, y: Tensor, generator: Generator) -> Tensor:
    """One 64-bit seed per point, from its pixels ``x``, its label ``y`` and one draw of ``generator``: [n] int64."""
    base = int(torch.randint(2**62, (), generator=generator))
    pixels = x.detach().to("cpu", torch.float32).flatten(1).contiguous().numpy()
    labels = y.tolist()
    digests = [
        hashlib.blake2b(row.tobytes(), digest_size=8, key=f"{base},{label}".encode()).digest()
        for row, label in zip(pixels, labels, strict=True)
    ]
    seeds = [int.from_bytes(digest, "little", signed=True) for digest in digests]
    return torch.tensor(seeds, dtype=torch.int64, device=x.device)


def derived(seeds: Tensor, number: int | Tensor) -> Tensor:
    """New seeds for purpose or restart ``number``, independent of the old ``seeds``: [n] int64."""
    step = torch.as_tensor(number, dtype=torch.int64, device=seeds.device) + 1
    return _mixed(seeds + step * _GOLDEN)


def uniform(seeds: Tensor, counter: int | Tensor, *shape: int) -> Tensor:
    """Uniform float32 in [0, 1), a function of ``seeds`` and ``counter``: [n] -> [n, *shape]."""
    place = torch.arange(1, prod(shape) + 1, device=seeds.device)
    bits = _mixed(derived(seeds, counter)[:, None] + place * _GOLDEN)
    return _high_bits(bits, 24).float().mul_(2.0**-24).view(len(seeds), *shape)


def normal(seeds: Tensor, counter: int | Tensor, *shape: int) -> Tensor:
    """Standard normal float32 of ``seeds`` and ``counter``, by Box and Muller's transform: [n] -> [n, *shape]."""
    angle, reach = uniform(seeds, counter, 2, *shape).unbind(1)
    return torch.cos(2 * pi * angle) * torch.sqrt(-2 * torch.log1p(-reach))


def sign(seeds: Tensor, counter: int | Tensor, *shape: int) -> Tensor:
    """Fair signs -1 and 1 of ``seeds`` and ``counter``: [n] -> [n, *shape]."""
    return (uniform(seeds, counter, *shape) < 0.5).float().mul_(-2).add_(1)


def start_inside(x: Tensor, ball: Ball, seeds: Tensor, counter: int | Tensor = 0) -> Tensor:
    """A uniform draw, by ``seeds`` and ``counter``, from ``ball`` around each row of ``x``, then clipped to the box."""
    if ball.norm == "linf":
        noise = (2 * uniform(seeds, counter, *x.shape[1:]) - 1) * ball.radius
    else:
        noise = normal(seeds, counter, *x.shape[1:])
        reach = uniform(derived(seeds, counter), 0, 1).squeeze(1) ** (1 / noise[0].numel())
        noise = _of_l1(noise, seeds, counter) if ball.norm == "l1" else noise
        noise = noise * per_row(ball.radius * reach / length(noise, ball.norm), noise)
    return ball.project(x + noise * ball.scales(x) if ball.scale else x + noise, x)


def start_on_surface(x: Tensor, ball: Ball, seeds: Tensor, counter: int | Tensor = 0) -> Tensor:
    """A point on the surface of ``ball`` around each row of ``x`` by ``seeds`` and ``counter``, clipped to the box."""
    draw = (
        2 * uniform(seeds, counter, *x.shape[1:]) - 1 if ball.norm == "linf" else normal(seeds, counter, *x.shape[1:])
    )
    draw = _of_l1(draw, seeds, counter) if ball.norm == "l1" else draw
    step = draw * per_row(ball.radius / length(draw, ball.norm).clamp_min(1e-12), draw)
    return ball.project(x + step * ball.scales(x) if ball.scale else x + step, x)


def _of_l1(draw: Tensor, seeds: Tensor, counter: int | Tensor) -> Tensor:
    """Laplacian numbers with the signs of ``draw``; their direction is uniform on the L1 sphere."""
    size = -torch.log1p(-uniform(derived(seeds, 3), counter, *draw.shape[1:]))
    return draw.sign() * size


def _mixed(bits: Tensor) -> Tensor:
    bits = (bits ^ _high_bits(bits, 34)) * -4658895280553007687  # 0xBF58476D1CE4E5B9
    bits = (bits ^ _high_bits(bits, 37)) * -7723592293110705685  # 0x94D049BB133111EB
    return bits ^ _high_bits(bits, 33)


def _high_bits(bits: Tensor, count: int) -> Tensor:
    """The ``count`` highest bits: a logical shift, which signed integers lack."""
    return (bits >> (64 - count)) & ((1 << count) - 1)
