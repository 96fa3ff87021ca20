"""Layers that move numbers without changing them: all are 1-Lipschitz, padding and reshaping preserve norms."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from radii.errors import InputError


class ZeroChannels(nn.Module):
    """Concatenate channels of zeros until there are ``channels``: [n, c, …] -> [n, channels, …]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels

    def forward(self, x: Tensor) -> Tensor:
        """An isometric embedding."""
        missing = self.channels - x.shape[1]
        if missing < 0:
            raise InputError(f"ZeroChannels({self.channels}) cannot hold {x.shape[1]} channels; widen the network.")
        return F.pad(x, (*[0, 0] * (x.dim() - 2), 0, missing))

    def extra_repr(self) -> str:
        """What nn.Module prints."""
        return str(self.channels)


class FirstChannels(nn.Module):
    """Keep the first ``channels``: [n, c, …] -> [n, channels, …], an orthogonal projection."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels

    def forward(self, x: Tensor) -> Tensor:
        """The first channels."""
        if x.shape[1] < self.channels:
            raise InputError(f"FirstChannels({self.channels}) needs at least as many channels, got {x.shape[1]}.")
        return x[:, : self.channels]

    def extra_repr(self) -> str:
        """What nn.Module prints."""
        return str(self.channels)


class ZeroBorder(nn.Module):
    """Center the image in one of ``size`` (height, width) with zeros around it: an isometric embedding."""

    def __init__(self, size: tuple[int, int]) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        """[n, c, h, w] -> [n, c, *size]."""
        rows, columns = self.size[0] - x.shape[2], self.size[1] - x.shape[3]
        if rows < 0 or columns < 0:
            raise InputError(f"ZeroBorder{self.size} cannot hold an image of {tuple(x.shape[2:])}.")
        return F.pad(x, (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2))

    def extra_repr(self) -> str:
        """What nn.Module prints."""
        return str(self.size)
