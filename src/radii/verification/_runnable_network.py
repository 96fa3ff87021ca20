"""A network as it runs, beside the bounds that were checked against it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from radii.bounds.bound_engine import Check, Engine
from radii.bounds.regions import Domain
from radii.errors import InputError
from radii.models.heads import provable
from radii.models.io.exported_programs import OnnxRuntime
from radii.networks.calling import ask, frozen
from radii.networks.graph import GraphNetwork
from radii.networks.read_onnx import load_onnx
from radii.networks.read_torch import example, read_torch
from radii.verification._goal import Goal
from radii.verification._pooling_as_relus import without_pools
from radii.verification.vnnlib import Query

CHECKS = 6  # random inputs on which bounds and network must agree


@dataclass(frozen=True)
class Deployed:
    """A network as it runs: in torch with gradients, and for ONNX files by onnxruntime too, node by node.

    ``optimized`` is onnxruntime with its own rewritings of the graph, which must agree where bounds are checked. Where
    a head stands behind the logits, :meth:`run` gives them in the order of what it returns, and bounds are those of
    ``scores``, whose largest must exceed the others by ``margin``.
    """

    module: nn.Module
    input_shape: tuple[int, ...]
    runtime: Callable[[Tensor], Tensor] | None = None
    optimized: Callable[[Tensor], Tensor] | None = None
    engines: dict[tuple[torch.dtype, bool], Engine] = field(default_factory=dict)  # that were made

    @classmethod
    def of(cls, network: Path | str | nn.Module, input_shape: tuple[int, ...] | None = None) -> Deployed:
        """A network from a file, a graph, or any module whose input shape is given."""
        if isinstance(network, nn.Module):
            shape = network.graph.input_shape if isinstance(network, GraphNetwork) else input_shape
            if shape is None:
                raise InputError("The shape of the network's inputs must be given.")
            return cls(network, shape)
        module = load_onnx(Path(network))
        path = Path(network)
        return cls(module, module.graph.input_shape, OnnxRuntime(path), OnnxRuntime(path, optimized=True))

    @cached_property
    def scores(self) -> nn.Module:
        """The network that is bounded."""
        return provable(self.module)[0]

    @property
    def margin(self) -> float:
        """By how much the logit of a class must exceed the others for a proof of it."""
        return provable(self.module)[1]

    def run(self, x: Tensor) -> Tensor:
        """Outputs [n, outputs] of flat float32 inputs [n, inputs] in torch, with gradients."""
        with frozen(self.module):
            return ask(self.module, x.view(len(x), *self.input_shape)).flatten(1)

    def outputs(self, x: Tensor) -> Tensor:
        """Outputs as deployed: by onnxruntime for ONNX files."""
        if self.runtime is not None:
            return self.runtime(x)
        with torch.no_grad():
            return self.run(x)

    def each_deployed(self, x: Tensor) -> list[Tensor]:
        """Outputs as deployed, and those of onnxruntime's default session for ONNX files."""
        return [self.outputs(x), *([] if self.optimized is None else [self.optimized(x)])]

    def check_fits(self, query: Query) -> None:
        """Refuse a property of another network."""
        inputs = int(np.prod(self.input_shape))
        outputs = self.run(torch.zeros(1, inputs)).shape[1]
        if (inputs, outputs) != (query.inputs, query.outputs):
            raise InputError(
                f"The property has {query.inputs} inputs and {query.outputs} outputs, "
                f"the network {inputs} and {outputs}."
            )

    def engine(self, goal: Goal, dtype: torch.dtype, check: Check, keep_forms: bool = False) -> Engine:
        """Bounds of this network, after they agreed with it on random inputs of the first goal's box.

        The engine calls ``check`` often, which may raise to end a long computation.
        """
        if (dtype, keep_forms) in self.engines:
            return self.engines[dtype, keep_forms].watched(check)
        if example(self.scores).dtype == torch.float64:
            raise InputError("The network must be float32: model.float().")
        with torch.no_grad():
            program = read_torch(self.scores, self.input_shape, dtype)
            engine = Engine(without_pools(program), keep_forms=keep_forms)
            self._check(engine.watched(check), goal)
        self.engines[dtype, keep_forms] = engine
        return engine.watched(check)

    def _check(self, engine: Engine, goal: Goal) -> None:
        """Bounds at single points hold what torch and onnxruntime compute there, and no more than rounding."""
        low, high = goal.inside()
        draws = torch.rand(CHECKS, len(low), generator=torch.Generator().manual_seed(0))
        x = (low + (high - low) * draws).clamp(low, high)
        known = engine.bounds(Domain(x.double(), x.double()))
        width = engine.program.sizes[engine.program.output]
        rows = torch.eye(width, dtype=engine.program.dtype).repeat(CHECKS, 1)
        dom = torch.arange(CHECKS).repeat_interleave(width)
        least = engine.lower(known, engine.program.output, rows, dom).view(CHECKS, width)
        most = -engine.lower(known, engine.program.output, -rows, dom).view(CHECKS, width)

        def agrees(outputs: Tensor) -> bool:
            return bool(((outputs >= least) & (outputs <= most)).all())

        with frozen(self.scores):
            own = ask(self.scores, x.view(len(x), *self.input_shape)).flatten(1)
        if not agrees(own) or (self.runtime is not None and not agrees(self.runtime(x))):
            raise InputError("The network cannot be verified: bounds of its layers disagree with what it computes.")
        if self.optimized is not None and not agrees(self.optimized(x)):
            raise InputError(
                "The network cannot be verified: onnxruntime's optimizations, which fold weights of neighboring nodes, "
                "change what the file computes. Export the network with its batch norms folded."
            )
