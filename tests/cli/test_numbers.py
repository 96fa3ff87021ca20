"""No number on the command line ends in a traceback or a hang: NaN, infinities, huge and negative ones, words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest
from tests.cli.every_option import CommandOption, options_of_kind

from radii.data import variant_chain
from radii.errors import InputError

Run = Callable[..., Any]
NUMBERS = [pytest.param(each, id=f"{'-'.join(each.words)}-{each.name}") for each in options_of_kind("int", "float")]
WRONG = ("nan", "inf", "-inf", "1e400", "-1e400", "9" * 30, "-" + "9" * 30, "9" * 5000, "0x10", "", "ten")
MORE = {"gate": ("--require", "clean>=0.5"), "evaluate": ("--threat", "l2:1"), "attack": ("--threat", "l2:1")}


@pytest.mark.parametrize("option", NUMBERS)
def test_a_wrong_number_is_one_sentence(radii: Run, option: CommandOption, tmp_path: Path) -> None:
    flag = f"--{option.name.replace('_', '-')}"
    for number in WRONG:
        done = radii(*option.words, *["digits"] * option.required, *MORE.get(option.words[0], ()), f"{flag}={number}")
        assert done.code == 2, number
        assert done.err.count("\n") == 1, done.err
        assert flag in done.err, done.err
    assert not (tmp_path / "runs").exists()


VARIANTS = [name for name, kind in variant_chain.KINDS.items() if kind.read is not None and name != "label"]
ARGUMENTS = (
    *WRONG, "0", "-1", "1.5", "-0.5", "1e20", "99999999999999999999", "1e-400", "1-", "1-99999999999999999999",
    "1x99999999999999999999", "1_000", "0x1", "٣", "½", " ", "1 2", "+", "--1",
)  # fmt: skip


@pytest.mark.parametrize("name", VARIANTS)
def test_every_argument_of_a_variant_is_read_or_refused(name: str) -> None:
    """What is read has a text that is read as the same; what is refused is told in one line."""
    for argument in ARGUMENTS:
        try:
            variant = variant_chain.parse(f"{name}:{argument}")
        except InputError as refusal:
            told = str(refusal)
            assert "\n" not in told
            continue
        assert variant_chain.parse(str(variant)) == variant
        value = variant_chain.KINDS[name].read(variant.argument)  # type: ignore[misc]
        assert np.all(np.asarray(value) >= 0)


@pytest.mark.parametrize("chain", ["subset:99999999999999999999", "subset:99999999999", "rest:99999999999",
                                   "deform:99999999999", "draw:99999999999", "smooth:99999999999", "pca:1-99999999999",
                                   "gamma:nan", "scale:inf", "saturate:-inf", "resize:99999999999"])  # fmt: skip
def test_a_variant_that_cannot_be_is_refused_at_once(radii: Run, chain: str) -> None:
    done = radii("audit", f"digits+{chain}", "--quick")
    assert (done.code, done.err.count("\n")) == (2, 1), done.err


RADII = (
    "linf:nan",
    "linf:1e400",
    "l2:1e39",
    "linf:-1",
    "l2:" + "9" * 400 + "/1",
    "l2:1/" + "9" * 5000,
    "linf:1/0",
    "l2:",
)


@pytest.mark.parametrize("threat", RADII)
def test_a_wrong_radius_is_one_sentence(radii: Run, threat: str) -> None:
    for words in (("audit", "digits"), ("assess", "digits"), ("evaluate", "net", "digits")):
        done = radii(*words, "--threat", threat)
        assert (done.code, done.err.count("\n")) == (2, 1), done.err


SETTINGS = ("epochs", "steps", "batch_size", "optimizer.lr", "optimizer.momentum", "model.widen", "extra_share")


@pytest.mark.parametrize("name", SETTINGS)
def test_a_wrong_setting_is_one_sentence(radii: Run, name: str) -> None:
    for number in ("nan", "inf", "-inf", "-1", "1e400", "1e300", "9" * 5000, "ten"):
        done = radii("train", "digits", "--model", "lenet5", f"{name}={number}")
        assert (done.code, done.err.count("\n")) == (2, 1), (number, done.err[-500:])


def theory_options() -> Iterator[tuple[str, str]]:
    """The results of ``radii theory`` and the parameters of each."""
    from radii_papers.theory.statements import STATEMENTS

    for name, statement in STATEMENTS.items():
        hints = get_type_hints(statement.simulation())
        yield from ((name, each) for each, hint in hints.items() if "int" in str(hint) or "float" in str(hint))


@pytest.mark.parametrize(("result", "name"), list(theory_options()))
def test_a_wrong_parameter_of_a_theorem_is_one_sentence(radii: Run, result: str, name: str) -> None:
    for number in (*WRONG, "1e999999999", "1/0"):
        done = radii("theory", result, f"--{name.replace('_', '-')}={number}")
        assert (done.code, done.err.count("\n")) == (2, 1), (number, done.err[-500:])
