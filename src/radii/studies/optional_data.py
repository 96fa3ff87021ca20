"""Datasets that a study uses where they are on the machine, and leaves out with a sentence where they are not."""

from __future__ import annotations

import logging
from functools import cache

from radii.data import sources, variant_chain
from radii.errors import InputError


def present(*names: str, study: str) -> tuple[str, ...]:
    """Those of the datasets that are on this machine; nothing is fetched.

    Args:
        *names: datasets by name.
        study: what leaves the others out, for the warning.

    Returns:
        The names in their order.
    """
    return tuple(name for name in names if _here(name, study))


@cache
def _here(name: str, study: str) -> bool:
    """Whether the dataset is here; said once where it is not."""
    try:
        with sources.only_local():
            sources.locate(variant_chain.split(name)[0])
    except InputError:
        logging.getLogger("radii").warning(
            "%s is not on this machine: %s leaves it out. Put it into $RADII_DATA to have it.", name, study
        )
        return False
    return True
