"""The table of certificates: what each certifies, how sure it is, what it costs, and the function that computes it.

A new certificate is a module and one line of :data:`METHODS`. Another package
publishes its own as an entry point in the group ``radii.certificates``: a
function (model, x, ball) that returns a Certificate. Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from radii.errors import InputError, unknown_name
from radii.registry import Registry, is_import_path
from radii.threat import NORM_NAMES

if TYPE_CHECKING:
    from torch import Tensor, nn

    from radii.certificates.certificate import Arithmetic, Kind
    from radii.threat import Ball, Norm

AUTO = "auto"
ASCENT = 20  # steps of alpha-CROWN
ROOT, REGION = 180, 50  # passes of complete verification: for each rival class, then for each region
BOUNDS = "radii.certificates.bound_certificate:certify_request"


@dataclass(frozen=True)
class Request:
    """What a method is asked, by :func:`radii.certify` or by ``auto``.

    Attributes:
        method: the method's name.
        model: a network from inputs to logits.
        x: inputs [n, …] in the ball's box; never changed.
        ball: the norm, the largest radius and the box.
        radii: radii to try, for methods that prove stated radii.
        sigma: standard deviation of the noise of smoothing.
        alpha: error probability of a statement of smoothing.
        samples: the largest number of samples of smoothing for each input.
        simultaneous: whether one ``alpha`` holds for all inputs together.
        seed: of the noise.
        stored: points and labels of the nearest-neighbor classifier.
        arithmetic: whether the rounding of float32 is covered.
        seconds: of complete verification, for each input and radius.
        passes: of ``auto``: the forward passes that each input [n] has left. They limit the method in place of
            ``seconds``, and norms of layers are proved only where that pays.
        proved: of ``auto``: the radius [n] that is proved already.
    """

    method: str
    model: nn.Module
    x: Tensor
    ball: Ball
    radii: tuple[float, ...] = ()
    sigma: float | None = None
    alpha: float = 0.001
    samples: int = 100_000
    simultaneous: bool = False
    seed: int = 0
    stored: tuple[Tensor, Tensor] | None = None
    arithmetic: Arithmetic = "float32"
    seconds: float = 60.0
    passes: Tensor | None = None
    proved: Tensor | None = None


class ProofSize(Protocol):
    """What the cost of a proof depends on, for n points in balls."""

    @property
    def norm(self) -> Norm:
        """Of the balls."""

    @property
    def classes(self) -> int:
        """Of the network."""

    @property
    def hidden_rows(self) -> Tensor:
        """Rows of coefficients that CROWN carries back for hidden values: [n]."""


Cost = Callable[[ProofSize], "Tensor | int"]


def _intervals(size: ProofSize) -> int:
    return 4 if size.norm == "linf" else 8  # Linf intervals are cheap, in float32


def _crown_ibp(size: ProofSize) -> int:
    return 8 + 2 * size.classes


def _crown(size: ProofSize) -> Tensor:
    """A row of coefficients carried back costs about one pass."""
    return 8 + 2 * size.classes + size.hidden_rows


def _ascent(size: ProofSize) -> Tensor:
    """A step carries each row of CROWN, and those of the margins twice, back and forth again."""
    return 3 * ASCENT * (2 * size.classes + size.hidden_rows)


def _alpha_crown(size: ProofSize) -> Tensor:
    return _crown(size) + _ascent(size)


def _sdp_crown(size: ProofSize) -> Tensor:
    """The same work beside CROWN's, and a search of one parameter for each row and layer."""
    return 4 * _crown(size) + 3 * _ascent(size)


def _complete(size: ProofSize) -> int:
    return ROOT * (size.classes - 1) + REGION


@dataclass(frozen=True)
class Method:
    """One certificate.

    Attributes:
        name: as ``--method`` has it.
        norms: of the balls that it certifies.
        kind: how sure its statement is, see :class:`~radii.certificates.certificate.Certificate`.
        certify: the import path of a function from a :class:`Request` to a Certificate.
        help: what it is and for which models, in one line.
        auto: norms of the balls in which ``auto`` tries it, in the order of the table; none: never.
        cost: about how many forward passes it takes at each point; None: ``auto`` does not count any.
        cheaper: methods of bounds that are tried before it, the cheapest first.
    """

    name: str
    norms: tuple[Norm, ...]
    kind: Kind
    certify: str
    help: str
    auto: tuple[Norm, ...] = ()
    cost: Cost | None = None
    cheaper: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.auto and self.kind != "deterministic":
            raise ValueError(f"auto makes deterministic certificates, and {self.name} is {self.kind}.")

    @property
    def proves_by_bounds(self) -> bool:
        """Whether it bounds the margins on a ball, so that one traced network serves all such methods."""
        return self.certify == BOUNDS

    @property
    def attempts(self) -> tuple[str, ...]:
        """The methods of bounds that prove a ball, the cheapest first and this one last."""
        return *self.cheaper, self.name


