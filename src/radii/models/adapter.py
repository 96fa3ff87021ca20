"""Any classifier as a torch module from inputs to logits [n, classes].

What models return: logits; a tuple whose first entry they are; an object with
``.logits``; a dictionary with ``logits``; one logit for two classes;
probabilities. What a model is: a torch module, an estimator of scikit-learn, a
function of tensors or of numpy arrays, or the name of one as MODEL on the command line. A module that returns
logits is taken as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from radii.data.arrays import as_inputs, as_labels, class_count, is_single, words_of
from radii.errors import InputError, brief, reason
from radii.models.classifier import Classifier, predict
from radii.models.heads import Headed, in_order, returned_class
from radii.networks.calling import ask, frozen, predicted_class, probe
from radii.networks.frozen import Frozen
from radii.networks.model_state import foreign_behavior, has_global_hooks
from radii.threat import Allowed, Ball

if TYPE_CHECKING:
    from radii.data.dataset import Data
    from radii.sparse_threat import Sparse

Outputs = Literal["auto", "logits", "probabilities"]
ModelLike = nn.Module | Callable[..., Any] | Any
PROBES, BATCH = 8, 256  # inputs that a model is tried on, and in one forward pass
ESTIMATES = ("predict_proba", "decision_function", "predict")
B = TypeVar("B", bound=Allowed)
FUNCTIONS = "a torch module, an estimator with predict_proba or predict, or a function from inputs to logits"


@dataclass(frozen=True)
class Prepared:
    """A user's model, inputs and labels as every other function takes them."""

    model: nn.Module
    x: Tensor
    y: Tensor
    fixed: tuple[int, ...] = ()  # features that stand for words
    data: Data | None = None  # where the inputs are those of a dataset

    def within(self, ball: B) -> B:
        """``ball`` as it is on the dataset of the inputs.

        Without one: with the features of words unchanged, and a radius ``sd`` in standard deviations of the inputs.
        """
        if self.data is not None:
            from radii.data.threat_on_data import attack_threat_on  # loaded where it is asked for

            return cast(B, attack_threat_on(cast("Ball | Sparse", ball), self.data))
        fixed = tuple(sorted({*ball.fixed, *self.fixed} - {f for group in ball.limits.groups for f in group}))
        if not isinstance(ball, Ball) or not ball.unit or ball.scale:
            return ball.changed(fixed=fixed) if self.fixed else ball
        return cast(B, in_deviations(ball.changed(fixed=fixed), self.x))


def in_deviations(ball: Ball, x: Tensor) -> Ball:
    """``ball``, whose radius is in ``sd``, in the standard deviations of the columns of ``x`` [n, d]."""
    if x.dim() != 2:
        raise InputError(f"{ball} is for columns of a table, and the inputs are images: write {ball.norm}:8/255.")
    spread = x.std(0, correction=0).tolist()
    logging.getLogger("radii").warning("%s counts the standard deviations of these %d inputs.", ball, len(x))
    still = {*ball.fixed, *(place for place, value in enumerate(spread) if not value)}
    return ball.changed(fixed=tuple(sorted(still)), box=None, scale=tuple(value or 1.0 for value in spread))


