"""The fixture ``radii_gate``, as a team's own tests use it."""

from __future__ import annotations

import textwrap

import pytest

from radii.evaluation import evaluate, gate  # noqa: F401  # pytester forgets what its sessions import first,
from radii.runs import model_source  # noqa: F401  # and classes must stay the same ones

pytest_plugins = ["pytester"]

MODEL = """
import pytest
import torch

import radii

digits = radii.load("digits").test


def nearest():
    x, y = radii.load("digits").train.tensors()
    means = torch.stack([x[y == k].flatten(1).mean(0) for k in range(10)])
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    with torch.no_grad():
        network[1].weight.copy_(2 * means)
        network[1].bias.copy_(-means.square().sum(1))
    return network.eval()
"""


def run(pytester: pytest.Pytester, tests: str, *words: str) -> pytest.RunResult:
    pytester.makepyfile(MODEL + textwrap.dedent(tests))
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", *words)


def test_a_test_passes_or_fails_by_its_floor(pytester: pytest.Pytester) -> None:
    tests = """
        def test_holds(radii_gate):
            result = radii_gate(nearest(), digits, "clean>=0.7", "proved(l2:0.1)>=0.3", points=60)
            assert result.passed and result.population == 60

        def test_falls_short(radii_gate):
            radii_gate(nearest(), digits, "clean>=0.99", "robust(linf:0.3)>=0.9", points=60, suite="fast")
        """
    done = run(pytester, tests, "--junitxml=out.xml")
    done.assert_outcomes(passed=1, failed=1)
    text = done.stdout.str()
    assert "= robustness =" in text
    assert "test_holds: clean>=0.7: pass:" in text
    assert "clean>=0.99: FAIL:" in text
    assert "Traceback" not in text
    assert 'name="proved(l2:0.1)&gt;=0.3"' in (pytester.path / "out.xml").read_text()


def test_marker_and_options_choose_points(pytester: pytest.Pytester) -> None:
    tests = """
        x, y = digits.tensors(range(80))

        @pytest.mark.robustness(points=20, seed=3)
        def test_marked(radii_gate):
            assert radii_gate(nearest(), (x, y), "clean>=0.5").population == 20

        @pytest.mark.robustness(points=20)
        def test_own_words_come_first(radii_gate):
            assert radii_gate(nearest(), (x.numpy(), y.tolist()), "clean>=0.5", points=30).population == 30

        def test_command_line(radii_gate):
            assert radii_gate(nearest(), "digits", "clean>=0.5").population == 40
        """
    run(pytester, tests, "--radii-points", "40").assert_outcomes(passed=3)
    run(pytester, tests, "--radii-points", "40", "-m", "robustness", "--strict-markers").assert_outcomes(
        passed=2, deselected=1
    )


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ('nearest(), digits, "clean>0.9x"', "clean"),
        ("nearest(), digits", "at least one requirement"),
        ('nearest(), "digts", "clean>=0.5"', "Did you mean"),
        ('nearest(), 3, "clean>=0.5"', "pair of inputs and labels"),
        ('"no-such-model.onnx", "digits", "clean>=0.5"', "no-such-model.onnx"),
        ('nearest(), digits, "clean>=0.5", point=3', "no setting 'point'; known: points, suite, seed"),
        ('nearest(), digits, "clean>=0.5", suite="strong"', "strong"),
    ],
)
def test_a_mistake_is_one_sentence(pytester: pytest.Pytester, call: str, sentence: str) -> None:
    done = run(
        pytester,
        f"""
        def test_wrong(radii_gate):
            radii_gate({call})
        """,
    )
    done.assert_outcomes(failed=1)
    assert sentence in done.stdout.str()
    assert "Traceback" not in done.stdout.str()
    assert "plugin.py" not in done.stdout.str()


def test_a_session_without_gates_loads_nothing_of_radii(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import sys

        def test_plain():
            assert "torch" not in sys.modules
        """)
    done = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    done.assert_outcomes(passed=1)
    assert "robustness" not in done.stdout.str()
