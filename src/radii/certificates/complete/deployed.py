"""A network as it runs, beside the bounds that were checked against it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from radii.certificates.bounds.bound_engine import Engine
from radii.certificates.bounds.network import build
from radii.certificates.bounds.program import compiled
from radii.certificates.bounds.rows import Domain
from radii.certificates.bounds.tracing import example, trace
from radii.certificates.complete.goal import Goal
from radii.certificates.complete.query import Query
from radii.certificates.complete.tournament import without_pools
from radii.errors import InputError
from radii.models.classifier import frozen
from radii.models.graph import GraphNetwork
from radii.models.io.foreign import OnnxRuntime
from radii.models.onnx_reader import load_onnx

CHECKS = 6  # random inputs on which bounds and network must agree


@dataclass(frozen=True)
class Deployed:
    """A network as it runs: in torch with gradients, and for ONNX files by onnxruntime too."""

    module: nn.Module
    input_shape: tuple[int, ...]
    runtime: OnnxRuntime | None = None
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
        return cls(module, module.graph.input_shape, OnnxRuntime(Path(network)))

    def run(self, x: Tensor) -> Tensor:
        """Outputs [n, outputs] of flat float32 inputs [n, inputs] in torch, with gradients."""
        with frozen(self.module):
            return self.module(x.clone().view(len(x), *self.input_shape)).flatten(1)

    def outputs(self, x: Tensor) -> Tensor:
        """Outputs as deployed: by onnxruntime for ONNX files."""
        if self.runtime is not None:
            return self.runtime(x)
        with torch.no_grad():
            return self.run(x)

    def check_fits(self, query: Query) -> None:
        """Refuse a property of another network."""
        inputs = int(np.prod(self.input_shape))
        outputs = self.run(torch.zeros(1, inputs)).shape[1]
        if (inputs, outputs) != (query.inputs, query.outputs):
            raise InputError(
                f"The property has {query.inputs} inputs and {query.outputs} outputs, "
                f"the network {inputs} and {outputs}."
            )

    def engine(self, goal: Goal, dtype: torch.dtype, keep_forms: bool = False) -> Engine:
        """Bounds of this network, after they agreed with it on random inputs of the first goal's box."""
        if (dtype, keep_forms) in self.engines:
            return self.engines[dtype, keep_forms]
        if example(self.module).dtype == torch.float64:
            raise InputError("The network must be float32: model.float().")
        with torch.no_grad():
            traced = trace(self.module, self.input_shape)
            engine = Engine(compiled(without_pools(build(traced, dtype)), dtype), keep_forms=keep_forms)
            self._check(engine, goal)
        self.engines[dtype, keep_forms] = engine
        return engine

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
        results = [self.run(x)] if self.runtime is None else [self.run(x), self.runtime(x)]
        for outputs in results:
            if not bool(((outputs >= least) & (outputs <= most)).all()):
                raise InputError("The network cannot be verified: bounds of its layers disagree with what it computes.")
