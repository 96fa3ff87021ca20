"""The network behind a change: its inputs are the parameters, so bounds and input splitting see few inputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.change_pixels import ImagePath
from radii.models.heads import Headed


class Changed(nn.Module):
    """A network behind the change of one image: from shares z [n, k] of the strengths to logits.

    The image is clip(x + D t) with t = strength z, or strength max(z, 0) where t cannot be negative. Its rounding in
    float32 exceeds that of :meth:`radii.change.Change.apply`, so what bounds prove holds for both.
    """

    base: Tensor
    matrix: Tensor
    floor: Tensor

    def __init__(self, model: nn.Module, path: ImagePath) -> None:
        super().__init__()
        change = path.change
        strengths = torch.tensor(change.strengths, dtype=torch.float64)
        directions = path.directions[0].flatten(1) * strengths[:, None]
        self.model, self.shape, self.training = model, tuple(path.base.shape[1:]), False
        self.one_sided = not all(change.signed)
        self.register_buffer("base", path.base.flatten().float())
        self.register_buffer("matrix", directions.float().T.contiguous())
        self.register_buffer("floor", torch.tensor([-4.0 if both else 0.0 for both in change.signed]))

    def forward(self, z: Tensor) -> Tensor:
        """[n, k] -> [n, classes]."""
        if self.one_sided:
            z = F.relu(z - self.floor) + self.floor
        image = F.linear(z, self.matrix, self.base)
        image = 1 - F.relu(1 - F.relu(image))
        logits: Tensor = self.model(image.view(len(z), *self.shape))
        return logits


def behind(model: nn.Module, path: ImagePath) -> nn.Module:
    """``model`` behind the change of the first image of ``path``; a head stays the last layer."""
    if not isinstance(model, Headed):
        return Changed(model, path)
    with torch.no_grad():
        raw = model.net(path.base[:1].float())
    return Headed(Changed(model.net, path), model.head, raw)
