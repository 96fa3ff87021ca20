"""Last layers; certificates use the differences of their rows."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from radii.errors import InputError
from radii.models.layers.effective import EffectiveWeight


class BlockedLinear(nn.Linear):
    """``nn.Linear`` that sums over blocks of ``block`` inputs first, then over the blocks.

    The same function. The error of a float32 sum grows with the number of
    terms in one sum: block + in / block instead of in. For a network with 8,192
    features this raises certified accuracy by about one point.
    """

    def __init__(self, in_features: int, out_features: int, block: int, bias: bool = True) -> None:
        if block < 1 or in_features % block:
            raise InputError(f"block must divide the {in_features} inputs, got {block} instead.")
        super().__init__(in_features, out_features, bias)
        self.block = block

    def forward(self, x: Tensor) -> Tensor:
        """[n, in] -> [n, out]."""
        return blocked_linear(x, self.weight, self.bias, self.block)

    def extra_repr(self) -> str:
        """The text that nn.Module prints."""
        return f"{super().extra_repr()}, block={self.block}"


def blocked_linear(x: Tensor, weight: Tensor, bias: Tensor | None, block: int) -> Tensor:
    """``F.linear`` of ``x``, ``weight``, ``bias`` with sums over blocks of ``block`` inputs, then over the blocks."""
    blocks = weight.shape[1] // block
    inputs, weights = x.unflatten(1, (blocks, block)), weight.unflatten(1, (blocks, block))
    # [blocks, n, block] @ [blocks, block, out] -> [blocks, n, out]
    summed = torch.bmm(inputs.transpose(0, 1), weights.permute(1, 2, 0)).sum(0)
    return summed if bias is None else summed + bias


class UnitRows(EffectiveWeight, BlockedLinear):
    """A :class:`BlockedLinear` whose rows are divided by their norms (last-layer normalization, Singla et al. 2022).

    Each logit is 1-Lipschitz; the layer as a whole need not be, and the margin
    of classes i and j is |w_i - w_j|-Lipschitz, which pairwise certificates use.
    """

    def compute_effective_weight(self) -> Tensor:
        """w_i / |w_i|."""
        return F.normalize(self.weight, dim=1)

    def forward(self, x: Tensor) -> Tensor:
        """[n, in] -> [n, out]."""
        return blocked_linear(x, self.effective_weight(), self.bias, self.block)

    def folded(self) -> BlockedLinear:
        """The layer without normalization that has the same outputs."""
        plain = BlockedLinear(self.in_features, self.out_features, self.block, self.bias is not None)
        self.filled(plain, self.bias)
        return plain


class MarginHead(nn.Linear):
    """A linear head that can add the logit of "not robust at this radius" (Leino et al. 2021, GloRo).

    Unconstrained; the margin of i over j is L |w_i - w_j|-Lipschitz if the
    features are L-Lipschitz.
    """

    def with_bottom(self, logits: Tensor, lipschitz: Tensor | float, radius: float) -> Tensor:
        """Logits and the best competitor within ``radius``: [n, classes + 1].

        The extra logit is max_{c != top} s_c + radius L |w_top - w_c|: it wins
        exactly where the prediction is not certified at ``radius``.
        """
        top = logits.argmax(1)
        pairs = (self.weight[top][:, None, :] - self.weight[None, :, :]).square().sum(2).clamp_min(1e-24).sqrt()
        reached = logits + radius * lipschitz * pairs
        bottom = reached.scatter(1, top[:, None], float("-inf")).amax(1, keepdim=True)
        return F.pad(logits, (0, 1)) + F.pad(bottom, (logits.shape[1], 0))

    def folded(self) -> nn.Linear:
        """The plain linear layer with the same outputs."""
        plain = nn.utils.skip_init(nn.Linear, self.in_features, self.out_features, self.bias is not None)
        plain.to(self.weight).load_state_dict(self.state_dict())
        return plain.eval()
