"""Certificate: per point, a prediction and the radius within which it cannot change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Literal

from radii.errors import InputError
from radii.tables import Field, Table, Tabular, table
from radii.threat import Norm

if TYPE_CHECKING:
    from torch import Tensor, nn

    from radii.models.model_state import ModelState

Arithmetic = Literal["float32", "exact"]
SHOWN = 10  # points in a notebook
Kind = Literal["deterministic", "probabilistic", "estimate"]


@dataclass(frozen=True, repr=False)
class Certificate(Tabular):
    """The statement of a method about inputs; the method does not know their labels.

    ``radius[i] > 0``: the classifier answers ``prediction[i]`` everywhere within
    that distance of input i (strictly inside). ``radius[i] == 0``: nothing is
    proved. ``prediction[i] == -1``: the method abstains.

    ``kind`` says how sure this is: ``deterministic`` always;
    ``probabilistic`` up to an error probability of ``alpha`` per point;
    ``estimate`` not sure at all, and then nothing here may be called certified.

    Attributes:
        prediction: the class of each input [n] int64; -1: the method abstains.
        radius: proved radius of each input [n] float64, in units of the input.
        norm: norm of the radius.
        kind: how sure it is, see above.
        method: the name of the method.
        alpha: error probability of each statement; only for probabilistic certificates.
        assumptions: sentences on which the guarantee rests.
        arithmetic: ``float32``: it holds for the network as float32 computes it; ``exact``: for the
            network in exact arithmetic, from which a deployed network differs by rounding.
        methods: the method that proved each input's radius, where several were tried; "" where nothing is proved.
        state: the state of the model that was certified; :meth:`check` compares it.
        exact_logits: for ``exact``, the certified function: float64 logits [n, classes] of inputs [n, …].
    """

    prediction: Tensor
    radius: Tensor
    norm: Norm
    kind: Kind
    method: str
    alpha: float | None = None
    assumptions: tuple[str, ...] = ()
    arithmetic: Arithmetic = "float32"
    methods: tuple[str, ...] = ()
    state: ModelState | None = field(default=None, repr=False)
    exact_logits: Callable[[Tensor], Tensor] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if (self.kind == "probabilistic") != (self.alpha is not None):
            raise InputError("alpha must be given for probabilistic certificates and only for them.")

    def __repr__(self) -> str:
        proved = int((self.radius > 0).sum())
        how = f"{self.method}, {self.kind}, {self.norm}"
        return f"{type(self).__name__}({how}: {proved} of {len(self.radius)} points proved)"

    def table(self) -> Table:
        """The points: prediction, proved radius and what proved it."""
        methods = self.methods or tuple(self.method if radius > 0 else "" for radius in self.radius.tolist())
        rows = [
            {"point": number, "prediction": prediction, "radius": radius, "method": method}
            for number, (prediction, radius, method) in enumerate(
                zip(self.prediction.tolist(), self.radius.tolist(), methods, strict=True)
            )
        ]
        radius = Field("radius", f"{self.norm} radius", digits=4, toward="down")
        fields: list[Field | str] = ["point", "prediction", radius, "method"]
        return table(rows, fields, f"{self.method}, {self.kind}", " ".join(self.assumptions))

    def _repr_html_(self) -> str:
        first = self.table()
        shown = Table(first.fields, first.rows[:SHOWN], first.title, first.note)
        return f"<p>{escape(repr(self))}</p>{shown.to_html()}"

    def check(self, model: nn.Module) -> None:
        """Refuse a model that is no longer as it was when it was certified.

        Args:
            model: the network to be used with this certificate.

        Raises:
            InputError: its weights, buffers, data type, hooks, attributes or mode have changed since.
        """
        from radii.models.model_state import ModelState

        if self.state is not None and (change := self.state.difference(ModelState.of(model))):
            raise InputError(
                f"The model is not as it was when it was certified ({self.method}): {change}. Certify it again."
            )

    @property
    def is_certified(self) -> bool:
        """Whether the word may be used: not for estimates."""
        return self.kind != "estimate"

    def covers(self, radius: float) -> Tensor:
        """Points whose prediction is proved on the open ball of ``radius``: [n] bool."""
        return (self.radius >= radius) & (self.prediction >= 0)
