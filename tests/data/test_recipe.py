"""NAME+VARIANT:ARGUMENT: parsing, applying in order, digests that follow from names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from radii.data import sources, variant_chain, variants
from radii.data.variant_chain import parse, split
from radii.errors import InputError


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("gamma:0.70", "gamma:0.7"),
        ("saturate:8.0", "saturate:8"),
        ("saturate:inf", "saturate:inf"),
        ("smooth:03", "smooth:3"),
        ("pca:513-3072,1-8,9-16", "pca:1-16,513-3072"),
        ("binarize", "binarize"),
        ("subset:1000", "subset:1000"),
    ],
)
def test_one_meaning_has_one_text(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("smoth:3", "No variant is called 'smoth'. Did you mean 'smooth'?"),
        ("smooth", "needs an argument: the filter's length"),
        ("smooth:1.5", "whole number, got '1.5'"),
        ("gamma:x", "must be a number, got 'x'"),
        ("edges:2", "takes no argument, got '2'"),
        ("", "No variant is called ''"),
    ],
)
def test_bad_variants_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        parse(text)
    assert message in str(error.value)


def test_a_plus_within_an_existing_path_stays_there(tmp_path: Path) -> None:
    folder = tmp_path / "a+b"
    folder.mkdir()
    base, chain = split(f"{folder}+gamma:2")
    assert base == str(folder)
    assert [str(variant) for variant in chain] == ["gamma:2"]


def test_variants_apply_from_left_to_right() -> None:
    plain = sources.load("digits")
    data = sources.load("digits+smooth:3+binarize")
    assert (data.train.x == variants.binarize(variants.smooth(plain.train.x, 3))).all()
    assert (data.train.x != variants.smooth(variants.binarize(plain.train.x), 3)).any()
    assert data.name == "digits+smooth:3+binarize"
    assert data.test.x.shape == plain.test.x.shape
    assert (data.test.y == plain.test.y).all()


@pytest.mark.parametrize("kind", ["smooth:2", "smooth2d:3", "saturate:8", "gamma:0.7", "scale:0.9", "edges", "pca:1-9"])
def test_every_variant_keeps_shape_range_and_labels(kind: str) -> None:
    plain, data = sources.load("digits"), sources.load(f"digits+{kind}")
    for before, after in ((plain.train, data.train), (plain.test, data.test)):
        assert after.shape == before.shape
        assert (after.y == before.y).all()
        x, _ = after.tensors()
        assert float(x.min()) >= 0
        assert float(x.max()) <= 1
        assert after.digest != before.digest


def test_subset_takes_from_train_only() -> None:
    plain, data = sources.load("digits"), sources.load("digits+subset:50")
    assert len(data.train) == 50
    assert np.bincount(data.train.y).tolist() == [5] * 10
    assert (data.train.x == plain.train.subset(50).x).all()
    assert data.test.digest == plain.test.digest
    with pytest.raises(InputError, match="1 to 1438 points, got 5000"):
        sources.load("digits+subset:5000")


@pytest.mark.parametrize("name", ["digits", "digits+gamma:2", "digits+subset:20+gamma:2", "digits+pca:1-4+binarize"])
def test_digests_are_known_without_computing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = sources.load(name)
    monkeypatch.setattr(variant_chain.Variant, "apply", lambda *_: pytest.fail("a variant was computed"))
    monkeypatch.setattr(sources, "_base", lambda *_: pytest.fail("the images were opened"))
    assert sources.digest(name) == (data.train.digest, data.test.digest)


def test_digests_tell_variants_orders_and_sources_apart() -> None:
    names = ["digits", "digits+gamma:2", "digits+gamma:3", "digits+subset:20+pca:1-4", "digits+pca:1-4+subset:20"]
    digests = [sources.digest(name) for name in names]
    assert len({train for train, _ in digests}) == len(names)
    assert sources.digest("digits+gamma:2.0") == digests[1]
    # pca of a subset changes the test split through its components, a subset of a pca does not change it further.
    assert digests[3][1] != digests[4][1]
    assert digests[4][1] == sources.digest("digits+pca:1-4")[1]


def test_slow_variants_of_large_data_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variant_chain, "CACHED_FROM_IMAGES", 100)
    first = sources.load("digits+edges")
    monkeypatch.setitem(
        variant_chain.KINDS, "edges", variant_chain.Kind(None, lambda _: pytest.fail("computed twice"), "")
    )
    again = sources.load("digits+edges")
    assert (again.train.x == first.train.x).all()
    assert again.train.digest == first.train.digest == sources.digest("digits+edges")[0]
