"""The table of certificates: the guide shows it, and one line of it is enough for a new certificate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from radii import registry
from radii.certificates.choose import certify, choose
from radii.certificates.methods import CERTIFICATES, METHODS, Method, check_method, method_names, method_table
from radii.errors import InputError
from radii.evaluation.evaluate import evaluate
from radii.threat import Ball

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "certify.md"
TOY = '''
import torch
from radii import Certificate

def of_ball(model, x, ball):
    """The networks of these tests answer class 0 everywhere in the box."""
    zeros = torch.zeros(len(x), dtype=torch.int64)
    radius = torch.full((len(x),), 0.5, dtype=torch.float64)
    return Certificate(zeros, radius, ball.norm, "deterministic", "toy", assumptions=("toy",))

def of_request(request):
    return of_ball(request.model, request.x, request.ball)
'''


@pytest.fixture(autouse=True)
def _toy_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toy_certificate.py").write_text(TOY)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.fixture(autouse=True)
def _same_table() -> Iterator[None]:
    before, known = dict(METHODS), dict(CERTIFICATES.known)
    yield
    for table, content in ((METHODS, before), (CERTIFICATES.known, known)):
        table.clear()
        table.update(content)


def set_table(*lines: Method) -> None:
    """What these lines in ``METHODS`` alone mean."""
    for table in (METHODS, CERTIFICATES.known):
        table.clear()
    METHODS.update({line.name: line for line in lines})
    CERTIFICATES.known.update({line.name: line.certify for line in lines})


def constant(*last: nn.Module) -> nn.Module:
    """A network that answers class 0 on the whole box, with a last layer that no other method reads."""
    net = nn.Linear(8, 3)
    torch.nn.init.normal_(net.weight, std=0.1, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        net.bias.copy_(torch.tensor([9.0, 0.0, 0.0]))
    return nn.Sequential(net, *last).eval()


def inputs(n: int = 6) -> torch.Tensor:
    return torch.rand(n, 8, generator=torch.Generator().manual_seed(1))


def test_the_guide_shows_the_table() -> None:
    assert method_table() in GUIDE.read_text()


def test_every_function_of_the_table_exists_and_auto_is_deterministic() -> None:
    for name, method in METHODS.items():
        assert callable(CERTIFICATES.factory(name))
        assert set(method.cheaper) <= set(METHODS)
        assert not method.auto or method.kind == "deterministic"
    with pytest.raises(ValueError, match="auto makes deterministic certificates"):
        Method("dice", ("l2",), "probabilistic", "toy_certificate:of_request", "a guess", auto=("l2",))


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("name", METHODS)
def test_a_norm_that_is_not_in_the_table_is_refused(name: str, norm: str) -> None:
    if norm not in METHODS[name].norms:
        with pytest.raises(InputError, match=f"certifies .* balls, got '{norm}' instead"):
            certify(constant(), inputs(), name, norm=norm, radii=[0.1], sigma=0.1, stored=(inputs(), torch.arange(6)))


def test_one_line_of_the_table_makes_a_certificate() -> None:
    model, x = constant(nn.Hardshrink()), inputs()
    with pytest.raises(InputError, match="No certificate is called 'toy'"):
        certify(model, x, "toy")
    line = Method("toy", ("linf",), "deterministic", "toy_certificate:of_request", "a toy", auto=("linf",))
    set_table(line, *METHODS.values())
    assert "toy" in method_names()
    assert "| `toy` | Linf | deterministic | a toy |" in method_table()
    with pytest.raises(InputError, match=r"Known: .*\btoy\b"):
        check_method("tooy")
    with pytest.raises(InputError, match="'toy' certifies linf balls, got 'l2'"):
        certify(model, x, "toy", norm="l2")
    assert certify(model, x, "toy", "linf:0.3").radius.tolist() == [0.5] * len(x)
    assert certify(model, x, threat="linf:0.3").methods == ("toy",) * len(x)
    scores = evaluate(model, x, torch.zeros(len(x), dtype=torch.int64), "linf:0.3", suite="pgd")
    assert scores.certificate_method == "toy"
    assert scores.robust.proved.value == 1.0


def test_auto_pays_for_a_line_with_a_cost() -> None:
    """It adds its assumptions, and is left out at points where passes are too few."""
    model, x, ball = constant(), inputs(), Ball("linf", 0.5)
    line = Method("toy", ("linf",), "deterministic", "toy_certificate:of_request", "a toy", ("linf",), lambda _: 1000)
    set_table(line)
    found = choose(model, x, ball, last="toy").certificate
    assert found is not None
    assert set(found.methods) == {"toy"}
    assert "toy" in found.assumptions
    poor = choose(model, x, ball, last="toy", passes=999)
    assert poor.refusals == ("toy: it takes up to 1,000 forward passes at 6 of 6 points, where fewer are left; allow "
                             "more by passes=.",)  # fmt: skip


def test_an_entry_point_makes_a_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function (model, x, ball) of another package is known by its name; ``auto`` does not try it."""
    published = {"radii.certificates": {"toy": "toy_certificate:of_ball", "crown": "toy_certificate:of_ball"}}
    monkeypatch.setattr(registry, "published", lambda group: published.get(group, {}))
    model, x = constant(nn.Hardshrink()), inputs()
    assert "toy" in method_names()
    check_method("toy")
    assert certify(model, x, "toy", "l2:0.3").radius.tolist() == [0.5] * len(x)
    assert certify(constant(), x, "crown", "l2:0.3").method == "crown", "a name of the table stays ours"
    labels = torch.zeros(len(x), dtype=torch.int64)
    assert evaluate(model, x, labels, "linf:0.3", suite="pgd").certificate_method is None
    scores = evaluate(model, x, labels, "linf:0.3", suite="pgd", certificate="toy")
    assert scores.certificate_method == "toy"
    assert scores.robust.proved.value == 1.0


def test_a_threat_in_the_place_of_a_method_is_said() -> None:
    """Other functions take the threat there."""
    with pytest.raises(InputError, match=r"'linf:0\.3' is a threat, not a method"):
        certify(constant(), inputs(), "linf:0.3")
