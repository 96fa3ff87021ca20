"""The public names of radii.studies. Each is loaded when it is first used."""

from .runner import run
from .study import STUDIES, Study

__all__ = ["STUDIES", "Study", "run"]
