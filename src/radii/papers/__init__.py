"""The results of five papers, executable: theory, claims, published figures and studies."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, ["catalog", "claims", "published", "theory"])
