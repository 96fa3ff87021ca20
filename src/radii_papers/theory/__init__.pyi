"""The results of the papers as functions: ``radii_papers.theory.no_free_robustness(n=1024).holds``."""

from ._bernoulli_model import bernoulli_model
from ._beyond_separation import beyond_separation
from ._class_balance import class_balance
from ._concentration import concentration
from ._concentric_spheres import concentric_spheres
from ._error_near_half import error_near_half
from ._euclidean_attacks import euclidean_attacks
from ._euclidean_bound import euclidean_bound
from ._facets import facets
from ._gaussian_branches import gaussian_branches
from ._gaussian_model import gaussian_model
from ._generalization_measures import generalization_measures
from ._gradient_flow import gradient_flow
from ._gradient_stability import gradient_stability
from ._gradient_steps import gradient_steps
from ._half_spaces import half_spaces
from ._low_dimensional_data import low_dimensional_data
from ._many_sample_tasks import many_sample_tasks
from ._max_margin_bias import max_margin_bias
from ._nearest_neighbor_bound import nearest_neighbor_bound
from ._neighbor_distances import neighbor_distances
from ._network_against_kernel import network_against_kernel
from ._network_samples import network_samples
from ._no_free_robustness import no_free_robustness
from ._r_separation import r_separation
from ._random_networks import random_networks
from ._robust_margin import robust_margin
from ._robust_network import robust_network
from ._structured_data import structured_data
from ._useful_points import useful_points
from .result import Result
from .statements import STATEMENTS

__all__ = [
    "STATEMENTS",
    "Result",
    "bernoulli_model",
    "beyond_separation",
    "class_balance",
    "concentration",
    "concentric_spheres",
    "error_near_half",
    "euclidean_attacks",
    "euclidean_bound",
    "facets",
    "gaussian_branches",
    "gaussian_model",
    "generalization_measures",
    "gradient_flow",
    "gradient_stability",
    "gradient_steps",
    "half_spaces",
    "low_dimensional_data",
    "many_sample_tasks",
    "max_margin_bias",
    "nearest_neighbor_bound",
    "neighbor_distances",
    "network_against_kernel",
    "network_samples",
    "no_free_robustness",
    "r_separation",
    "random_networks",
    "robust_margin",
    "robust_network",
    "structured_data",
    "useful_points",
]
