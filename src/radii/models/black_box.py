"""A classifier that only answers: a scikit-learn pipeline, a web service, anything with scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from radii.errors import InputError

LEAST = 1e-30  # probabilities below this have one logarithm


class BlackBox(nn.Module):
    """Scores [n, classes] of a numpy function as a model without gradients.

    ``probabilities`` takes their logarithm, in which small differences between
    nearly sure answers remain visible. Attack it with the suite ``black-box``.

    Args:
        scores: a function of a float32 array, or an estimator of scikit-learn, whose ``predict_proba`` (else
            ``decision_function``) is asked with flat inputs [n, d]. One score for each input is that of class 1
            against class 0.
        probabilities: whether the scores of a function are probabilities; of an estimator it is known.

    >>> from sklearn.linear_model import LogisticRegression
    >>> fitted = LogisticRegression().fit([[0.1], [0.2], [0.8], [0.9]], [0, 0, 1, 1])
    >>> BlackBox(fitted)(torch.tensor([[0.15]])).argmax(1)
    tensor([0])
    """

    def __init__(self, scores: Any, probabilities: bool = True) -> None:
        super().__init__()
        self.training = False  # it has no other mode
        self.estimator = scores if is_estimator(scores) else None
        if self.estimator is not None:
            probabilities = hasattr(scores, "predict_proba")
            scores = scores.predict_proba if probabilities else scores.decision_function
        self.scores, self.probabilities = scores, probabilities

    def forward(self, x: Tensor) -> Tensor:
        """Scores, or log-probabilities, of a batch."""
        pixels = x.detach().cpu().numpy()
        answer = np.asarray(self.scores(pixels.reshape(len(x), -1) if self.estimator is not None else pixels))
        if answer.dtype.kind not in "biuf":
            raise InputError(f"The function must return numbers, got {answer.dtype} instead.")
        answer = answer.astype(np.float64)
        if answer.shape in ((len(x),), (len(x), 1)) and (len(x) > 1 or answer.ndim == 2 or self.estimator is not None):
            one = answer.reshape(-1, 1)
            answer = np.hstack([1 - one, one]) if self.probabilities else np.hstack([-one / 2, one / 2])
        if answer.ndim != 2 or len(answer) != len(x):
            raise InputError(f"The function must return scores [{len(x)}, classes], got shape {answer.shape} instead.")
        if self.probabilities:
            if answer.min() < 0:
                raise InputError("Probabilities must be at least 0; for other scores set probabilities=False.")
            answer = np.log(np.maximum(answer, LEAST))
        return torch.from_numpy(answer).to(x.device, torch.float32)


def is_estimator(model: Any) -> bool:
    """Whether ``model`` answers as a classifier of scikit-learn does."""
    return not isinstance(model, nn.Module) and (hasattr(model, "predict_proba") or hasattr(model, "decision_function"))
