"""The results of the papers as functions: ``radii.theory.no_free_robustness(n=1024).holds``."""

from .papers.theory.bernoulli_model import bernoulli_model
from .papers.theory.concentration import concentration
from .papers.theory.concentric_spheres import concentric_spheres
from .papers.theory.facets import facets
from .papers.theory.gaussian_branches import gaussian_branches
from .papers.theory.gaussian_model import gaussian_model
from .papers.theory.gradient_flow import gradient_flow
from .papers.theory.gradient_steps import gradient_steps
from .papers.theory.half_spaces import half_spaces
from .papers.theory.max_margin_bias import max_margin_bias
from .papers.theory.nearest_neighbor_bound import nearest_neighbor_bound
from .papers.theory.neighbor_distances import neighbor_distances
from .papers.theory.no_free_robustness import no_free_robustness
from .papers.theory.r_separation import r_separation
from .papers.theory.random_networks import random_networks
from .papers.theory.result import Result
from .papers.theory.robust_network import robust_network
from .papers.theory.statements import STATEMENTS

__all__ = [
    "STATEMENTS",
    "Result",
    "bernoulli_model",
    "concentration",
    "concentric_spheres",
    "facets",
    "gaussian_branches",
    "gaussian_model",
    "gradient_flow",
    "gradient_steps",
    "half_spaces",
    "max_margin_bias",
    "nearest_neighbor_bound",
    "neighbor_distances",
    "no_free_robustness",
    "r_separation",
    "random_networks",
    "robust_network",
]
