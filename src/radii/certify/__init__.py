"""Proofs that no input of the ball is misclassified.

The room is also the verb: ``radii.certify(model, x)`` is
:func:`radii.certify.margin.certify`. Attributes ``radii.certify`` (package)
and ``radii.certify`` (function) would otherwise shadow each other, depending on
what was imported first.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn

    from radii.certify.certificate import Certificate


class _Room(ModuleType):
    def __call__(self, model: nn.Module, x: Tensor) -> Certificate:
        """The L2 radius around each row of ``x`` within which the prediction cannot change."""
        from radii.certify.margin import certify

        return certify(model, x)


sys.modules[__name__].__class__ = _Room
