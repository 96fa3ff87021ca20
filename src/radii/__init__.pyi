"""The public names of radii. Each is loaded when it is first used."""

from . import attacks, certificates, data, evaluation, geometry, models, runs, studies, training
from .attacks.by_name import attack
from .certificates.certificate import Certificate
from .certificates.choose import certify
from .change import Change
from .data.dataset import Data, Dataset
from .data.sources import load
from .errors import ContradictionError, InputError
from .evaluation.doctor import doctor
from .evaluation.evaluate import evaluate
from .evaluation.gate import gate
from .evaluation.scores import Scores
from .geometry.audit import audit
from .models.adapter import BlackBox
from .models.classifier import Classifier
from .models.io.export import export
from .models.lipschitz.network_bound import lipschitz_bound
from .runs.comparison import compare
from .runs.executors.dispatch import FailedStepsError
from .runs.planning import train
from .runs.store import Store
from .sparse_threat import Sparse
from .studies.assess import assess
from .studies.scaling_forecast import forecast
from .tables import Table
from .threat import Ball
from .verification.proof import check_proof
from .verification.verify import verify

__version__: str

__all__ = [
    "Ball",
    "BlackBox",
    "Certificate",
    "Change",
    "Classifier",
    "ContradictionError",
    "Data",
    "Dataset",
    "FailedStepsError",
    "InputError",
    "Scores",
    "Sparse",
    "Store",
    "Table",
    "__version__",
    "assess",
    "attack",
    "attacks",
    "audit",
    "certificates",
    "certify",
    "check_proof",
    "compare",
    "data",
    "doctor",
    "evaluate",
    "evaluation",
    "export",
    "forecast",
    "gate",
    "geometry",
    "lipschitz_bound",
    "load",
    "models",
    "runs",
    "studies",
    "train",
    "training",
    "verify",
]
