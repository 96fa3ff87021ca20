"""Changes of images: their texts, their pixels in closed form, and how they are stored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from scipy.ndimage import gaussian_filter
from torch import Tensor

from radii.change import Change, Threat, radius_words, threat_of
from radii.change_kinds import KINDS
from radii.errors import InputError
from radii.randomness import stream
from radii.spec import Spec
from radii.threat import Ball

NO_FILE = [name for name, kind in KINDS.items() if "file" not in kind.settings]


def changed(text: str, x: Tensor, *t: float) -> Tensor:
    """The first image of ``x`` after the change ``text`` with the parameters ``t``."""
    return Change.parse(text).apply(x[:1], torch.tensor([t]))[0]


@pytest.fixture
def x() -> Tensor:
    """Two color images."""
    return torch.rand(2, 3, 9, 11, generator=stream(0, "images"))


@given(st.sampled_from(NO_FILE), st.floats(1e-3, 0.9), st.floats(0.5, 9), st.floats(-90, 90))
@settings(max_examples=60, deadline=None)
def test_texts_round_trip(kind: str, strength: float, width: float, angle: float) -> None:
    said = {"width": width, "angle": angle}
    change = Change(kind, strength, **{name: said[name] for name in KINDS[kind].settings})
    assert str(Change.parse(str(change))) == str(change)
    assert Change.model_validate(change.model_dump()) == change
    assert Change.model_validate_json(change.canonical_json()) == change


def test_several_changes_are_one_threat() -> None:
    both = Change.parse("Brightness: 0.1 + contrast:0.30")
    assert str(both) == "brightness:0.1+contrast:0.3"
    assert (both.radius, both.parameters, both.strengths) == (1.0, 2, (0.1, 0.3))
    assert both.with_radius(0.5).strengths == (0.05, 0.15)
    assert both.radius_of(torch.tensor([[0.05, 0.0], [-0.1, 0.15], [0.0, 0.3]])).tolist() == [0.5, 1.0, 1.0]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("brigtness:0.2", "No threat is called 'brigtness'. Did you mean 'brightness'?"),
        ("lunf:0.2", "Did you mean 'linf'?"),
        ("brightness", "is not understood. Write KIND:STRENGTH"),
        ("brightness:much", "The strength 'much' is not a number"),
        ("contrast:1.5", "The strength of contrast must be at least 0 and at most 1, got 1.5 instead."),
        ("fade:-0.1", "must be at least 0"),
        ("blur:1,widht=2", "'widht=2' is not understood. Behind blur:STRENGTH may stand width, as ,width="),
        ("brightness:0.2,nobox", "Nothing may stand behind brightness:STRENGTH."),
        ("blur:1,width=0", "The width must be above 0"),
        ("gamma:1+hue:3", "Only these changes can be added: brightness, contrast"),
        ("blur:1+blur:2", "names one kind twice"),
        ("brightness:0.1+contrst:0.2", "No change is called 'contrst'. Did you mean 'contrast'?"),
        ("direction:1", "Direction needs a file, as direction:1,file=own.npy."),
        ("direction:1,file=/nowhere.npy", "/nowhere.npy"),
    ],
)
def test_a_wrong_text_gets_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        threat_of(text)
    assert sentence in str(error.value)


def test_commands_of_balls_say_so() -> None:
    with pytest.raises(InputError, match="is a change of images, and a norm ball is needed here"):
        Ball.parse("brightness:0.2")


def test_stored_threats_are_told_apart() -> None:
    class Holder(Spec):
        threat: Threat

    for text in ("linf:0.1", "l2:0.5,nobox", "blur:1", "brightness:0.1+contrast:0.2"):
        holder = Holder(threat=threat_of(text))
        assert Holder.model_validate_json(holder.canonical_json()) == holder
        assert TypeAdapter(Threat).validate_python(holder.threat.model_dump()) == holder.threat
    assert radius_words(threat_of("linf:0.1")) == "L∞ radius"
    assert radius_words(threat_of("blur:1")) == "strength of blur"


def test_no_strength_changes_nothing(x: Tensor) -> None:
    for kind in NO_FILE:
        change = Change(kind, 0.5)
        assert (change.apply(x, torch.zeros(2, change.parameters)) - x).abs().max() < 1e-6, kind


def test_pixels_in_closed_form(x: Tensor) -> None:
    image = x[0].double()
    grey = (image * torch.tensor([0.299, 0.587, 0.114]).double().view(3, 1, 1)).sum(0)
    expected = {
        ("brightness:0.5", 0.2): image + 0.2,
        ("contrast:1", -0.4): grey.mean() + 0.6 * (image - grey.mean()),
        ("saturation:1", -1.0): grey.expand(3, -1, -1),
        ("fade:1", 1.0): torch.full_like(image, 0.5),
        ("gamma:1", 0.5): image ** np.exp(0.5),
        ("bias:1", 0.5): image * (1 + 0.5 * torch.linspace(-1, 1, 11).double()),
        ("bias:1,angle=90", 0.5): image * (1 + 0.5 * torch.linspace(-1, 1, 9).double()[:, None]),
        ("hue:180", 120.0): image.roll(1, 0),  # a third of a turn permutes the colors
    }
    for (text, t), value in expected.items():
        assert torch.allclose(changed(text, x, t).double(), value.clamp(0, 1), atol=2e-7), text


def test_kernels_against_scipy(x: Tensor, tmp_path: Path) -> None:
    blurred = gaussian_filter(x[0].numpy().astype(np.float64), (0, 1.5, 1.5), mode="mirror", truncate=3.34)
    assert np.allclose(changed("blur:1,width=1.5", x, 1.0), blurred, atol=1e-6)
    half = (x[0].numpy() + np.clip(blurred, 0, 1)) / 2
    assert np.allclose(changed("blur:1,width=1.5", x, 0.5), half, atol=1e-6)
    assert np.allclose(changed("sharpen:1,width=1.5", x, 1.0), np.clip(2 * x[0].numpy() - blurred, 0, 1), atol=1e-6)
    row = torch.zeros(1, 1, 9, 11)
    row[0, 0, 4, 5] = 1.0
    moved = changed("motion:1,width=5", row, 1.0)[0]
    assert moved.sum() == pytest.approx(1.0, abs=1e-5)
    assert moved[4].sum() == pytest.approx(1.0, abs=1e-5)  # along the row alone
    np.save(tmp_path / "k.npy", np.full((3, 3), 1 / 9))
    mean = changed(f"kernel:1,file={tmp_path / 'k.npy'}", x, 1.0)
    assert mean[0, 1, 1] == pytest.approx(float(x[0, 0, :3, :3].mean()), abs=1e-6)


def test_own_direction(x: Tensor, tmp_path: Path) -> None:
    way = np.random.default_rng(0).normal(size=(3, 9, 11))
    np.save(tmp_path / "way.npy", way)
    text = f"direction:0.5,file={tmp_path / 'way.npy'}"
    expected = np.clip(x[0].numpy() + 0.1 * way, 0, 1)
    assert np.allclose(changed(text, x, 0.1), expected, atol=1e-6)
    first = Change.parse(text).content_hash()
    np.save(tmp_path / "way.npy", way + 1)
    assert Change.parse(text).content_hash() != first  # the content counts, not the name
    np.save(tmp_path / "way.npy", way[:, :4])
    with pytest.raises(InputError, match=r"must have the shape of an input, \(3, 9, 11\)"):
        Change.parse(text).apply(x, torch.zeros(2, 1))
    np.save(tmp_path / "way.npy", np.array([{}], dtype=object))
    with pytest.raises(InputError, match="is not an array of numbers"):
        Change.parse(text).apply(x, torch.zeros(2, 1))


def test_colors_need_color_images() -> None:
    for kind in ("hue", "saturation"):
        with pytest.raises(InputError, match=f"{kind} needs color images"):
            Change(kind, 0.5).apply(torch.rand(1, 1, 8, 8), torch.zeros(1, 1))


def test_moves(x: Tensor) -> None:
    assert torch.allclose(changed("translate:3", x, 2.0, 1.0)[:, 1:, 2:], x[0, :, :-1, :-2], atol=1e-5)
    square = x[:, :, :9, :9]
    assert torch.allclose(changed("rotate:90", square, 90.0), square[0].rot90(1, (1, 2)), atol=1e-5) or torch.allclose(
        changed("rotate:90", square, 90.0), square[0].rot90(-1, (1, 2)), atol=1e-5
    )


def test_random_starts_are_changes(x: Tensor) -> None:
    for text in ("brightness:0.2", "blur:1", "brightness:0.1+contrast:0.2"):
        change = Change.parse(text)
        drawn = change.random_start(x, stream(0, "draw"))
        assert drawn.dtype == torch.float32
        assert drawn.min() >= 0
        assert drawn.max() <= 1
    assert (Change("brightness", 0.2).random_start(x, stream(0, "draw")) - x).abs().max() <= 0.2 + 1e-6
