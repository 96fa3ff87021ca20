"""CSV and parquet tables: labels, words, immutable and one-hot features, respected by attacks and audits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import radii
from radii.attacks.apgd import APGD
from radii.attacks.fab import FAB
from radii.attacks.minimum_norm import MinimumNorm
from radii.attacks.square import Square
from radii.data._feature_rules import FeatureRules
from radii.data.dataset import Dataset
from radii.data.sources import load
from radii.data.threat_on_data import ball_on
from radii.errors import InputError
from radii.evaluation.feature_changes import smallest_changes
from radii.feature_limits import FeatureLimits
from radii.randomness import stream
from radii.threat import Ball

RNG = np.random.default_rng(0)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """60 people: age and two scores, a color in words, whether they smoke; the label says which score is larger."""
    frame = pd.DataFrame(
        {
            "age": RNG.integers(20, 80, 60) / 100,
            "color": RNG.choice(["red", "blue", "green"], 60),
            "smokes": RNG.integers(0, 2, 60).astype(bool),
            "first": RNG.random(60),
            "second": RNG.random(60),
        }
    )
    frame["result"] = np.where(frame["first"] > frame["second"], "pass", "fail")
    frame.to_csv(tmp_path / "people.csv", index=False)
    frame.to_parquet(tmp_path / "people.parquet")
    return tmp_path / "people.csv"


def test_a_label_column_and_words(table: Path) -> None:
    with pytest.raises(InputError, match=r"Which column of .* is the label. Say it: --label COLUMN, one of age, color"):
        load(str(table))
    with pytest.raises(InputError, match="has no column 'resul'; its columns are"):
        load(f"{table}+label:resul")
    data = load(f"{table}+label:result")
    assert data.classes == ("fail", "pass")
    assert data.shape == (7,)
    rules = data.train.rules
    assert rules is not None
    assert rules.names == ("age", "color=blue", "color=green", "color=red", "smokes", "first", "second")
    assert rules.one_hot == ((1, 2, 3),)
    assert (data.train.x[:, 1:4].sum(1) == 1).all()
    same = load(f"{table.with_suffix('.parquet')}+label:result")
    assert same.train.digest == data.train.digest


def test_notes_beside_the_table(table: Path) -> None:
    before = load(f"{table}+label:result").train.digest
    table.with_suffix(".toml").write_text('label = "result"\ndrop = ["smokes"]\nimmutable = ["age"]\n')
    data = load(str(table))
    assert data.train.rules is not None
    assert data.train.rules.fixed == (0, 1, 2, 3)
    assert data.train.digest != before, "other rules are other data"
    assert ball_on(Ball("linf", 0.1), data).fixed == (0, 1, 2, 3)
    for text, says in (
        ("immutable = ['ages']", "No column of .* is called 'ages'. Did you mean 'age'"),
        ("inmutable = ['age']", "Did you mean 'immutable'"),
        ("immutable = 'age'", "immutable must be a list of column names"),
        ("immutable = ", "is not TOML"),
    ):
        table.with_suffix(".toml").write_text(f'label = "result"\n{text}\n')
        with pytest.raises(InputError, match=says):
            load(str(table))


def test_categories_that_may_be_swapped(table: Path) -> None:
    """Of words and of a [one-hot] group; in sd a category counts 1, and what is not named stays."""
    frame = pd.read_csv(table)
    frame["north"], frame["south"] = frame["smokes"].astype(int), 1 - frame["smokes"].astype(int)
    frame["first"] *= 100
    frame.to_csv(table, index=False)
    notes = 'label = "result"\nimmutable = ["age"]\n[one-hot]\nregion = ["north", "south"]\n'
    table.with_suffix(".toml").write_text('swap = ["color", "region"]\n' + notes)
    data = load(str(table))
    groups = ((7, 8), (1, 2, 3))
    assert sorted(data.train.rules.limits.groups) == sorted(groups)
    ball = ball_on(Ball.parse("l2:2sd"), data)
    assert ball.fixed == (0,)
    assert {ball.scale[feature] for group in groups for feature in group} == {1.0}
    table.with_suffix(".toml").write_text('swap = ["region"]\n' + notes)
    assert ball_on(Ball.parse("l2:2sd"), load(str(table))).fixed == (0, 1, 2, 3)
    table.with_suffix(".toml").write_text('swap = ["color"]\n' + notes.replace('"age"', '"color"'))
    with pytest.raises(InputError, match="color is both immutable and in swap"):
        load(str(table))
    frame.loc[3, "south"] = frame.loc[3, "north"]
    frame.to_csv(table, index=False)
    table.with_suffix(".toml").write_text('swap = ["region"]\n' + notes)
    with pytest.raises(InputError, match="row 4 has no single 1 among north, south"):
        load(str(table))


def test_all_faults_of_a_table_at_once(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.0, None, 3.0], "name": [f"n{i}" for i in range(3)], "y": [0, 1, 0]})
    big = pd.concat([frame] * 40, ignore_index=True)
    big["name"] = [f"n{i}" for i in range(len(big))]
    big.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match=r"a has 40 missing values; name has 120 different words"):
        load(str(tmp_path / "t.csv"))
    (tmp_path / "e.csv").write_text("")
    with pytest.raises(InputError, match="is not a whole CSV file"):
        load(str(tmp_path / "e.csv"))


FEW_QUERIES = Square(queries=200)


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize(
    "name", ["apgd-ce", "apgd-t", "fab-t", f"{__name__}:FEW_QUERIES", "pgd", "minimum-norm", "noise"]
)
def test_no_attack_changes_a_fixed_feature(norm: str, name: str) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    x = torch.rand(40, 6)
    y = net(x).argmax(1)
    ball = Ball(norm, 0.3, fixed=(0, 4))  # type: ignore[arg-type]
    result = radii.attack(net, x, y, ball, name=name)
    assert torch.equal(result.x_adv[:, [0, 4]], x[:, [0, 4]])
    free = radii.attack(net, x, y, Ball(norm, 0.3), name=name)  # type: ignore[arg-type]
    assert int(result.broken.sum()) <= int(free.broken.sum()) + 2
    if name.startswith("apgd"):
        assert bool(result.broken.any())


def test_bounds_use_fixed_features() -> None:
    """A network that reads fixed features only cannot be broken, and CROWN proves it."""
    net = nn.Linear(4, 2, bias=False)
    net.weight.data = torch.tensor([[1.0, 0, 0, 0], [-1.0, 0, 0, 0]])
    x = torch.rand(10, 4) * 0.5 + 0.25
    fixed = radii.certify(net, x, "auto", Ball("linf", 0.4, fixed=(0,)))
    assert bool((radii.evaluate(net, x, net(x).argmax(1), Ball("linf", 0.4, fixed=(0,))).points.changed == 0).all())
    assert fixed.radius.shape == (10,)


def test_points_that_differ_in_a_fixed_feature_never_meet() -> None:
    from radii.geometry.separation import separation

    x = np.array([[0.0, 0.1], [0.0, 0.4], [1.0, 0.1], [1.0, 0.11], [2.0, 0.0]], np.float32)
    y = np.array([0, 1, 1, 0, 0])
    free, kept = separation(x, y), separation(x, y, fixed=(0,))
    assert free.distance[0] == pytest.approx(0.3)
    assert kept.distance[:4] == pytest.approx([0.3, 0.3, 0.01, 0.01])
    assert kept.distance[4] == np.inf
    assert kept.neighbor.tolist() == [1, 0, 3, 2, -1]
    assert kept.summary()["minimum"] == pytest.approx(0.01)
    apart = separation(x[:1], y[:1], (x[1:], y[1:]), fixed=(0,))
    assert apart.neighbor.tolist() == [0]


def test_semicolons_and_decimal_commas(tmp_path: Path) -> None:
    """As spreadsheets write them in half of Europe."""
    (tmp_path / "a.csv").write_text("size;kind\n" + "".join(f"{i},5;{i % 2}\n" for i in range(30)))
    (tmp_path / "b.csv").write_text("size;kind\n" + "".join(f"{i}.5;{i % 2}\n" for i in range(30)))
    first, second = (load(f"{tmp_path / name}+label:kind") for name in ("a.csv", "b.csv"))
    assert np.array_equal(first.train.x, second.train.x)
    assert first.train.x[0, 0] == 0.5


def test_other_encodings_and_equal_names_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes("größe,kind\n".encode("latin1") + b"1,0\n2,1\n" * 10)
    with pytest.raises(InputError, match=r"latin\.csv is not written in UTF-8"):
        load(f"{tmp_path / 'latin.csv'}+label:kind")
    (tmp_path / "words.csv").write_bytes(b"size,kind\n" + "1,groß\n2,klein\n".encode("latin1") * 10)
    with pytest.raises(InputError, match=r"words\.csv is not written in UTF-8"):
        load(f"{tmp_path / 'words.csv'}+label:kind")
    (tmp_path / "twice.csv").write_text("x,x,kind\n" + "1,2,0\n3,4,1\n" * 10)
    with pytest.raises(InputError, match="must have different names, got x, x, kind"):
        load(f"{tmp_path / 'twice.csv'}+label:kind")


def test_a_class_without_points_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "one.csv").write_text("x,kind\n" + "".join(f"{i},{1 + i % 2}\n" for i in range(30)))
    load(f"{tmp_path / 'one.csv'}+label:kind")
    assert "no training point has the class 0; classes are numbered from 0" in caplog.text


def test_archives_and_folders_of_other_files_say_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "photos.zip").write_bytes(b"PK")
    with pytest.raises(InputError, match=r"photos\.zip is of no known format; unpack it first"):
        load(str(tmp_path / "photos.zip"))
    (tmp_path / "phone" / "cats").mkdir(parents=True)
    (tmp_path / "phone" / "cats" / "1.heic").touch()
    with pytest.raises(InputError, match=r"holds neither parquet files nor images \(1 \.heic\)"):
        load(str(tmp_path / "phone"))


CREDIT = """label = "result"
immutable = ["age"]
integer = ["children"]
increasing = ["years"]

