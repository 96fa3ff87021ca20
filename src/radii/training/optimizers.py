"""Orthogonalized momentum, on orthogonal matrices (Manifold) and on others, and the running average of weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from radii.errors import InputError
from radii.models.layers.orthogonal import OrthogonalParameter, polar_factor, retract, tangent


class Manifold(torch.optim.Optimizer):
    """Orthogonalized momentum for every :class:`OrthogonalParameter`, Adam for the other parameters.

    For an orthogonal W with gradient G: M <- m M + G; the direction G + m M is
    projected to the tangent space at W and replaced by its polar factor, so that
    all its directions have the same length (Muon, Jordan et al. 2024, on the
    Stiefel manifold); W <- W - lr * that; two Newton-Schulz steps bring W back.
    The defect |W^T W - I| stays near the rounding of float32 at every step, for
    rates up to about 0.05.

    The state is one tensor per orthogonal matrix and three per other parameter;
    equal states and gradients give equal bits.

    Args:
        parameters: the model's parameters; at least one must be orthogonal.
        lr: length of a step on the manifold, default 0.03; every singular value
            of the step has about this size.
        momentum: m, default 0.9.
        others_lr: Adam's rate for biases, offsets and heads, default 2e-3.
        betas: Adam's forgetting factors, default 0.9 and 0.99.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float = 0.03,
        *,
        momentum: float = 0.9,
        others_lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.99),
    ) -> None:
        listed = list(parameters)
        orthogonal = [parameter for parameter in listed if isinstance(parameter, OrthogonalParameter)]
        others = [parameter for parameter in listed if not isinstance(parameter, OrthogonalParameter)]
        if not orthogonal:
            raise InputError(
                "Manifold needs a model with orthogonal parameters, such as --model isometric; for others use Adam or "
                "SGD."
            )
        if not (lr > 0 and others_lr > 0 and 0 <= momentum < 1):
            raise InputError(
                f"Manifold needs positive rates and a momentum in [0, 1), got {lr}, {others_lr} and {momentum} instead."
            )
        groups: list[dict[str, Any]] = [{"params": orthogonal, "lr": lr, "momentum": momentum, "orthogonal": True}]
        if others:
            groups.append({"params": others, "lr": others_lr, "betas": betas, "orthogonal": False})
        super().__init__(groups, {})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One step of every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            move = self._along_the_manifold if group["orthogonal"] else self._by_adam
            for parameter in group["params"]:
                if parameter.grad is not None:
                    move(parameter, parameter.grad, self.state[parameter], group)
        return loss

    @staticmethod
    def _along_the_manifold(weight: Tensor, gradient: Tensor, state: dict[str, Tensor], group: dict[str, Any]) -> None:
        if not state:
            state["momentum"] = torch.zeros_like(weight)
        direction = state["momentum"].mul_(group["momentum"]).add_(gradient)
        direction = tangent(weight, gradient + group["momentum"] * direction)
        weight.copy_(retract(retract(weight - group["lr"] * polar_factor(direction))))

    @staticmethod
    def _by_adam(weight: Tensor, gradient: Tensor, state: dict[str, Tensor], group: dict[str, Any]) -> None:
        if not state:
            state["steps"] = torch.zeros(())
            state["mean"], state["square"] = torch.zeros_like(weight), torch.zeros_like(weight)
        state["steps"] += 1
        fast, slow = group["betas"]
        steps = float(state["steps"])
        mean = state["mean"].lerp_(gradient, 1 - fast) / (1 - fast**steps)
        square = state["square"].lerp_(gradient.square(), 1 - slow) / (1 - slow**steps)
        weight.addcdiv_(mean, square.sqrt_().add_(1e-8), value=-group["lr"])


