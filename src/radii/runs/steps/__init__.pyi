"""The public names of radii.runs.steps. Each is loaded when it is first used."""

from .attack_step import AttackStep
from .audit_step import AuditStep
from .certify_step import Certify
from .corruptions_step import Corruptions
from .evaluate_step import Evaluate
from .gate_step import Gate
from .prove_step import Prove
from .train_step import Train
from .verify_step import Verify

__all__ = ["AttackStep", "AuditStep", "Certify", "Corruptions", "Evaluate", "Gate", "Prove", "Train", "Verify"]