def prepare(model: ModelLike, x: Any, y: Any, *, outputs: Outputs = "auto", nhwc: bool = False) -> Prepared:
    """Turn what a user has into a module, a tensor of inputs and int64 labels.

    Args:
        x: inputs [n, …], or what has inputs and labels: see :mod:`radii.data.examples`.
        y: see :func:`radii.data.arrays.as_labels`; one number if ``x`` is one input; the name of the column of labels,
            or None, if ``x`` has them.
        nhwc: images have their channels last; a function gets them so, a torch module gets channels first.
    """
    known: tuple[str, ...] = ()
    data: Data | None = None
    if y is None or isinstance(y, str):
        from radii.data.examples import dataset_of, separated

        data = dataset_of(x)
        x, y, known = separated(data or x, y)
    if isinstance(model, str | Path):
        from radii.models.io.by_name import open_named

        first = as_inputs(x, nhwc=nhwc, single=is_single(y))
        model = open_named(str(model), first, len(known) or class_count(y))
    is_frame = hasattr(x, "columns") and hasattr(x, "iloc")
    if not isinstance(model, nn.Module | type) and callable(model):
        from radii.models.estimators import of_method

        model = of_method(model, is_frame)
    inner = model.net if isinstance(model, Classifier) else model
    names = getattr(inner, "classes_", None) if not isinstance(inner, nn.Module) else None
    if names is not None or hasattr(inner, "config"):
        from radii.models.estimators import class_names

        names = class_names(inner)
    if names is not None and known and {*names} == {*known}:
        y = [known[int(label)] for label in y]
    fixed: tuple[int, ...] = ()
    if is_frame and _is_estimator(model):
        from radii.data.columns import Columns
        from radii.models.estimators import OnColumns

        columns = Columns.of_frame(x)
        model, x, fixed = OnColumns(model, columns), columns.features(x), columns.fixed
    inputs = as_inputs(x, nhwc=nhwc, single=is_single(y))
    if inputs.dtype == torch.float64 and isinstance(model, nn.Module):
        inputs = inputs.float()  # attacks and evaluations work in float32
    if not len(inputs):
        raise InputError("There are no inputs: give at least one, with its label.")
    labels = as_labels(y, names).to(inputs.device)
    if len(inputs) != len(labels):
        raise InputError(f"There must be one label for every input, got {len(inputs)} inputs and {len(labels)} labels.")
    count = int(labels.max()) + 1 if len(labels) else 0
    module = adapt(model, inputs, outputs=outputs, nhwc=nhwc, classes=count, names=names or words_of(y))
    check_predictions(model, module, inputs)
    return Prepared(module, inputs, labels, fixed, data)


def adapt(
    model: ModelLike,
    x: Tensor,
    *,
    outputs: Outputs = "auto",
    nhwc: bool = False,
    classes: int = 0,
    names: Sequence[Any] = (),
) -> nn.Module:
    """``model`` as a module from inputs to logits; it is asked once, about the first inputs.

    Args:
        x: inputs [n, …] that it takes.
        outputs: ``logits``, ``probabilities`` (their logarithms become logits), or ``auto``: probabilities where
            every row of the first answers is at least 0 and adds up to 1. One output for each input is the logit of
            class 1, unless the network ends in a sigmoid or ``outputs`` says ``probabilities``.
        classes: of the data; an estimator that only names classes does not always say how many it knows.
        names: of the classes, for a model that answers with them and does not say which it knows.
    """
    if outputs not in ("auto", "logits", "probabilities"):
        raise InputError(f"outputs must be auto, logits or probabilities, got {brief(outputs)} instead.")
    if isinstance(model, str | Path):
        from radii.models.io.by_name import open_named

        model = open_named(str(model), x, classes)
    if _holds_function(model):
        model = _scaled(model, nhwc)
    module = model if isinstance(model, nn.Module) else _module_of(model, x[:PROBES], outputs, nhwc, classes, names)
    if isinstance(module, BlackBox):
        return module
    headed = _headed(module, x[:PROBES])
    if headed is not None:
        return headed
    answer = probe(module, x[:PROBES])
    place, logits = _logits_in(answer)
    form = _form(logits, min(len(x), PROBES), outputs, _ends_in_sigmoid(module))
    return module if (place, form) == ("", "logits") else Adapted(module, place, form)