[range]
debt = [0, 60000]

[[relation]]
weights = { debt = 1, income = -1 }
at-most = 0
"""


@pytest.fixture
def credit(tmp_path: Path) -> Path:
    """Columns of very different units; the share of debt decides."""
    rng = np.random.default_rng(7)
    income = rng.normal(50_000, 10_000, 120).clip(20_000, 66_000).round()
    frame = pd.DataFrame({"income": income, "debt": (income * rng.uniform(0.1, 0.9, 120)).round()})
    frame["age"], frame["children"], frame["years"] = (rng.integers(0, top, 120) for top in (80, 5, 30))
    frame["result"] = np.where(frame["debt"] > 0.5 * frame["income"], "bad", "good")
    frame.to_csv(tmp_path / "credit.csv", index=False)
    (tmp_path / "credit.toml").write_text(CREDIT)
    return tmp_path / "credit.csv"


def test_a_bare_radius_on_unlike_columns_is_questioned(credit: Path) -> None:
    data = load(str(credit))
    with pytest.raises(InputError, match=r"children has .* (income|debt) has .* write linf:0\.1sd .* \[scale\]"):
        ball_on(Ball.parse("linf:0.1"), data)
    ball = ball_on(Ball.parse("linf:0.1sd"), data)
    assert ball.scale == pytest.approx(data.train.x.std(0, dtype=np.float64))
    assert (ball.box, ball.fixed, str(ball)) == (None, (2,), "linf:0.1sd,nobox")
    assert (ball.limits.whole, ball.limits.rising) == ((3,), (4,))
    assert ball_on(Ball("linf", 0.0), data).scale == (), "nothing moves in a ball of radius 0"
    credit.with_suffix(".toml").write_text(CREDIT.replace("immutable", "scale = 1\nimmutable"))
    assert ball_on(Ball.parse("linf:0.1"), load(str(credit))).scale == (1.0,) * 5


def test_features_in_0_1_and_of_like_spread_need_no_unit(table: Path, tmp_path: Path) -> None:
    table.with_suffix(".toml").write_text('drop = ["color"]')
    assert ball_on(Ball.parse("linf:0.1"), load(f"{table}+label:result")).scale == ()
    (tmp_path / "like.csv").write_text("a,b,label\n" + "".join(f"{i},{5 - i % 7},{i % 2}\n" for i in range(20)))
    assert ball_on(Ball.parse("linf:0.1"), load(str(tmp_path / "like.csv"))).scale == ()
    with pytest.raises(InputError, match="has images: write linf:8/255"):
        ball_on(Ball.parse("linf:0.1sd"), load("digits"))


def test_a_scale_beside_the_table(credit: Path) -> None:
    scale = "\n[scale]\nincome = 1000\ndebt = 500\nchildren = 1\nyears = 2\n"
    credit.with_suffix(".toml").write_text(CREDIT + scale)
    data = load(str(credit))
    assert ball_on(Ball.parse("l1:2"), data).scale == (1000.0, 500.0, 1.0, 1.0, 2.0)
    assert ball_on(Ball.parse("l1:2sd"), data).scale != (1000.0, 500.0, 1.0, 1.0, 2.0)
    assert data.train.digest != load(f"{credit}+subset:96").train.digest
    audited = radii.audit(data, norm="l2", epsilon=0.5)
    by_hand = radii.audit(data.train.x / np.array([1000, 500, 1, 1, 2], np.float32), data.train.y, norm="l2")
    assert audited.train.distance.min() > by_hand.train.distance.min()  # an immutable feature keeps points apart
    credit.with_suffix(".toml").write_text(CREDIT + scale.replace("years = 2", ""))
    with pytest.raises(InputError, match=r"\[scale\] of .*credit\.toml misses years"):
        load(str(credit))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('integer = ["children"]', 'integer = ["height"]'), "height"),
        (("[0, 60000]", "[0, 10]"), r"debt of row \d+ is .*outside its range \[0, 10\]"),
        (("[0, 60000]", "[9, 1]"), r"range\.debt must be \[least, greatest\]"),
        (("at-most = 0", "at-most = -1e6"), r"row \d+ breaks the relation"),
        (("at-most = 0", "most = 0"), "at-least, at-most or equals"),
        (('label = "result"', 'label = "result"\nscale = 0'), "the scale of every column must be positive"),
        (('label = "result"', 'label = "result"\nscale = "sd"'), "scale must be a table"),
        (('immutable = ["age"]', "immutable = 3"), "immutable must be a list"),
        (('immutable = ["age"]', 'swap = ["age"]'), "swap names columns of words and groups of .one-hot., and age has"),
    ],
)
def test_mistakes_of_the_notes_are_one_sentence(credit: Path, change: tuple[str, str], message: str) -> None:
    credit.with_suffix(".toml").write_text(CREDIT.replace(*change))
    with pytest.raises(InputError, match=message):
        load(str(credit))


def test_attacks_respect_the_notes_and_say_the_change_in_units(credit: Path) -> None:
    """Every success obeys rules that are checked by hand; the row that is told adds up to its distance."""
    data = load(str(credit))
    x, y = data.test.tensors()
    net = nn.Linear(5, 2)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[0.5, -1.0, 40.0, 4000.0, 300.0], [-0.5, 1.0, -40.0, -4000.0, -300.0]]) / 1e4)
        net.bias.zero_()
    y = net(x).argmax(1)
    for text in ("linf:1sd", "l2:1.5sd", "l1:2sd"):
        ball = ball_on(Ball.parse(text), data)
        for attack in (APGD("ce", steps=20), FAB(steps=10), Square(queries=40), MinimumNorm(steps=20)):
            found = attack(net, x, y, ball, stream(0))
            assert bool(found.broken.any()), (text, attack)
            new, old = found.x_adv[found.broken].double(), x[found.broken].double()
            assert torch.equal(new[:, 2], old[:, 2])
            assert torch.equal(new[:, 3], new[:, 3].round())
            assert bool((new[:, 4] >= old[:, 4]).all())
            assert bool(((new[:, 1] >= 0) & (new[:, 1] <= 60_000) & (new[:, 1] <= new[:, 0] * (1 + 1e-4))).all())
            assert bool(ball.contains(new.float(), old.float()).all())
        (change,) = smallest_changes(x, found.x_adv, found.broken.numpy(), ball, data.test.rules.names)
        sizes = np.abs([feature.in_scale for feature in change.features])
        power = {"linf": np.inf, "l2": 2, "l1": 1}[ball.norm]
        assert np.linalg.norm(sizes, power) == pytest.approx(change.distance)
        assert "children" in {feature.feature for feature in change.features} or change.distance < 1
        assert change.table(ball).rows[0]["feature"] == change.features[0].feature
    scores = radii.evaluate(net, x[:8], y[:8], ball_on(Ball.parse("linf:0.3sd"), data), suite="fast", alarms=False)
    assert bool((scores.points.proved_radius <= scores.points.changed_radius).all())
    assert scores.points.proved.any()


def test_rows_on_an_equation_stay_on_it(tmp_path: Path) -> None:
    """total = first + second: what an attack returns obeys it up to float32, and it finds something."""
    first, second = RNG.random((2, 60)) * 10
    frame = pd.DataFrame({"first": first, "second": second, "total": first + second, "label": first > 5})
    frame.to_csv(tmp_path / "sum.csv", index=False)
    notes = "[[relation]]\nweights = { first = 1, second = 1, total = -1 }\nequals = 0\n"
    (tmp_path / "sum.toml").write_text(notes)
    data = load(str(tmp_path / "sum.csv"))
    net = nn.Linear(3, 2)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[-1.0, 0.3, 0.0], [1.0, -0.3, 0.0]]))
        net.bias.copy_(torch.tensor([5.0, -5.0]))
    x, _ = data.test.tensors()
    found = radii.attack(net, x, net(x).argmax(1), ball_on(Ball.parse("linf:0.5sd"), data))
    assert bool(found.broken.any())
    new = found.x_adv[found.broken].double()
    assert torch.allclose(new[:, 0] + new[:, 1], new[:, 2], rtol=2e-5)


def test_what_a_table_says_holds_in_python_as_on_the_command_line() -> None:
    """The first feature stays, the second decides and counts in tens: no row is misled within 1, all are within 3."""
    rng = np.random.default_rng(0)
    x = rng.uniform(11, 15, (40, 2)).astype(np.float32) * rng.choice([-1, 1], (40, 2)).astype(np.float32)
    model = torch.nn.Linear(2, 2, bias=False)
    model.weight.data = torch.tensor([[0.0, 0.0], [0.0, 1.0]])
    y = (x[:, 1] > 0).astype(np.int64)
    rules = FeatureRules(immutable=(0,), scale=(1.0, 10.0), limits=FeatureLimits(ranges=((1, -15.0, 15.0),)))
    table = Dataset(x, y, ("low", "high"), "lamps", rules=rules)
    for radius, robust in ((1, 1.0), (3, 0.0)):
        threat = f"linf:{radius},nobox"
        scores = radii.evaluate(model, table, threat=threat)
        assert scores.robust.proved.value == scores.robust.unbroken.value == robust
        found = radii.attack(model, table, threat=threat)
        assert float((~found.broken).float().mean()) == robust
        for end in (found.x_adv, scores.x_adv):
            assert torch.equal(end[:, 0], torch.from_numpy(x[:, 0]))
        gate = radii.gate(model, table, f"robust({threat})>=0.5")
        assert gate.passed == (robust == 1.0)
    sparse = radii.attack(model, table, threat="l0:1")
    assert torch.equal(sparse.x_adv[:, 0], torch.from_numpy(x[:, 0]))
