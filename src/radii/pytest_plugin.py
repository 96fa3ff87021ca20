"""The fixture ``radii_gate`` for pytest: a test fails when a model is below a floor of robust accuracy.

pytest loads this module in every session of an environment that has radii, so it imports nothing of radii at first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from radii.evaluation.gate_result import GateResult
    from radii.runs.component_specs import DataSpec

MARKER = "robustness"
_SETTINGS = ("points", "suite", "seed")
_sentences = pytest.StashKey[list[str]]()

RadiiGate = Callable[..., "GateResult"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--radii-points N`` and ``--radii-seed S``."""
    group = parser.getgroup("radii", "robustness of classifiers")
    group.addoption(
        "--radii-points",
        type=int,
        metavar="N",
        help="Measure every gate on at most N points, chosen evenly from the classes; floors are about these points.",
    )
    group.addoption(
        "--radii-seed",
        type=int,
        default=0,
        metavar="S",
        help="The order of points and the attacks of every gate; another one for each build keeps points unknown.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Announce the marker."""
    words = "settings of radii_gate in this test; `-m robustness` selects such tests."
    config.addinivalue_line("markers", f"{MARKER}(points=None, suite='standard', seed=0): {words}")
    config.stash[_sentences] = []


@pytest.fixture
def radii_gate(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> RadiiGate:
    """Fail the test if a model misses a requirement: ``radii_gate(model, data, "robust(linf:2/255)>=0.6")``.

    ``model`` and ``data`` are what :func:`radii.gate` takes, or their names as on the command line. The keywords
    ``points``, ``suite`` and ``seed`` come before those of the marker ``robustness``, and these before
    ``--radii-points`` and ``--radii-seed``. The answers become properties of the test, which JUnit XML shows. Returned
    is the :class:`radii.evaluation.gate_result.GateResult`.
    """

    def check(model: Any, data: Any, *requirements: str, **settings: Any) -> GateResult:
        try:
            result = _measured(model, data, requirements, _settings(request, settings))
        except ValueError as error:  # what InputError is; its class is not imported with this module
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        sentences = [f"{own.requirement}: {own.sentence()}" for own in result.results]
        for own in result.results:
            record_property(str(own.requirement), own.sentence())
        request.config.stash[_sentences] += [f"{request.node.nodeid}: {sentence}" for sentence in sentences]
        if not result.passed:
            pytest.fail("\n".join([*sentences, result.promise()]), pytrace=False)
        return result

    return check


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The answers of all gates, those of passed tests, too."""
    if sentences := config.stash.get(_sentences, []):
        terminalreporter.section("robustness")
        for sentence in sentences:
            terminalreporter.line(sentence)


def _settings(request: pytest.FixtureRequest, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of one gate: its own, then those of the marker, then those of the command line."""
    marker = request.node.get_closest_marker(MARKER)
    known = {"points": request.config.getoption("radii_points"), "seed": request.config.getoption("radii_seed")}
    for source, values in ((f"The marker {MARKER}", marker.kwargs if marker else {}), ("radii_gate", settings)):
        if wrong := sorted(values.keys() - set(_SETTINGS)):
            from radii.errors import InputError

            raise InputError(f"{source} has no setting {wrong[0]!r}; known: {', '.join(_SETTINGS)}.")
        known |= values
    return known


def _measured(model: Any, data: Any, requirements: tuple[str, ...], settings: dict[str, Any]) -> GateResult:
    """The gate's answers."""
    from radii.evaluation.gate import LEAST, gate, points_of
    from radii.evaluation.requirement import Requirement
    from radii.runs.component_specs import DataSpec, choose_rows

    for text in requirements:
        Requirement.parse(text)  # what is written wrong is said before any work
    source = DataSpec.of(data) if isinstance(data, str) else None
    model, suite = _network(model, source) if isinstance(model, str) else (model, None)
    model, test = points_of(model, source.load() if source else data)
    points, seed = settings["points"], settings["seed"]
    rows = None if points is None else choose_rows(test, points, seed)
    return gate(
        model,
        test,
        requirements,
        suite=settings.get("suite", suite),
        least=min(LEAST, len(test) if rows is None else len(rows)),
        rows=rows,
        seed=seed,
    )


def _network(name: str, source: DataSpec | None) -> tuple[Any, str]:
    """The model that MODEL of the command line names, and the attacks that it allows."""
    from radii.runs.model_source import find_model, load_model
    from radii.runs.store import Store

    store = Store.default()
    loaded = load_model(find_model(name, store=store, data=source), store, source.load() if source else None)
    return loaded.model, "standard" if loaded.has_gradients else "black-box"
