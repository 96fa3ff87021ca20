"""What a certificate says of a radius."""

from __future__ import annotations

from math import inf, nextafter

import torch

from radii.certificates.certificate import Certificate


def test_a_radius_covers_itself_and_nothing_more() -> None:
    radius = torch.tensor([0.1, 0.1, 0.2, 0.0], dtype=torch.float64)
    proof = Certificate(torch.tensor([0, -1, 3, 1]), radius, "l2", "deterministic", "margin")
    assert proof.covers(0.1).tolist() == [True, False, True, False]
    assert proof.covers(nextafter(0.1, inf)).tolist() == [False, False, True, False]
    assert proof.covers(0.2).tolist() == [False, False, True, False]