class Adapted(nn.Module):
    """A network whose answer is turned into logits [n, classes].

    Args:
        place: where the logits are in its answer: empty, ``0`` of a tuple, or a name.
        form: what they are: ``logits``, ``probabilities``, ``one logit`` or ``one probability``.
    """

    signs: Tensor

    def __init__(self, net: nn.Module, place: str, form: str) -> None:
        super().__init__()
        self.net, self.place, self.form = net, place, form
        self.training = net.training
        self.register_buffer("signs", torch.tensor([[-0.5], [0.5]]), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, classes]; of one logit z they are -z/2 and z/2."""
        values = _at(self.net(x), self.place)
        if self.form == "logits":
            return values
        if self.form == "one logit":
            return nn.functional.linear(values.reshape(len(x), 1), self.signs.to(values))
        wanted = returned_class(values, len(x))
        if self.form == "one probability":
            values = torch.cat([1 - values.reshape(len(x), 1), values.reshape(len(x), 1)], 1)
        return in_order(values.clamp_min(LEAST).log(), wanted)  # logarithms of neighbors may be equal


class _TensorFunction(nn.Module):
    """A function of tensors as a module; it has gradients if the function has."""

    def __init__(self, function: Callable[[Tensor], Any], nhwc: bool = False) -> None:
        super().__init__()
        self.training = False
        self.function, self.nhwc = function, nhwc

    def forward(self, x: Tensor) -> Any:
        """What the function returns."""
        return self.function(x.movedim(1, -1) if self.nhwc else x)


def _holds_function(model: Any) -> TypeGuard[Classifier]:
    """Whether ``model`` is a Classifier around a function."""
    return isinstance(model, Classifier) and not isinstance(model.net, nn.Module)


def _scaled(model: Classifier, nhwc: bool) -> Callable[[Any], Any]:
    """The function in a Classifier, of tensors or arrays, behind the Classifier's normalization."""

    def function(x: Any) -> Any:
        shape = (-1,) if nhwc else (-1, *[1] * (x.ndim - 2))
        mean, std = model.mean.view(shape), model.std.view(shape)
        return model.net((x - mean) / std if isinstance(x, Tensor) else (x - mean.numpy()) / std.numpy())

    return function


def _module_of(
    model: Any, x: Tensor, outputs: Outputs, nhwc: bool, classes: int, names: Sequence[Any] = ()
) -> nn.Module:
    if _is_estimator(model):
        if hasattr(model, "predict_proba") or hasattr(model, "decision_function"):
            return BlackBox(model)
        from radii.models.estimators import answering

        return answering(model, x.movedim(1, -1) if nhwc else x, classes, names)
    if isinstance(model, type) or not callable(model):
        raise InputError(f"The model must be {FUNCTIONS}, got {brief(model)} instead.")
    try:
        answer = model(x.movedim(1, -1) if nhwc else x)
        if isinstance(_logits_in(answer)[1], Tensor):
            return _TensorFunction(model, nhwc)
    except Exception:  # it may be a function of numpy arrays
        pass

    def asked(pixels: Any) -> Any:
        return model(np.moveaxis(pixels, 1, -1) if nhwc else pixels)

    try:
        answer = np.asarray(asked(x.detach().cpu().numpy()))
    except Exception as error:
        raise InputError(f"The function fails on inputs {tuple(x.shape)}: {reason(error)}.") from error
    proper = answer.ndim == 2 and answer.dtype.kind in "biuf" and _are_probabilities(torch.from_numpy(answer.copy()))
    return BlackBox(asked, probabilities=outputs == "probabilities" or (outputs == "auto" and proper))


def _headed(module: nn.Module, x: Tensor) -> Headed | None:
    """A sequence that ends in softmax over its classes or in sigmoid, by its logits; None for anything else.

    A head or sequence whose behavior is not torch's own stays as it is.
    """
    if isinstance(module, Frozen) and module.head:
        own = nn.Softmax(1) if module.head == "softmax" else nn.Sigmoid()
        logits = Frozen(module.program)
        return Headed(logits, own, probe(logits, x))
    if type(module) is not nn.Sequential or len(module) < 2 or has_global_hooks():
        return None
    head = module[-1]
    if not isinstance(head, nn.Softmax | nn.Sigmoid) or type(head) not in (nn.Softmax, nn.Sigmoid):
        return None
    if foreign_behavior(module) or foreign_behavior(head):
        return None
    shorter = nn.Sequential(*list(module)[:-1])
    shorter.training = module.training
    raw = probe(shorter, x)
    if not isinstance(raw, Tensor) or raw.dim() > 2 or len(raw) != len(x):
        return None
    several = raw.dim() == 2 and raw.shape[1] > 1
    if isinstance(head, nn.Softmax) and not (several and head.dim in (None, 1, -1)):
        return None
    return Headed(shorter, head, raw)


