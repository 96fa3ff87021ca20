"""The same attack in fresh processes gives the same bits, whatever ran before and however busy the machine is."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import hashlib, sys, time
import torch
from radii.attacks.minimum_norm import MinimumNorm
from radii.attacks.pgd import PGD
from radii.attacks.square import Square
from radii.models.zoo.convnets import LeNet5
from radii.randomness import stream
from radii.threat import Ball
torch.set_num_threads(1)
torch.manual_seed(0)
model, ball = LeNet5((1, 28, 28), 10).eval(), Ball("l2", 0.5)
if sys.argv[1] == "after":  # other work first, and a clock that runs wild
    PGD(steps=3)(model, torch.rand(3, 1, 28, 28), torch.zeros(3, dtype=torch.int64), ball, stream(1))
    plain = time.process_time
    time.process_time = lambda: 1000 * plain()
x = torch.rand(24, 1, 28, 28, generator=torch.Generator().manual_seed(1))
y = model(x).argmax(1)
for attack in (PGD(steps=20), Square(queries=100), MinimumNorm(steps=20)):
    result = attack(model, x, y, ball, stream(0))
    print(hashlib.sha256(result.x_adv.numpy().tobytes() + result.queries.numpy().tobytes()).hexdigest())
"""


def outcome(before: str, threads: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": threads}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, before],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
        timeout=300,
    )
    return done.stdout.strip()


def test_fresh_processes_agree() -> None:
    assert len({outcome("alone", "1"), outcome("after", "1"), outcome("alone", "2")}) == 1
