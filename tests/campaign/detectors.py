"""Networks that behave differently in other arithmetic: detector neurons after arXiv 2506.01054.

A detector neuron adds huge numbers that cancel and a small one that survives
only in some orders of summation (Order) or only in wide arithmetic
(Precision). Its value decides the class. A certificate must hold for the network
in float32 with its sums in any order, so here it must not be given at all, or
hold in every order tried.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

import radii
from campaign.tally import METHODS, NORMS, SECONDS, Tally
from radii.errors import InputError

FEATURES, CLASSES = 4, 2


class Detector(nn.Module):
    """logits = base(x) + s (z - 1/2), z a sum of constants that is 1 in exact arithmetic.

    ``terms`` are the constants in order; the hidden layer makes a one for each of them from any input.
    """

    def __init__(self, terms: Tensor, strength: float) -> None:
        super().__init__()
        self.ones = nn.Linear(FEATURES, len(terms))
        self.detector = nn.Linear(len(terms), 1, bias=False)
        self.base, self.effect = nn.Linear(FEATURES, CLASSES), nn.Linear(1, CLASSES)
        with torch.no_grad():
            self.ones.weight.zero_()
            self.ones.bias.fill_(1.0)
            self.detector.weight.copy_(terms[None])
            self.base.weight.mul_(0.01)
            self.effect.weight.copy_(torch.tensor([[strength], [-strength]]))
            self.effect.bias.copy_(torch.tensor([-0.5 * strength, 0.5 * strength]))

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.effect(self.detector(torch.relu(self.ones(x))))


def terms_of(kind: str, generator: Generator) -> Tensor:
    """Constants whose exact sum is 1."""
    huge = float(2 ** int(torch.randint(25, 60, (), generator=generator)))
    if kind == "precision":
        pair = torch.tensor([1.0, 0.5 * 2**-25, -0.5 * 2**-25])
        return torch.cat([torch.tensor([huge]), pair, torch.tensor([-huge])])
    pairs = 1 + int(torch.randint(0, 6, (), generator=generator))
    order = torch.cat([torch.tensor([1.0]), torch.full((pairs,), huge), torch.full((pairs,), -huge)])
    return order[torch.randperm(len(order), generator=generator)]


def answers(model: Detector, x: Tensor, generator: Generator) -> set[int]:
    """The classes of the first input in batches of many sizes, in other orders of the hidden units, in float64."""
    seen = set()
    with torch.no_grad():
        for size in (1, 2, 3, 8, 33, 64):
            seen.add(int(model(x[:1].repeat(size, 1))[0].argmax()))
        kept = model.detector.weight.clone()
        for _ in range(16):
            model.detector.weight.copy_(kept[:, torch.randperm(kept.shape[1], generator=generator)])
            seen.add(int(model(x[:1])[0].argmax()))
        model.detector.weight.copy_(kept)
        one = float(sum(sorted(kept[0].double().tolist(), key=abs)))  # smallest first, in float64
        seen.add(int(one < 0.5))
    return seen


def trial(seed: int, count: int) -> Tally:
    """One detector; every certificate must agree with all ways to compute the network."""
    generator = Generator().manual_seed(seed)
    torch.manual_seed(seed)
    model = Detector(terms_of(("order", "precision")[seed % 2], generator), 10.0).eval()
    x = torch.rand(1, FEATURES, generator=generator)
    seen, tally = answers(model, x, generator), Tally(networks=1)
    for method in METHODS:
        norm = NORMS.get(method, "l2" if seed % 3 == 0 else "linf")
        try:
            proof = radii.certify(model, x, method=method, norm=norm, radii=(0.01, 0.1), seconds=SECONDS)
        except InputError:
            tally.refused += 1
            continue
        if float(proof.radius[0]) > 0:
            tally.certificates += 1
            tally.points += 23
            if seen != {int(proof.prediction[0])}:
                tally.false += 1
                tally.notes.append(
                    f"detectors {seed} {method}: certifies {int(proof.prediction[0])}, orders give {seen}"
                )
    return tally