@torch.no_grad()
def check_predictions(model: ModelLike, network: nn.Module, x: Tensor, prediction: Tensor | None = None) -> None:
    """Refuse a ``network`` that was made of ``model`` if the model itself returns other classes.

    Args:
        x: inputs [n, …].
        prediction: the classes that are claimed for them, -1 for none; default: those of the network.
    """
    place, form = (network.place, network.form) if isinstance(network, Adapted) else ("", "")
    own = network.net if isinstance(network, Adapted) else network
    if isinstance(model, nn.Module) and not _holds_function(model):
        own = model
    if own is network:
        return

    def returned(inputs: Tensor) -> Tensor:
        with frozen(own):
            answers = [_at(ask(own, part), place) for part in inputs.split(BATCH)]
        least = 0.0 if form == "one logit" else 0.5
        return torch.cat([returned_class(answer, len(answer), least) for answer in answers]).cpu()

    said, claimed = returned(x), (predict(network, x, BATCH) if prediction is None else prediction).cpu()
    other = torch.nonzero((said != claimed) & (claimed >= 0))[:, 0]
    if len(other) and torch.equal(returned(x), said):
        first = int(other[0])
        raise InputError(
            f"The model returns class {int(said[first])} for input {first}, and the network that was made of it for "
            f"attacks and proofs class {int(claimed[first])}: it cannot be taken for the model."
        )


@torch.no_grad()
def _logits_in(answer: Any) -> tuple[str, Any]:
    """Where the logits are in a model's answer, and the logits."""
    if isinstance(answer, Tensor):
        return "", answer
    if isinstance(getattr(answer, "logits", None), Tensor):
        return "logits", answer.logits
    if isinstance(answer, Mapping):
        name = next((key for key in ("logits", "out", "output", "scores") if isinstance(answer.get(key), Tensor)), None)
        if name is not None:
            return name, answer[name]
    if isinstance(answer, tuple | list) and answer and isinstance(answer[0], Tensor):
        return "0", answer[0]
    return "?", None


def _at(answer: Any, place: str) -> Tensor:
    if not place:
        return answer
    if place == "0":
        return answer[0]
    return answer[place] if isinstance(answer, Mapping) else getattr(answer, place)


def _ends_in_sigmoid(module: nn.Module) -> bool:
    leaves = [part for part in module.modules() if not list(part.children())]
    return bool(leaves) and isinstance(leaves[-1], nn.Sigmoid)


def _form(logits: Any, count: int, outputs: str, sigmoid: bool) -> str:
    """What the values in an answer to ``count`` inputs are."""
    if not isinstance(logits, Tensor):
        raise InputError(
            "The model must return logits [n, classes]: a tensor, a tuple that begins with it, an object with .logits, "
            "or a dictionary with logits."
        )
    probabilities = outputs == "probabilities"
    if logits.shape in ((count,), (count, 1)):
        within = bool(((logits >= 0) & (logits <= 1)).all())
        if probabilities and not within:
            raise InputError("The model's outputs are no probabilities: they do not lie in [0, 1].")
        return "one probability" if probabilities or (sigmoid and within and outputs == "auto") else "one logit"
    if logits.dim() != 2 or len(logits) != count:
        raise InputError(
            f"The model must return logits [{count}, classes] for {count} inputs, got shape {tuple(logits.shape)}."
        )
    proper = _are_probabilities(logits)
    if probabilities and not proper:
        raise InputError("The model's outputs are no probabilities: they are negative or do not add up to 1.")
    return "probabilities" if proper and outputs != "logits" else "logits"


