"""Changes that people meet as threats: brightness, contrast, blur and others, with a strength as the radius.

``Change("brightness", 0.2)`` is every image clip(x + t), rounded to float32, with |t| <= 0.2. Most kinds move along
directions D_k(x) of the image: x(t) = clip(x + t_1 D_1(x) + t_2 D_2(x) + …). Gamma and hue are smooth curves in t;
rotate, translate and scale are for attacks only. Written: ``brightness:0.2``, ``blur:1,width=2``,
``brightness:0.1+contrast:0.3``. Several changes add up, each with its own parameter, and their radius is a share:
1 is the whole threat.
"""

from __future__ import annotations

import re
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Discriminator, Tag, ValidationError, field_validator, model_validator

from radii.change_kinds import DEFAULTS, KINDS
from radii.errors import InputError, brief, reason, unknown_name
from radii.spec import Spec, explain
from radii.tables import format_radius, parse_number
from radii.threat import NORM_NAMES, Ball, Box

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from radii.change_pixels import ImagePath

GRAMMAR = "Write KIND:STRENGTH, for example brightness:0.2, blur:1,width=2 or brightness:0.1+contrast:0.3."


class Change(Spec):
    """The images that one ``kind`` of change makes of an image with a strength of at most ``strength``.

    Args:
        kind: a name in ``KINDS``.
        strength: the largest |t|.
        width: of a kernel, in pixels.
        angle: of a direction, in degrees.
        file: of a direction or a kernel, ``.npy``; ``digest`` identifies its content.
        beside: further changes, which are added to this one; each has a parameter of its own.
    """

    omit_if_default: ClassVar[dict[str, Any]] = {
        "width": None,
        "angle": None,
        "digest": None,
        "beside": (),
    }
    exclude_from_hash: ClassVar[frozenset[str]] = frozenset({"file"})

    kind: str
    strength: float
    width: float | None = None
    angle: float | None = None
    file: str | None = None
    digest: str | None = None
    beside: tuple[Change, ...] = ()

    def __init__(self, kind: str, strength: float, **settings: Any) -> None:
        try:
            super().__init__(kind=kind, strength=strength, **settings)  # type: ignore[call-arg]
        except ValidationError as error:
            faults = [str(fault["msg"]).removeprefix("Value error, ") for fault in error.errors(include_url=False)]
            said = "; ".join(faults)
            own = all(fault["type"] == "value_error" for fault in error.errors())
            raise (InputError(f"{said[0].upper()}{said[1:]}.") if own else explain(error, "Change")) from None

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        if kind not in KINDS:
            raise unknown_name("change", kind, KINDS, GRAMMAR)
        return kind

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, values: Any) -> Any:
        """Settings that are not said get the kind's default; a file gets its digest."""
        if not isinstance(values, dict):
            return values
        values = dict(values)
        for name, known in DEFAULTS.items():
            if values.get(name) is None and values.get("kind") in known:
                values[name] = known[values["kind"]]
        if values.get("file") is not None and values.get("digest") is None:
            values["digest"] = _digest(Path(values["file"]))
        return values

    @model_validator(mode="after")
    def _possible(self) -> Change:
        kind = KINDS[self.kind]
        if not 0 <= self.strength <= kind.most:
            limit = "" if kind.most == inf else f" and at most {kind.most:g}"
            raise ValueError(f"the strength of {self.kind} must be at least 0{limit}, got {self.strength:g} instead")
        for name in ("width", "angle", "file"):
            if getattr(self, name) is not None and name not in kind.settings:
                allowed = " and ".join(kind.settings) or "no setting"
                raise ValueError(f"{self.kind} takes {allowed}, got {name}")
        if "file" in kind.settings and self.file is None:
            raise ValueError(f"{self.kind} needs a file, as {self.kind}:{self.strength:g},file=own.npy")
        if self.width is not None and not 0 < self.width <= 1000:
            raise ValueError(f"the width must be above 0 and at most 1000 pixels, got {self.width:g} instead")
        nested = any(part.beside for part in self.beside)
        if self.beside and (nested or any(KINDS[part.kind].form != "line" for part in (self, *self.beside))):
            lines = ", ".join(name for name, each in KINDS.items() if each.form == "line")
            raise ValueError(f"only these changes can be added: {lines}")
        return self

    @classmethod
    def parse(cls, text: str) -> Change:
        """Read ``brightness:0.2``, ``motion:1,width=7,angle=45`` or ``brightness:0.1+contrast:0.3``.

        >>> str(Change.parse("Brightness: 0.20 + contrast:0.3"))
        'brightness:0.2+contrast:0.3'
        """
        parts = [_parsed(part) for part in re.split(r"\+(?=\s*[A-Za-z]+\s*:)", text)]
        if len({part["kind"] for part in parts}) < len(parts):
            raise InputError(f"The change {text!r} names one kind twice. {GRAMMAR}")
        return cls(**parts[0], beside=tuple(cls(**part) for part in parts[1:]))

    @classmethod
    def of(cls, threat: Change | str) -> Change:
        """The change itself, or the one that a text names."""
        if not isinstance(threat, str | Change):
            raise InputError(f"A change must be a radii.Change or a text, got {brief(threat)} instead. {GRAMMAR}")
        return cls.parse(threat) if isinstance(threat, str) else threat

    def __str__(self) -> str:
        settings = {
            "width": self.width if self.width != DEFAULTS["width"].get(self.kind) else None,
            "angle": self.angle if self.angle != DEFAULTS["angle"].get(self.kind) else None,
            "file": self.file,
        }
        said = "".join(
            f",{name}={value:.12g}" if isinstance(value, float) else f",{name}={value}"
            for name, value in settings.items()
            if value is not None
        )
        return "+".join([f"{self.kind}:{format_radius(self.strength)}{said}", *map(str, self.beside)])

    @property
    def parts(self) -> tuple[Change, ...]:
        """The changes that are added, one by one."""
        return (self.model_copy(update={"beside": ()}), *self.beside)

    @property
    def radius(self) -> float:
        """The strength; of several changes together 1, the whole threat."""
        return self.strength if not self.beside else 1.0

    @property
    def box(self) -> Box:
        """Pixels stay in it: they are clipped."""
        return (0.0, 1.0)

    @property
    def form(self) -> str:
        """``line``, ``curve`` or ``attack``."""
        return KINDS[self.kind].form

    @property
    def parameters(self) -> int:
        """How many numbers t has."""
        return sum(KINDS[part.kind].parameters for part in self.parts)

    @property
    def strengths(self) -> tuple[float, ...]:
        """The largest |t_k| of each parameter."""
        return tuple(part.strength for part in self.parts for _ in range(KINDS[part.kind].parameters))

    @property
    def signed(self) -> tuple[bool, ...]:
        """Whether each parameter may be negative."""
        return tuple(KINDS[part.kind].signed for part in self.parts for _ in range(KINDS[part.kind].parameters))

    @property
    def words(self) -> str:
        """For readers: ``brightness and contrast``."""
        return " and ".join(part.kind for part in self.parts)

    def with_radius(self, radius: float) -> Change:
        """The same change with another strength; of several changes this share of them."""
        if not self.beside:
            return self.model_copy(update={"strength": radius})
        first, *rest = (
            part.model_copy(update={"strength": part.strength * radius / self.radius}) for part in self.parts
        )
        return first.model_copy(update={"beside": tuple(rest)})

    def radius_of(self, t: Tensor) -> Tensor:
        """The radius of the smallest such threat that has the parameters ``t`` [n, k]: [n] float64."""
        if not self.beside:
            return t.double().abs().amax(1)
        strengths = t.new_tensor(self.strengths).double().clamp_min(1e-300)
        return (t.double().abs() / strengths).amax(1)

    def path(self, x: Tensor) -> ImagePath:
        """The changed images of ``x`` [n, …] as a function of the parameters."""
        from radii.change_pixels import ImagePath

        return ImagePath.of(self, x)

    def apply(self, x: Tensor, t: Tensor) -> Tensor:
        """The images ``x`` [n, …] with the parameters ``t`` [n, k], by float64, clipped, then float32."""
        return self.path(x).at(t)

    def random_start(self, x: Tensor, generator: Generator) -> Tensor:
        """Each row of ``x`` changed by parameters that are drawn uniformly."""
        import torch

        draw = torch.rand(len(x), self.parameters, generator=generator, dtype=torch.float64)
        low = torch.tensor([-s if both else 0.0 for s, both in zip(self.strengths, self.signed, strict=True)])
        return self.apply(x, low + draw * (torch.tensor(self.strengths, dtype=torch.float64) - low))