_ALL: tuple[Norm, ...] = ("l1", "l2", "linf")
_BOTH: tuple[Norm, ...] = ("l2", "linf")
_L2: tuple[Norm, ...] = ("l2",)
_SMOOTHING = "radii.certificates.smoothing.randomized"
METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "linear", _ALL, "deterministic", "radii.certificates.linear:certify_request",
            "exact, in closed form, for linear models: networks of linear layers, linear estimators and pipelines",
            auto=_ALL,
        ),
        Method(
            "trees", _ALL, "deterministic", "radii.certificates.trees:certify_request",
            "exact, by branch and bound, for tree ensembles of scikit-learn, XGBoost, LightGBM and CatBoost",
            auto=_ALL,
        ),
        Method(
            "margin", _ALL, "deterministic", "radii.certificates.margin:certify_request",
            "the logit margin over a proved Lipschitz constant; Linf for networks of Linf distances", auto=_ALL,
        ),
        Method(
            "ibp", _ALL, "deterministic", BOUNDS,
            "intervals, the last linear layers merged (Gowal et al. 2018)", auto=_ALL, cost=_intervals,
        ),
        Method(
            "crown-ibp", _ALL, "deterministic", BOUNDS,
            "intervals inside, one backward pass for the margins (Zhang et al. 2020)",
            auto=_ALL, cost=_crown_ibp, cheaper=("ibp",),
        ),
        Method(
            "crown", _ALL, "deterministic", BOUNDS,
            "backward passes for every ReLU's input too (Zhang et al. 2018)",
            auto=_ALL, cost=_crown, cheaper=("ibp", "crown-ibp"),
        ),
        Method(
            "alpha-crown", _ALL, "deterministic", BOUNDS,
            "CROWN with lower slopes by gradient ascent (Xu et al. 2021)",
            auto=_ALL, cost=_alpha_crown, cheaper=("ibp", "crown-ibp", "crown"),
        ),
        Method(
            "sdp-crown", _L2, "deterministic", BOUNDS,
            "alpha-CROWN that bounds the ReLUs of a layer together, on the CPU (Chiu et al. 2025)",
            auto=_L2, cost=_sdp_crown, cheaper=("ibp", "crown-ibp", "crown"),
        ),
        Method(
            "complete", _ALL, "deterministic", "radii.certificates.complete_certificate:certify_request",
            "branch and bound until the point is decided or the time is over", auto=_ALL, cost=_complete,
        ),
        Method(
            "wong-kolter", _ALL, "deterministic", BOUNDS,
            "CROWN with equal slopes: the dual of the convex outer polytope (Wong & Kolter 2018)",
        ),
        Method(
            "smoothing", _L2, "probabilistic", f"{_SMOOTHING}:certify_request",
            "the smoothed classifier of any model that was trained under noise (Cohen et al. 2019)",
        ),
        Method(
            "estimate", _L2, "estimate", f"{_SMOOTHING}:estimate_request",
            "the plug-in radius of smoothing (Prach & Lampert 2025): certifies nothing",
        ),
        Method(
            "prototypes", _ALL, "deterministic", "radii.certificates.prototype_faces:certify_request",
            "the distance to the faces between learned prototypes, for the model of that name",
        ),
        Method(
            "nearest", _ALL, "deterministic", "radii.certificates.nearest:certify_request",
            "the nearest-neighbor classifier over the training split",
        ),
    )
}  # fmt: skip
CERTIFICATES = Registry("certificate", {name: method.certify for name, method in METHODS.items()})


def method_names() -> tuple[str, ...]:
    """``auto``, the names of the table in its order, and those that other packages publish."""
    return AUTO, *METHODS, *(name for name in CERTIFICATES if name not in METHODS)


def check_method(name: str) -> None:
    """Refuse a name that no certificate has; an import path is not imported."""
    if name.partition(":")[0] in NORM_NAMES:
        raise InputError(f"{name!r} is a threat, not a method; write certify(model, x, threat={name!r}).")
    if name not in (known := method_names()) and not is_import_path(name):
        hint = "Or give an import path: package.module:function or file.py:function."
        raise unknown_name("certificate", name, known, hint)


def bound_methods() -> tuple[str, ...]:
    """The methods that prove by bounds of margins."""
    return tuple(name for name, method in METHODS.items() if method.proves_by_bounds)


def check_bound_method(name: str) -> str:
    """``name``, if it is a method that proves by bounds of margins."""
    if name not in bound_methods():
        raise unknown_name("method of bounds", name, bound_methods())
    return name


def check_norm(name: str, norm: Norm) -> None:
    """Refuse a norm that the method called ``name`` does not certify."""
    if norm not in METHODS[name].norms:
        norms = " and ".join(METHODS[name].norms)
        raise InputError(f"The method {name!r} certifies {norms} balls, got {norm!r} instead; try auto.")


def tried_by_auto(norm: Norm, last: str) -> list[Method]:
    """The methods that ``auto`` tries in balls of ``norm``, the cheapest first, up to ``last``."""
    names = [name for name, method in METHODS.items() if method.auto]
    if last not in names:
        raise unknown_name("method of auto", last, names)
    return [METHODS[name] for name in names[: names.index(last) + 1] if norm in METHODS[name].auto]


def method_table() -> str:
    """The table as Markdown, as the guide to certificates shows it."""
    rows = [("method", "balls", "kind", "what it is"), ("---",) * 4]
    for method in METHODS.values():
        balls = ", ".join(norm.replace("l", "L", 1) for norm in method.norms)
        rows.append((f"`{method.name}`", balls, method.kind, method.help))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
