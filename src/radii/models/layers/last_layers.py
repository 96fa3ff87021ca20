"""Last layers; certificates use the differences of their rows."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from radii.models.layers._cached_weights import EffectiveWeight
from radii.models.layers.plain_layers import BlockedLinear, blocked_linear


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
