"""What :mod:`radii.randomness` sets for a step is set back afterwards, and costs no import."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from radii.randomness import fixed_arithmetic


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_the_choice_of_algorithms_is_set_back_warnings_included(mode: int) -> None:
    before = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode(mode)
    try:
        with fixed_arithmetic():
            assert torch.get_deterministic_debug_mode() == 0
        assert torch.get_deterministic_debug_mode() == mode
    finally:
        torch.set_deterministic_debug_mode(before)


def test_no_compiler_is_imported() -> None:
    # torch.use_deterministic_algorithms imports inductor, which takes three CPU seconds of every process
    code = "import sys\nfrom radii.randomness import fixed_arithmetic\nwith fixed_arithmetic():\n    pass\n"
    asked = subprocess.run(
        [sys.executable, "-c", code + "print('torch._inductor' in sys.modules)"], capture_output=True
    )
    assert asked.stdout.split() == [b"False"]
