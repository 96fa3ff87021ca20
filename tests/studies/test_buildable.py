"""Networks that do not fit their data are refused before anything is computed."""

from __future__ import annotations

from contextlib import suppress

import pytest

from radii.data import sources
from radii.errors import InputError
from radii.runs.inputs import DataSpec
from radii.runs.planning import train_step
from radii.runs.step import Step, plan
from radii.studies.buildable import check_networks
from radii.studies.study import STUDIES, registered_study


def test_a_width_is_held_against_the_shape_that_variants_give() -> None:
    settings = {"steps": 1, "model": {"width": 40}}
    check_networks([train_step(DataSpec.of("digits+binarize+crop:6"), "lipschitz-mlp", "natural", settings)])
    with pytest.raises(InputError, match="at least the 64 inputs, got 40"):
        check_networks([train_step(DataSpec.of("digits+binarize"), "lipschitz-mlp", "natural", settings)])


def test_a_users_code_is_not_run_while_a_study_is_planned() -> None:
    own = train_step(DataSpec.of("digits"), "lenet5", "natural", {"steps": 1})
    check_networks([own.model_copy(update={"model": own.model.model_copy(update={"name": "no.such.module:net"})})])


@pytest.mark.parametrize("name", sorted(STUDIES))
def test_every_network_of_every_study_can_be_built(name: str) -> None:
    """At all budgets; data that is not on this machine leaves its networks out."""
    study = registered_study(name)
    with sources.only_local():
        for budget in study.budgets:
            with suppress(InputError):  # the data is not here
                steps = plan([cell.step for cell in study.cells(budget)])
                assert _refusal(steps) is None


def _refusal(steps: list[Step]) -> str | None:
    try:
        check_networks(steps)
    except InputError as error:
        return str(error)
    return None
