"""The formulas against brute force, exact arithmetic and the numbers that were worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

from radii.errors import InputError
from radii.geometry.neighbor_curve import NeighborLaw
from radii.randomness import numpy_stream
from radii_papers import synthetic
from radii_papers.synthetic import orthogonal, random_function, sphere
from radii_papers.theory import _bernoulli_model as bernoulli_model
from radii_papers.theory import _concentration as concentration
from radii_papers.theory import _concentric_spheres as concentric_spheres
from radii_papers.theory import _facets as facets
from radii_papers.theory import _gaussian_model as gaussian_model
from radii_papers.theory import _nearest_neighbor_bound as nearest_neighbor_bound
from radii_papers.theory import _neighbor_distances as neighbor_distances
from radii_papers.theory import _no_free_robustness as no_free_robustness
from radii_papers.theory import _random_networks as random_networks
from radii_papers.theory._half_spaces import axis_to_diagonal, chebyshev_bound
from radii_papers.theory._max_margin import (
    TwoLayerNetwork,
    kkt_point,
    log_loss,
    stationarity,
    train,
    universal_perturbation,
)
from radii_papers.theory._uniform_sums import cdf, central_mass, normal_central_mass


def test_no_free_robustness_numbers() -> None:
    assert no_free_robustness.dimension(1024) == 17
    assert no_free_robustness.dimension(1025) == 18
    assert no_free_robustness.memorizer_robust_accuracy(1024) == pytest.approx(0.50775, abs=5e-6)
    assert no_free_robustness.robust_accuracy_bound(1024) == pytest.approx(0.5078125)
    assert all(no_free_robustness.robust_accuracy_bound(n) < 0.51 for n in (2, 3, 100, 1000))


def test_breadth_first_nearest_neighbor_is_the_brute_force_one() -> None:
    draw = numpy_stream(0, "test")
    for n in (3, 16, 40):
        bits = no_free_robustness.dimension(n) - 1
        problem = no_free_robustness.Problem(random_function(bits, draw), draw.integers(0, 1 << bits, n), 0.1)
        found = no_free_robustness.nearest_neighbor(problem, draw)
        training = problem.points(problem.drawn).astype(float)
        right = []
        for attacked in (False, True):
            away = cdist(problem.points(slice(None), attacked=attacked).astype(float), training, "sqeuclidean")
            nearest = (away < away.min(1, keepdims=True) + 1e-9).argmax(1)
            right.append(problem.labels[nearest] == problem.phi)
        assert found == (right[0].mean(), (right[0] & right[1]).mean())


def test_boxes_of_theorem_two() -> None:
    assert nearest_neighbor_bound.boxes(0.3, 0.15, 3) == 4**3
    assert nearest_neighbor_bound.boxes(0.5, 0.25, 3) == 2**3
    assert nearest_neighbor_bound.boxes(0.4999, 0.4999 / 2, 3) == 3**3
    assert (
        nearest_neighbor_bound.robust_accuracy_bound(37 * 64, 64)
        > 0.99
        > nearest_neighbor_bound.robust_accuracy_bound(36 * 64, 64)
    )


def test_certified_accuracy_against_brute_force() -> None:
    draw = numpy_stream(1, "test")
    x, y = draw.random((60, 2)), draw.integers(0, 3, 60)
    tests, labels = draw.random((200, 2)), draw.integers(0, 3, 200)
    away = cdist(tests, x, "chebyshev")
    own = np.where(y == labels[:, None], away, np.inf).min(1)
    other = np.where(y != labels[:, None], away, np.inf).min(1)
    certified, attacked = nearest_neighbor_bound.robust_accuracies(
        nearest_neighbor_bound.NearestNeighbor.of(x, y), tests, labels, 0.01
    )
    assert certified == pytest.approx((other - own > 0.02).mean())
    assert certified <= attacked <= (own < other).mean()


def test_sums_of_uniform_numbers() -> None:
    assert central_mass(0.2, 1) == pytest.approx(0.4)
    assert central_mass(0.3, 2) == pytest.approx(1 - 0.7**2)
    assert cdf(-10, 5) == 0
    assert cdf(0, 7) == 0.5
    x = numpy_stream(0, "sums").random((200_000, 6)).sum(1) - 3
    assert central_mass(0.8, 6) == pytest.approx((np.abs(x) < 0.8).mean(), abs=0.004)
    from radii_papers.theory import _uniform_sums as uniform_sums

    exact = [central_mass(1.5, d) for d in (18, 20)]
    uniform_sums.SMALL, kept = 0, uniform_sums.SMALL
    try:  # the integral continues the sum
        assert [central_mass(1.5, d) for d in (18, 20)] == pytest.approx(exact, abs=1e-8)
    finally:
        uniform_sums.SMALL = kept


@pytest.mark.parametrize(
    ("d", "epsilon", "exact", "printed", "sharp"),
    [(100, 0.05, 0.917, 0.0, 0.667), (784, 8 / 255, 0.998, 0.676, 0.892), (3072, 0.01, 0.945, 0.186, 0.729)],
)
def test_proposition_2_1(d: int, epsilon: float, exact: float, printed: float, sharp: float) -> None:
    assert central_mass(epsilon * d, d) == pytest.approx(exact, abs=1e-3)
    assert normal_central_mass(epsilon * d, d) == pytest.approx(exact, abs=1.5e-3)
    assert chebyshev_bound(d, epsilon, 1 / 4) == pytest.approx(printed, abs=1e-3)
    assert chebyshev_bound(d, epsilon) == pytest.approx(sharp, abs=1e-3)


def test_the_map_preserves_measure_and_labels() -> None:
    x = numpy_stream(0, "map").random((50_000, 3))
    image = axis_to_diagonal(x)
    assert ((image.sum(1) > 1.5) == (x[:, 0] > 0.5)).all()
    np.testing.assert_allclose(axis_to_diagonal(image), x, atol=1e-15)
    assert image.mean(0) == pytest.approx([0.5] * 3, abs=0.006)
    assert image.var(0) == pytest.approx([1 / 12] * 3, abs=0.002)
    assert np.cov(image.T)[0, 1:] == pytest.approx([0, 0], abs=0.002)


def test_concentration_numbers() -> None:
    assert concentration.cube_bound(0.3, 0.5) == pytest.approx(0.774, abs=5e-4)
    assert concentration.ball_bound(0.09, 0.5, 784) == pytest.approx(0.592, abs=5e-4)
    assert concentration.weak_ball_bound(0.09, 0.5, 784, concentration.PRINTED_C) == pytest.approx(0.357, abs=5e-4)
    assert concentration.half_ball_neighborhood(0.09, 784) == pytest.approx(0.994, abs=5e-4)
    example = concentration.vulnerable_share
    assert example(10, concentration.cube_bound(0.5, 0.9)) == pytest.approx(0.9438, abs=5e-5)
    assert example(10, concentration.ball_bound(0.09, 0.9, 3072)) == pytest.approx(0.9781, abs=5e-5)
    assert example(10, concentration.weak_ball_bound(0.09, 0.9, 3072)) == pytest.approx(0.9779, abs=5e-5)
    printed = concentration.weak_ball_bound(0.09, 0.9, 3072, concentration.PRINTED_C)
    assert example(10, printed) == pytest.approx(0.8696, abs=5e-5)


def test_first_coordinate_of_the_ball() -> None:
    draw = numpy_stream(0, "ball")
    whole = (sphere(20_000, 5, 1.0, draw) * draw.random((20_000, 1)) ** (1 / 5))[:, 0]
    alone = concentration.ball_coordinate(20_000, 5, draw)
    for epsilon in (0.1, 0.4):
        exact = concentration.half_ball_neighborhood(epsilon, 5)
        assert (whole < epsilon).mean() == pytest.approx(exact, abs=0.012)
        assert (alone < epsilon).mean() == pytest.approx(exact, abs=0.012)


def test_caps_of_spheres() -> None:
    assert concentric_spheres.facets_needed(1.3, 10) == pytest.approx(1631, abs=1)
    assert concentric_spheres.facets_needed(concentric_spheres.robust_ratio(1.3, 0.1), 10) == pytest.approx(
        1.3e5, rel=0.03
    )
    x = sphere(100_000, 3, 2.0, numpy_stream(0, "caps"))
    assert concentric_spheres.cap_probability(2.0, 3) == pytest.approx((x[:, 0] > 1).mean(), abs=0.005)


def test_known_polytopes() -> None:
    assert facets.circumradius(facets.cube(4)) == pytest.approx(2)
    assert facets.circumradius(facets.dodecahedron()) == pytest.approx(1.258409, abs=1e-6)
    assert facets.circumradius(facets.cell_24()) == pytest.approx(math.sqrt(2))
    assert len(facets.dual(facets.dodecahedron())) == 20
    assert (len(facets.cell_120()), len(facets.dual(facets.cell_120()))) == (120, 600)
    built = facets.ball_within_two(5)
    angles = np.abs(built @ built.T - np.eye(len(built)))
    assert np.sort(angles, axis=1)[:, -2].max() <= 0.5 + 1e-9  # apart from its opposite, no normal is nearer than 60°


def test_moments_and_slopes_of_activations() -> None:
    assert random_networks.moments("relu") == pytest.approx((0.5, 0.5))
    assert random_networks.moments("tanh") == pytest.approx((0.3943, 0.4645), abs=2e-4)
    z = torch.linspace(-3, 3, 50, dtype=torch.float64, requires_grad=True)
    for shape in random_networks.ACTIVATIONS.values():
        (slope,) = torch.autograd.grad(shape.value(z).sum(), z)
        torch.testing.assert_close(shape.slope(z.detach()), slope)
    names: tuple[random_networks.Activation, ...] = ("relu", "tanh", "gelu")
    assert [round(random_networks.eta_quantile(0.5, name), 2) for name in names] == [0.95, 0.91, 0.96]
    draws = np.abs(numpy_stream(0, "eta").standard_normal(400_000))
    for name in names:
        value, slope = random_networks.moments(name)
        eta = draws * math.sqrt(value) / slope
        assert random_networks.eta_quantile(0.95, name) == pytest.approx(np.quantile(eta, 0.95), rel=0.01)
        near = ((eta >= 0.5) & (eta <= 1.5)).mean()
        assert random_networks.share_near_one(name) == pytest.approx(near, abs=0.004)


def test_gradient_of_the_log_loss() -> None:
    draw = numpy_stream(0, "gradient")
    network, x, y = TwoLayerNetwork.random(4, 6, draw), draw.standard_normal((5, 4)), np.array([1, -1, 1, -1, 1])
    value, gradient = log_loss(network, x, y)
    theta = network.flatten()
    assert value == pytest.approx(math.log(np.exp(-y * network(x)).sum()))
    for at in range(0, len(theta), 5):
        step = np.zeros_like(theta)
        step[at] = 1e-6
        ends = [log_loss(TwoLayerNetwork.unflatten(theta + sign * step, 4), x, y)[0] for sign in (1, -1)]
        assert gradient[at] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-6)


def test_a_kkt_point_is_one_and_a_trained_network_is_not() -> None:
    draw = numpy_stream(0, "kkt")
    x, y = orthogonal(6, 30, draw), np.array([1, -1] * 3)
    trained, log10 = train(TwoLayerNetwork.random(30, 20, draw).scaled(0.3), x, y)
    assert log10 <= math.log(1e-30)
    margins = y * trained(x)
    assert stationarity(trained, x, y, np.exp(margins.min() - margins), kink=0.0) < 0.95
    point = kkt_point(trained, x, y)
    assert point.cosine > 0.995
    assert point.smallest_margin == pytest.approx(1, abs=1e-3)
    assert (point.multipliers >= 0).all()
    assert point.multipliers.sum() == pytest.approx((point.network.flatten() ** 2).sum() / 2, rel=0.05)


def test_universal_perturbation_of_a_linear_network() -> None:
    network = TwoLayerNetwork(np.array([[1.0, 0], [-1.0, 0]]), np.zeros(2), np.array([1.0, -1.0]))  # f(x) = x_1
    x, y = np.array([[2.0, 5], [-1.0, 3]]), np.array([1, -1])
    assert universal_perturbation(network, x, y, np.array([1.0, 0]), 10) == pytest.approx(2, abs=1e-6)
    assert universal_perturbation(network, x, y, np.array([0.0, 1]), 10) == math.inf


def test_gaussian_closed_form_against_real_points() -> None:
    draw = numpy_stream(0, "gaussian")
    sample = gaussian_model.Draw.random(300, 0.6, draw)
    w, epsilon = sample.mean(3), 0.1
    y = draw.integers(0, 2, 20_000) * 2 - 1
    x = y[:, None] * sample.theta + sample.sigma * draw.standard_normal((len(y), len(sample.theta)))
    broken = (y * (x @ w) - epsilon * np.abs(w).sum() <= 0).mean()
    assert broken == pytest.approx(gaussian_model.robust_error(w, sample.theta, sample.sigma, epsilon), abs=0.015)
    assert gaussian_model.predicted_error(gaussian_model.samples_needed(1e6, 0.6, 0.1), 1e6, 0.6, 0.1) == pytest.approx(
        0.01
    )
    assert pytest.approx(0.656, abs=1e-3) == gaussian_model.LARGEST_C
    assert gaussian_model.samples_needed(100, 0.6, 3.0) == math.inf


def test_bernoulli_numbers() -> None:
    assert pytest.approx(0.763, abs=1e-3) == bernoulli_model.SMALLEST_C
    needed = []
    for d in (10_000, 100_000, 1_000_000):
        tau = bernoulli_model.tau_of(d, 1.25)
        needed.append(next(n for n in range(1, 99) if bernoulli_model.predicted_error(n, d, tau, tau) <= 0.01))
    assert needed == [6, 14, 36]


def test_bernoulli_closed_form_against_real_points() -> None:
    draw = numpy_stream(0, "bernoulli")
    theta, tau, epsilon = draw.choice([-1.0, 1.0], 1000), 0.1, 0.05
    x, y = synthetic.bernoulli_model(5, theta, tau, draw)
    w = (y[:, None] * x).mean(0)
    tests, labels = synthetic.bernoulli_model(10_000, theta, tau, draw)
    broken = (labels * (tests @ w) - epsilon * np.abs(w).sum() <= 0).mean()
    assert broken == pytest.approx(bernoulli_model.robust_error(w * theta, tau, epsilon), abs=0.02)


def test_neighbor_distance_numbers() -> None:
    assert neighbor_distances.linear_bracket(1000, 28) == pytest.approx((0.7285, 0.7533), abs=5e-5)
    for n in (1, 10, 10**6):
        low, high = neighbor_distances.bracket(n, 7)
        assert low <= neighbor_distances.exact_median(n, 7) <= high
    sizes = np.array([100.0, 1000, 10_000])
    fit = NeighborLaw.power(sizes, 3 * sizes ** (-1 / 12))
    assert fit.dimension == pytest.approx(12)
    assert fit.log10_samples(1.5) == pytest.approx(12 * math.log10(2))
    line = NeighborLaw.linear(sizes, 5 - 0.5 * np.log(sizes))
    assert line.dimension == pytest.approx(10)
    assert line.log10_samples(2.5) == pytest.approx(5 / math.log(10))


@pytest.mark.parametrize(("d", "power", "line"), [(10, 8.9, 16.4), (28, 20.1, 27.5)])
def test_both_dimensions_of_a_cube(d: int, power: float, line: float) -> None:
    sizes = [50_000 >> k for k in range(11)][::-1]
    means = neighbor_distances.cube_distances(sizes, d, 1000, numpy_stream(0, "cube"))
    assert NeighborLaw.power(np.array(sizes), means).dimension == pytest.approx(power, abs=0.6)
    assert NeighborLaw.linear(np.array(sizes), means).dimension == pytest.approx(line, abs=0.8)


def test_a_network_that_errs_is_no_start_for_a_kkt_point() -> None:
    """Also one that is zero somewhere, where dividing by its margin would end in a traceback."""
    from radii_papers.theory._max_margin import TwoLayerNetwork, kkt_point

    silent = TwoLayerNetwork(np.zeros((2, 3)), np.zeros(2), np.ones(2))
    with pytest.raises(InputError, match="right on every point"):
        kkt_point(silent, np.eye(3), np.array([1, -1, 1]))


def test_the_logistic_loss_has_its_own_gradient() -> None:
    """By central differences, where both losses differ and where they agree."""
    from radii_papers.theory._max_margin import TwoLayerNetwork, log_loss

    draw = np.random.default_rng(0)
    x, y = draw.standard_normal((6, 4)), np.array([1, -1, 1, -1, 1, -1])
    for scale in (1.0, 4.0):
        theta = TwoLayerNetwork.random(4, 5, draw).scaled(scale).flatten()
        value, gradient = log_loss(TwoLayerNetwork.unflatten(theta, 4), x, y, "logistic")
        margins = y * TwoLayerNetwork.unflatten(theta, 4)(x)
        assert value == pytest.approx(np.log(np.log1p(np.exp(-margins)).sum()))
        for place in (0, 7, len(theta) - 1):
            step = np.eye(len(theta))[place] * 1e-6
            ends = [
                log_loss(TwoLayerNetwork.unflatten(theta + sign * step, 4), x, y, "logistic")[0] for sign in (1, -1)
            ]
            assert gradient[place] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4, abs=1e-7)