def _parsed(text: str) -> dict[str, Any]:
    body, *settings = (part.strip() for part in text.split(","))
    match = re.fullmatch(r"([^:]+):(.+)", body)
    if match is None:
        raise InputError(f"The change {text.strip()!r} is not understood. {GRAMMAR}")
    kind = match[1].strip().lower()
    if kind not in KINDS:
        raise unknown_name("change", kind, KINDS, GRAMMAR)
    values: dict[str, Any] = {"kind": kind, "strength": _number(match[2].strip(), "strength")}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or name not in KINDS[kind].settings:
            known = ", ".join(KINDS[kind].settings)
            raise InputError(
                f"The change {text.strip()!r}: {setting!r} is not understood. "
                + (f"Behind {kind}:STRENGTH may stand {known}, as ,{KINDS[kind].settings[0]}=…" if known else "")
                + ("" if known else f"Nothing may stand behind {kind}:STRENGTH. {GRAMMAR}")
            )
        values[name] = value if name == "file" else _number(value, name)
    return values


def _number(text: str, what: str) -> float:
    try:
        return parse_number(text)
    except ValueError as why:
        raise InputError(f"The {what} {text!r} {why}. {GRAMMAR}") from None


def _digest(path: Path) -> str:
    from radii.files import sha256
    from radii.untrusted_text import check_file

    check_file(path)
    try:
        return sha256(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {reason(error)}.") from error


def _which(value: Any) -> str:
    """How a stored threat is told apart."""
    return "change" if isinstance(value, Change) or (isinstance(value, dict) and "kind" in value) else "ball"


Threat = Annotated[Annotated[Ball, Tag("ball")] | Annotated[Change, Tag("change")], Discriminator(_which)]


def threat_words(threat: Ball | Change) -> str:
    """The threat without its radius: ``L∞``, ``brightness``."""
    return NORM_NAMES[threat.norm] if isinstance(threat, Ball) else threat.words


def within_words(threat: Ball | Change) -> str:
    """For a sentence: ``L∞ distance 0.1``, ``brightness:0.2``."""
    return (
        f"{threat_words(threat)} distance {format_radius(threat.radius)}" if isinstance(threat, Ball) else str(threat)
    )


def radius_words(threat: Ball | Change) -> str:
    """What a radius of ``threat`` measures: ``L∞ radius``, ``strength of brightness``."""
    if isinstance(threat, Ball):
        return f"{threat_words(threat)} radius"
    return f"strength of {threat.words}" if not threat.beside else f"share of {threat}"


def given_threat(function: str, threat: Any) -> Any:
    """The threat of a call of ``radii.FUNCTION``, which must be given."""
    if threat is None:
        raise InputError(
            f'A threat is missing: radii.{function}(model, x, y, "linf:8/255"); where x has the labels, '
            f'radii.{function}(model, x, threat="linf:8/255").'
        )
    return threat


def threat_of(threat: Ball | Change | str) -> Ball | Change:
    """The threat itself, or the one that a text names: a norm ball or a change of images.

    >>> threat_of("brightness:0.2").radius
    0.2
    """
    if not isinstance(threat, str):
        if not isinstance(threat, Ball | Change):
            raise InputError(f"A threat must be a text, a radii.Ball or a radii.Change, got {brief(threat)} instead.")
        return threat
    name = threat.partition(":")[0].strip().lower()
    if name in KINDS or "+" in threat:
        return Change.parse(threat)
    if ":" not in threat or re.match(r"l(\d|_|∞|inf)", name):
        return Ball.parse(threat)
    raise unknown_name("threat", name, [*NORM_NAMES, *KINDS], f"Write NORM:RADIUS, as linf:8/255. {GRAMMAR}")
