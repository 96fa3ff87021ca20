"""A classifier that only answers: a scikit-learn pipeline, a web service, anything with scores."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from radii.errors import InputError


class BlackBox(nn.Module):
    """Scores [n, classes] of a numpy function as a model without gradients.

    ``probabilities`` takes their logarithm, in which small differences between
    nearly sure answers remain visible. Attack it with the suite ``black-box``.

    >>> from sklearn.linear_model import LogisticRegression
    >>> fitted = LogisticRegression().fit([[0.1], [0.2], [0.8], [0.9]], [0, 0, 1, 1])
    >>> BlackBox(fitted.predict_proba)(torch.tensor([[0.15]])).argmax(1)
    tensor([0])
    """

    def __init__(
        self, scores: Callable[[NDArray[np.float32]], NDArray[np.float64]], probabilities: bool = True
    ) -> None:
        super().__init__()
        self.scores, self.probabilities = scores, probabilities

    def forward(self, x: Tensor) -> Tensor:
        """Scores, or log-probabilities, of a batch."""
        answer = np.asarray(self.scores(x.detach().cpu().numpy()), dtype=np.float64)
        if answer.ndim != 2 or len(answer) != len(x):
            raise InputError(f"The function must return scores [{len(x)}, classes], got shape {answer.shape} instead.")
        if self.probabilities:
            if answer.min() < 0:
                raise InputError("Probabilities must be at least 0; for other scores set probabilities=False.")
            answer = np.log(np.maximum(answer, 1e-30))
        return torch.from_numpy(answer).to(x.device, torch.float32)
