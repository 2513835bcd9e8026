"""The list of job kinds that Muster runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from muster.kube.errors import Cause
from muster.kube.kinds import Kind
from muster.kube.objects import Object
from muster.training.kinds.base import JobKind
from muster.training.kinds.jax import Jax
from muster.training.kinds.mpi import Mpi
from muster.training.kinds.paddle import Paddle
from muster.training.kinds.paddlecloud import PaddleCloud
from muster.training.kinds.pytorch import PyTorch
from muster.training.kinds.tensorflow import AihcTensorFlow, TensorFlow
from muster.training.kinds.xgboost import XGBoost

JOB_KINDS: tuple[JobKind, ...] = (
    PyTorch(),
    TensorFlow(),
    AihcTensorFlow(),
    XGBoost(),
    Mpi(),
    Paddle(),
    PaddleCloud(),
    Jax(),
)


def training_kinds() -> tuple[Kind, ...]:
    """Returns the kinds for a cluster's catalogue. Each validates with its job kind."""
    return tuple(
        replace(kind, validate=_validator(job_kind), warnings=job_kind.warnings)
        for job_kind in JOB_KINDS
        for kind in (job_kind.kind, *job_kind.other_versions)
    )


def _validator(job_kind: JobKind) -> Callable[[Object, Object | None], list[Cause]]:
    def check(new: Object, old: Object | None) -> list[Cause]:
        if old is None:
            return job_kind.validate(new)
        return (
            [*job_kind.validate(new), *job_kind.validate_change(old, new)] if new.get("spec") != old.get("spec") else []
        )

    return check
