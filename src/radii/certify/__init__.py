"""Proofs that no input of the ball is misclassified.

The room is also the verb: ``radii.certify(model, x)``. A function of that name
and this package would otherwise hide each other, depending on what was
imported first.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn

    from radii.certify.certificate import Certificate
    from radii.certify.methods import Settings


class _Room(ModuleType):
    def __call__(
        self, model: nn.Module, x: Tensor, method: str = "auto", settings: Settings | None = None
    ) -> Certificate:
        """Certify the predictions of ``model`` on ``x`` [n, …].

        ``method`` is one of :data:`radii.certify.methods.METHODS`, or ``auto``
        for the strongest that the model allows. ``settings`` carries what a
        method needs besides: norm, the radii to try, the noise of smoothing.
        """
        from radii.certify.methods import Settings, certificate, strongest

        wanted = settings or Settings(radii=RADII)
        if method == "auto":
            method = strongest(model, tuple(x.shape[1:]), wanted.norm, wanted.sigma).method
        return certificate(method, model, x, wanted)


RADII = tuple(level / 255 for level in (1, 2, 4, 8, 16, 36, 72, 108, 144, 255))
sys.modules[__name__].__class__ = _Room
