"""Studies: plans of steps, run, resumed and spread over machines. ``radii.studies.run("separation")``."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
