"""Where results come from: the commits that computed them, the digests of their data, their seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from radii.runs.component_specs import DataSpec
from radii.runs.step import Step
from radii.spec import Spec

NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class Provenance:
    """What a result depends on beside its plan.

    Args:
        commits: of the source trees that computed the runs; :data:`NOT_RECORDED` for runs that do not say.
        data: the digests of the training and the test split by source.
        seeds: of the trainings and the random draws.
    """

    commits: tuple[str, ...] = (NOT_RECORDED,)
    data: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()

    @classmethod
    def of(cls, steps: Sequence[Step], environments: Sequence[Mapping[str, Any]]) -> Provenance:
        """Of planned steps, and of the environments of the runs that were computed."""
        parts = [part for step in steps for part in _parts(step)]
        data = {part.source: {"train": part.train, "test": part.test} for part in parts if isinstance(part, DataSpec)}
        seeds = {seed for part in parts if isinstance(seed := getattr(part, "seed", None), int)}
        commits = {str(environment.get("commit", NOT_RECORDED)) for environment in environments} or {NOT_RECORDED}
        return cls(tuple(sorted(commits)), dict(sorted(data.items())), tuple(sorted(seeds)))

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Provenance:
        """What :meth:`to_json` wrote; results of earlier versions say nothing."""
        return cls(
            tuple(content.get("commits", (NOT_RECORDED,))), content.get("data", {}), tuple(content.get("seeds", ()))
        )

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {"commits": list(self.commits), "data": dict(self.data), "seeds": list(self.seeds)}


def _parts(value: object) -> Iterator[Spec]:
    """A spec and every spec inside it."""
    if isinstance(value, Spec):
        yield value
        for name in type(value).model_fields:
            yield from _parts(getattr(value, name))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _parts(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _parts(item)
