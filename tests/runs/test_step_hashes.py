"""The hashes of steps stay what they were: runs of older versions are found again."""

from __future__ import annotations

import pytest

from radii.runs.component_specs import Component, DataSpec
from radii.runs.model_source import ModelFile
from radii.runs.step import Step, from_json
from radii.runs.steps import AttackStep, AuditStep, Certify, Evaluate, Prove, Train
from radii.threat import Ball
from radii.training.schedule import Recipe

DATA = DataSpec(source="digits", train="1" * 64, test="2" * 64)
TRAIN = Train(data=DATA, model=Component(name="lenet5", arguments={"widen": 0.125}), method=Component(name="natural"))
BALL = Ball("linf", 0.1)
RECIPE = Recipe.model_validate({"epochs": 2, "batch_size": 64, "optimizer": {"lr": 0.5}})
FEW = {"suite": "fast", "points": 50, "seed": 1, "minimum_norm": False}

# computed by the version before steps could be about models in files
OLD = {
    "train-351cf7eba297296fb2e3": TRAIN,
    "train-cc60261cba262458f695": TRAIN.model_copy(update={"validation": 0.1, "seed": 3}),
    "train-cac06baf21d95275325b": TRAIN.model_copy(update={"recipe": RECIPE}),
    "audit-6b885b32174ce181294c": AuditStep(data=DATA),
    "audit-140a29991753d3baafee": AuditStep(data=DATA, norm="linf", epsilon=8 / 255),
    "evaluate-8b1791234500676e4269": Evaluate(model=TRAIN, data=DATA, ball=BALL),
    "evaluate-182beb9d2c5fe1febdcc": Evaluate(model=TRAIN, data=DATA, ball=Ball("l2", 0.5, None), **FEW),
    "evaluate-9596b01c5a97182a49c1": Evaluate(model=TRAIN, data=DATA, ball=BALL, part=(1, 4)),
    "evaluate-1900c8e58792e750c950": Evaluate(model=TRAIN, data=DATA, ball=BALL, parts=4),
    "certify-a3bd1e087acd99df2ab6": Certify(model=TRAIN, data=DATA, radii=(0.1, 0.5)),
    "certify-3f978ac142609c3a4c0c": Certify(model=TRAIN, data=DATA, radii=(1.0,), points=10, seed=2),
    "prove-0a1fa30423180f6d1f9d": Prove(model=TRAIN, data=DATA, ball=Ball("linf", 0.3)),
    "prove-dfa2169baf2cd0be95e9": Prove(model=TRAIN, data=DATA, ball=Ball("l2", 1.0), method="crown", points=20),
}


@pytest.mark.parametrize(("run_id", "step"), OLD.items(), ids=list(OLD))
def test_a_hash_stays(run_id: str, step: Step) -> None:
    assert step.run_id == run_id
    assert from_json(step.to_json()) == step


def test_a_model_file_is_hashed_by_content() -> None:
    one, moved = (ModelFile(format="onnx", path=path, sha256="a" * 64) for path in ("a.onnx", "b/a.onnx"))
    other = ModelFile(format="onnx", path="a.onnx", sha256="b" * 64)
    ids = [AttackStep(model=model, data=DATA, ball=BALL).run_id for model in (one, moved, other)]
    assert ids[0] == ids[1] != ids[2]
    for step in (AttackStep(model=one, data=DATA, ball=BALL), Evaluate(model=one, data=DATA, ball=BALL, split="train")):
        assert from_json(step.to_json()) == step
        assert step.inputs() == ()
