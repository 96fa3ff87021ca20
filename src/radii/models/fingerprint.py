"""The state of a model that its answers depend on; a certificate compares it to notice a changed model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from radii.models.module_behavior import foreign_behavior


@dataclass(frozen=True)
class ModelState:
    """Digests of what a model's answers depend on.

    Attributes:
        weights: parameters, buffers and tensors among the attributes: names, shapes, values.
        settings: numbers, words and flags among the attributes of every module, and the classes.
        types: data types of parameters and buffers.
        hooks: which modules have hooks or methods set on the instance, and hooks for all modules.
        training: names of the modules in training mode.
    """

    weights: str
    settings: str
    types: tuple[str, ...]
    hooks: str
    training: tuple[str, ...]

    @classmethod
    def of(cls, model: nn.Module) -> ModelState:
        """The state of ``model`` as it is now; reads every weight once."""
        weights, types = hashlib.blake2b(digest_size=16), set()
        for name, tensor in _tensors(model):
            types.add(str(tensor.dtype))
            weights.update(f"{name}{tuple(tensor.shape)}".encode())
            weights.update(_content(tensor))
        settings, foreign, training = hashlib.blake2b(digest_size=16), [], []
        for name, module in model.named_modules():
            plain = {key: value for key, value in vars(module).items() if _is_setting(key, value)}
            settings.update(f"{name}:{type(module).__qualname__}:{sorted(plain.items())!r}".encode())
            if reason := foreign_behavior(module):
                foreign.append(f"{name}:{reason}")
            if module.training:
                training.append(name)
        for_all = len(torch_module._global_forward_hooks) + len(torch_module._global_forward_pre_hooks)
        return cls(
            weights.hexdigest(), settings.hexdigest(), tuple(sorted(types)), f"{for_all};{foreign}", tuple(training)
        )

    def difference(self, now: ModelState) -> str | None:
        """What differs ``now``, in words; None if nothing does. Leaving training mode is no difference."""
        sentences = {
            "types": "its data type is another",
            "weights": "its weights or buffers have other values",
            "hooks": "hooks or methods were set on its modules or removed",
            "settings": "its modules or their attributes are others",
        }
        for name, sentence in sentences.items():
            if getattr(self, name) != getattr(now, name):
                return sentence
        if set(now.training) - set(self.training):
            return "it is in training mode and was in eval mode"
        return None


def _tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters, buffers and plain tensor attributes, each with its name."""
    yield from model.named_parameters()
    yield from model.named_buffers()
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            if isinstance(value, Tensor):
                yield f"{name}.{key}", value


def _content(tensor: Tensor) -> memoryview:
    plain = tensor.detach().cpu().contiguous().flatten()
    return plain.view(torch.uint8).numpy().data if plain.numel() else memoryview(b"")


def _is_setting(key: str, value: object) -> bool:
    return key != "training" and isinstance(value, bool | int | float | str | tuple) and _is_plain(value)


def _is_plain(value: object) -> bool:
    return all(map(_is_plain, value)) if isinstance(value, tuple) else isinstance(value, bool | int | float | str)
