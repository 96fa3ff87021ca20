"""Certificate: per point, a prediction and the radius within which it cannot change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from radii.errors import InputError
from radii.tables import Field, Table, Tabular, table
from radii.threat import Ball, Norm, radius_in

if TYPE_CHECKING:
    from torch import Tensor, nn

    from radii.networks.frozen import Frozen
    from radii.networks.model_state import ModelState

Arithmetic = Literal["float32", "exact"]
SHOWN = 10  # points in a notebook
Measure = Norm | Literal["change"]  # of a radius: a norm, or the strength of a change of images
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
        norm: norm of the radius; ``change`` for strengths of a change of images.
        kind: how sure it is, see above.
        method: the name of the method.
        alpha: error probability of each statement; only for probabilistic certificates.
        assumptions: sentences on which the guarantee rests.
        arithmetic: ``float32``: it holds for the network as float32 computes it; ``exact``: for the
            network in exact arithmetic, from which a deployed network differs by rounding.
        methods: the method that proved each input's radius, where several were tried; "" where nothing is proved.
        network: the network that the statement is about, as a torch module with weights of its own that runs, is
            saved and has a ``digest``; None for methods that ask the model itself (smoothing, stored points).
        scale: for each feature the change that counts as 1 in the radius; empty: 1 for all.
        state: the state of the model that was certified; :meth:`check` compares it.
        exact_logits: for ``exact``, the certified function: float64 logits [n, classes] of inputs [n, …].
    """

    prediction: Tensor
    radius: Tensor
    norm: Measure
    kind: Kind
    method: str
    alpha: float | None = None
    assumptions: tuple[str, ...] = ()
    arithmetic: Arithmetic = "float32"
    methods: tuple[str, ...] = ()
    network: Frozen | None = field(default=None, repr=False, compare=False)
    scale: tuple[float, ...] = ()
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
        from radii.networks.frozen import Frozen
        from radii.networks.model_state import ModelState

        if self.network is not None and isinstance(model, Frozen):
            if model.digest != self.network.digest:
                raise InputError(f"This is not the network that was certified ({self.method}): its digest is another.")
            return
        if self.state is not None and (change := self.state.difference(ModelState.of(model))):
            raise InputError(
                f"The model is not as it was when it was certified ({self.method}): {change}. Certify it again."
            )

    def save(self, path: Path | str, x: Tensor) -> None:
        """Write the network with this certificate inside, for the inputs that it is about.

        A ``.safetensors`` file is read by :func:`radii.certificates.certificate_file.read_certificate`, bit by bit the
        same. An ``.onnx`` file returns the same values elsewhere and holds the certificate as JSON under the name
        ``radii``; onnxruntime's answers to ``x`` are compared.

        Args:
            path: where to write.
            x: the inputs that were certified; their digests go into the file.
        """
        from radii.certificates.certificate_file import write_certificate

        write_certificate(self, Path(path), x)

    def radius_in(self, ball: Ball, dimension: int) -> Tensor:
        """The radii in the norm and the scale of ``ball``, for inputs of ``dimension`` numbers: [n].

        Raises:
            InputError: the radii count in another scale than the ball's.
        """
        if self.scale == ball.scale and self.norm == ball.norm:
            return self.radius
        if self.norm == "change":
            raise InputError("The certificate is about a change of images, not about a ball; certify with this ball.")
        if self.scale:
            raise InputError("The certificate's radii count in another scale than the ball's; certify with this ball.")
        return radius_in(self.radius, self.norm, ball, dimension)

    @property
    def is_certified(self) -> bool:
        """Whether the word may be used: not for estimates."""
        return self.kind != "estimate"

    def covers(self, radius: float) -> Tensor:
        """Points whose prediction is proved on the open ball of ``radius``: [n] bool."""
        return (self.radius >= radius) & (self.prediction >= 0)
