"""Training of robust and certified classifiers. ``Manifold`` is loaded when it is first used."""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from radii.training.optimizers import Manifold as Manifold

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs={"optimizers": ["Manifold"]})
