"""The results of the papers as functions: ``radii_papers.theory.no_free_robustness(n=1024).holds``."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