def _are_probabilities(values: Tensor) -> bool:
    values = values.double()
    return bool((values >= 0).all() and ((values.sum(1) - 1).abs() < 1e-3).all())


LEAST = 1e-30  # probabilities below this have one logarithm


class BlackBox(nn.Module):
    """Scores [n, classes] of a numpy function as a model without gradients.

    ``probabilities`` takes their logarithm, in which small differences between
    nearly sure answers remain visible. Attack it with the suite ``black-box``, or ``decisions`` if ``decisions`` says
    that it only names a class.

    Args:
        scores: a function of a float32 array, or an estimator of scikit-learn, whose ``predict_proba`` (else
            ``decision_function``) is asked with flat inputs [n, d]. One score for each input is that of class 1
            against class 0.
        probabilities: whether the scores of a function are probabilities; of an estimator it is known.

    >>> from sklearn.linear_model import LogisticRegression
    >>> fitted = LogisticRegression().fit([[0.1], [0.2], [0.8], [0.9]], [0, 0, 1, 1])
    >>> BlackBox(fitted)(torch.tensor([[0.15]])).argmax(1)
    tensor([0])
    """

    def __init__(self, scores: Any, probabilities: bool = True) -> None:
        super().__init__()
        self.training = False  # it has no other mode
        self.decisions = False
        self.estimator = scores if _is_estimator(scores) else None
        if self.estimator is not None:
            probabilities = hasattr(scores, "predict_proba")
            scores = scores.predict_proba if probabilities else scores.decision_function
        self.scores, self.probabilities = scores, probabilities

    @property
    def fitted(self) -> Any:
        """The estimator whose numbers can be read, with its columns where they are not these features in this order."""
        from radii.models.estimators import OnColumns

        own = self.estimator
        return own.plain if isinstance(own, OnColumns) and own.plain is not None else own

    @property
    def suite(self) -> str:
        """The suite of attacks that its answers allow."""
        return "decisions" if self.decisions else "black-box"

    def forward(self, x: Tensor) -> Tensor:
        """Scores, or log-probabilities, of a batch."""
        pixels = x.detach().cpu().numpy()
        try:
            answer = np.asarray(self.scores(pixels.reshape(len(x), -1) if self.estimator is not None else pixels))
        except (ValueError, AttributeError) as error:  # not fitted, or fitted to other features
            if self.estimator is None:
                raise
            from radii.models.estimators import kind

            name, reason = kind(self.estimator), str(error).splitlines()[0].rstrip(".")
            raise InputError(f"The estimator {name} fails on {pixels[0].size} features: {reason}.") from error
        if answer.dtype.kind not in "biuf":
            raise InputError(f"The function must return numbers, got {answer.dtype} instead.")
        answer = answer.astype(np.float64)
        if answer.shape in ((len(x),), (len(x), 1)) and (len(x) > 1 or answer.ndim == 2 or self.estimator is not None):
            one = answer.reshape(-1, 1)
            answer = np.hstack([1 - one, one]) if self.probabilities else np.hstack([-one / 2, one / 2])
        if answer.ndim != 2 or len(answer) != len(x):
            raise InputError(f"The function must return scores [{len(x)}, classes], got shape {answer.shape} instead.")
        wanted = predicted_class(torch.from_numpy(answer)).to(x.device)
        if self.probabilities:
            if answer.min() < 0:
                raise InputError("Probabilities must be at least 0; for other scores set probabilities=False.")
            answer = np.log(np.maximum(answer, LEAST))
        return in_order(torch.from_numpy(answer).to(x.device, torch.float32), wanted)


def _is_estimator(model: Any) -> bool:
    """Whether ``model`` answers as a classifier of scikit-learn does, or at least has its ``predict``."""
    return not isinstance(model, nn.Module | type) and any(hasattr(model, name) for name in ESTIMATES)
