"""Five papers, executable: theorems, claims, studies, recipes and published figures.

In: everything of radii, which does not know this package. Out: entry points (see ``pyproject.toml``) through which its
studies, steps, commands, recipes, results and a section of the report plug into radii, as any other package's do.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, ["claims", "published", "studies", "theory"])
