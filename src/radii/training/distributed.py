"""Several processes train one network: torch's own data parallelism, started by torchrun.

::

    torchrun --nproc-per-node 2 --no-python radii train mnist --method adversarial

Each process holds an equal share of every batch; inner attacks run on the
share, gradients are averaged. Without batch norm and dropout the result is
that of one process with the same batch, up to the rounding of sums.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributed import all_reduce, broadcast, destroy_process_group, init_process_group, is_initialized
from torch.nn.parallel import DistributedDataParallel

from radii.errors import InputError
from radii.training.objectives.objective import Loss, Objective, TrainingProgress


@dataclass(frozen=True)
class ProcessGroup:
    """The processes that train one network together; with one process, every operation does nothing."""

    rank: int = 0
    size: int = 1

    @property
    def is_main_process(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def share(self, rows: Tensor) -> Tensor:
        """The part of a batch that this process computes."""
        if len(rows) % self.size:
            raise InputError(
                f"A batch of {len(rows)} cannot be shared equally by {self.size} processes; "
                f"make batch_size a multiple of {self.size}."
            )
        part = len(rows) // self.size
        return rows[self.rank * part : (self.rank + 1) * part]

    def total(self, *values: float) -> list[float]:
        """The sum of each value over all processes."""
        if self.size == 1:
            return list(values)
        sums = torch.tensor(values, dtype=torch.float64)
        all_reduce(sums)
        return sums.tolist()

    def agreed(self, choice: bool) -> bool:
        """The choice of the leading process, for all processes."""
        if self.size == 1:
            return choice
        decision = torch.tensor([int(choice)])
        broadcast(decision, 0)
        return bool(decision.item())

    def joined(self, model: nn.Module, objective: Objective) -> nn.Module:
        """A module (x, y, progress) -> Loss whose gradients are averaged over the team."""
        step = _LossStep(model, objective)
        # every process keeps its own batch-norm statistics; the leading one's are saved
        return step if self.size == 1 else DistributedDataParallel(step, broadcast_buffers=False)


class _LossStep(nn.Module):
    """The whole loss of a batch as one forward pass, so that one backward pass synchronizes it.

    The objective gets the plain network, so its inner attacks stay in this process.
    """

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, x: Tensor, y: Tensor, progress: TrainingProgress) -> Loss:
        """The loss of this process's share."""
        return self.objective.loss(self.model, x, y, progress)


def current_group() -> ProcessGroup:
    """The team that this process has joined, or the process alone."""
    if not is_initialized():
        return ProcessGroup()
    return ProcessGroup(torch.distributed.get_rank(), torch.distributed.get_world_size())


@contextmanager
def process_group() -> Iterator[ProcessGroup]:
    """Join the processes that torchrun started (none, without torchrun), by gloo, because models are on the CPU."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or is_initialized():
        yield current_group()
        return
    # DistributedDataParallel loads this module. Loaded within the group, it would keep the group alive beyond its end,
    # and a thread of gloo that meets the closing interpreter ends it by SIGABRT now and then (torch 2.13).
    import torch._dynamo  # noqa: F401

    init_process_group("gloo")
    try:
        yield current_group()
    finally:
        destroy_process_group()
