"""radii: how far can an input move before a classifier errs? proved ≤ true ≤ broken.

Names are loaded when they are used, so ``import radii`` and ``radii --help`` do
not wait for torch. The public names stand in ``__init__.pyi``, where type
checkers and editors read them, too.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
