"""Stops training-operator for a while: only one operator may work on a job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from muster.operator.install import THEIR_WEBHOOK
from tools.cluster.cluster import Cluster


@contextmanager
def without_theirs(cluster: Cluster) -> Iterator[None]:
    """Stops its process and removes its webhook; both are back afterwards."""
    ran = bool(cluster.pid("training-operator"))
    kind = "validatingwebhookconfiguration"
    webhook = cluster.kubectl("get", kind, THEIR_WEBHOOK, "--output=json", "--ignore-not-found")
    if ran:
        cluster.stop("training-operator")
    if webhook:
        cluster.kubectl("delete", kind, THEIR_WEBHOOK)
    try:
        yield
    finally:
        if webhook:
            cluster.kubectl("replace", "--force", "--filename=-", given=webhook)
        if ran:
            cluster.restart("training-operator")
