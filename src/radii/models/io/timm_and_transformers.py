"""Networks of timm and of transformers by name, with their weights and the normalization that they expect.

Both libraries are optional. Weights are read as safetensors or with
``weights_only``; code in a repository of the hub is never run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn

from radii.errors import InputError
from radii.models.io.weights import fill

Library = Literal["timm", "hf"]
PACKAGES = {"timm": "timm", "hf": "transformers"}


@dataclass(frozen=True)
class _LibraryNetwork:
    """A network of a library.

    Args:
        mean: per channel, which the network expects subtracted; empty if it does not say.
        std: per channel; empty if the network does not say.
        classes: the names of its classes; empty if it does not say.
    """

    network: nn.Module
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    classes: tuple[str, ...] = ()


class _ClassOrder(nn.Module):
    """A network whose classes are put into another order.

    Args:
        net: returns logits [n, classes], or an object with ``.logits``.
    """

    def __init__(self, net: nn.Module, order: Sequence[int]) -> None:
        super().__init__()
        self.net, self.order = net, list(order)
        self.training = net.training

    def forward(self, x: Tensor) -> Tensor:
        """Logits in the new order."""
        answer = self.net(x)
        logits: Tensor = getattr(answer, "logits", answer)
        return logits[:, self.order]


def load_from_library(library: Library, name: str, classes: int, weights: Path | None = None) -> _LibraryNetwork:
    """A network with its weights.

    Args:
        library: ``timm``, or ``hf`` for an image classifier of transformers.
        classes: of the data; a timm network whose weights come from a file is built with so many.
        weights: a file of weights in place of those of the library.
    """
    try:
        return _from_timm(name, classes, weights) if library == "timm" else _from_hub(name, weights)
    except InputError:
        raise
    except ImportError as error:
        package = (error.name or PACKAGES[library]).partition(".")[0]  # timm itself needs torchvision
        raise InputError(
            f"The model {library}:{name} needs the package {package}: pip install {package} ({error})."
        ) from error
    except Exception as error:  # these libraries raise many types, many of them long
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise InputError(f"The model {library}:{name} cannot be loaded: {reason}.") from error


def in_order(network: _LibraryNetwork, classes: Sequence[str]) -> nn.Module:
    """The network with its classes in the order of ``classes``, if both have the same names in another order."""
    own = [name.casefold() for name in network.classes]
    wanted = [name.casefold() for name in classes]
    if own == wanted or sorted(own) != sorted(wanted) or len(set(own)) < len(own):
        return network.network
    return _ClassOrder(network.network, [own.index(name) for name in wanted])


def _from_timm(name: str, classes: int, weights: Path | None) -> _LibraryNetwork:
    import timm

    if weights is None:
        network = timm.create_model(name, pretrained=True)
    else:
        network = timm.create_model(name, pretrained=False, num_classes=classes)
        fill(network, weights)
    settings = getattr(network, "pretrained_cfg", None) or {}
    mean, std = settings.get("mean", ()), settings.get("std", ())
    return _LibraryNetwork(network.eval(), tuple(mean), tuple(std), tuple(settings.get("label_names") or ()))


def _from_hub(name: str, weights: Path | None) -> _LibraryNetwork:
    from transformers import AutoModelForImageClassification

    network = AutoModelForImageClassification.from_pretrained(name, use_safetensors=True, trust_remote_code=False)
    if weights is not None:
        fill(network, weights)
    labels = getattr(network.config, "id2label", None) or {}
    settings = _preprocessing(name)
    normalized = settings.get("do_normalize", True)
    mean, std = (tuple(settings.get(key) or ()) if normalized else () for key in ("image_mean", "image_std"))
    return _LibraryNetwork(network.eval(), mean, std, tuple(str(labels[key]) for key in sorted(labels)))


def _preprocessing(name: str) -> dict[str, Any]:
    """The repository's ``preprocessor_config.json``; empty if it has none."""
    file = "preprocessor_config.json"
    path: str | Path = Path(name) / file
    if not Path(name).is_dir():
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError

        try:
            path = hf_hub_download(name, file)
        except EntryNotFoundError:
            return {}
    content = json.loads(Path(path).read_bytes()) if Path(path).is_file() else {}
    return content if isinstance(content, dict) else {}