class Orthogonalized(torch.optim.Optimizer):
    """Orthogonalized momentum for matrices and kernels, SGD with Nesterov momentum for the other parameters.

    For a weight W as a matrix [out, in * k * k] with gradient G: M <- m M + G; the direction G + m M is replaced by
    its polar factor, so that all its directions have the same length (Muon, Jordan et al. 2024); then
    W <- (1 - lr * decay) W - lr * 0.2 sqrt(max(rows, columns)) * that, whose entries have about the size that steps
    of Adam at the rate lr have. Its twin on orthogonal matrices is :class:`Manifold`.

    The first and the last matrix, which read inputs and write logits, belong to the other parameters, as do all
    vectors: their directions are not alike.

    Args:
        parameters: the model's parameters, first to last.
        lr: rate of matrices and kernels, default 0.02.
        momentum: m of both, default 0.9.
        others_lr: rate of SGD for the other parameters, default 0.1.
        weight_decay: share of a matrix that a step of rate 1 takes away, default 0.02; the others have none.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float = 0.02,
        *,
        momentum: float = 0.9,
        others_lr: float = 0.1,
        weight_decay: float = 0.02,
    ) -> None:
        listed = list(parameters)
        matrices = [parameter for parameter in listed if parameter.dim() >= 2][1:-1]
        inner = {id(parameter) for parameter in matrices}
        others = [parameter for parameter in listed if id(parameter) not in inner]
        if not (lr > 0 and others_lr > 0 and weight_decay >= 0 and 0 <= momentum < 1):
            raise InputError(
                "Orthogonalized needs positive rates, a decay of at least 0 and a momentum in [0, 1), "
                f"got {lr}, {others_lr}, {weight_decay} and {momentum} instead."
            )
        both = {"momentum": momentum}
        groups = [
            {"params": matrices, "lr": lr, "weight_decay": weight_decay, "orthogonal": True, **both},
            {"params": others, "lr": others_lr, "weight_decay": 0.0, "orthogonal": False, **both},
        ]
        super().__init__([group for group in groups if group["params"]], {})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One step of every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, parameter.grad, self.state[parameter], group)
        return loss

    @staticmethod
    def _move(weight: Tensor, gradient: Tensor, state: dict[str, Tensor], group: dict[str, Any]) -> None:
        if not state:
            state["momentum"] = torch.zeros_like(weight)
        momentum = state["momentum"].mul_(group["momentum"]).add_(gradient)
        direction = gradient.add(momentum, alpha=group["momentum"])
        rate = group["lr"]
        if group["orthogonal"]:
            flat = direction.flatten(1)
            direction = polar_factor(flat, steps=4).view(weight.shape)
            rate *= 0.2 * max(flat.shape) ** 0.5
            weight.mul_(1 - group["lr"] * group["weight_decay"])
        weight.add_(direction, alpha=-rate)


class WeightAverage:
    """a <- d a + (1 - d) w after every step (Polyak & Juditsky 1992, with exponential weights).

    d = min(``decay``, (1 + t) / (10 + t)) after t steps, so that the first, random
    weights soon have no influence. Floating point buffers (the statistics of batch
    norms) are averaged too, whole numbers are copied. The training itself does not
    use the average. (``torch.optim.swa_utils`` averages whole-number buffers like
    weights and starts at the first update; stored runs would change their bits.)
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.tensors: dict[str, Tensor] = {key: value.detach().clone() for key, value in model.state_dict().items()}

    @torch.no_grad()
    def follow(self, model: nn.Module, steps: int) -> None:
        """Update the average with the weights of ``model`` after ``steps`` steps."""
        share = 1 - min(self.decay, (1 + steps) / (10 + steps))
        for key, value in model.state_dict().items():
            if value.is_floating_point():
                self.tensors[key].lerp_(value, share)
            else:
                self.tensors[key].copy_(value)

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Continue with a stored average."""
        for key, value in self.tensors.items():
            value.copy_(tensors[key])

    def give(self, model: nn.Module) -> None:
        """Replace the weights of ``model`` by the average."""
        model.load_state_dict(self.tensors)
