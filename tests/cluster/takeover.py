"""A cluster without training-operator for a while, though it runs there otherwise: only one may look after a job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from muster.operator.install import THEIR_WEBHOOK
from tools.cluster.cluster import Cluster


@contextmanager
def without_theirs(cluster: Cluster) -> Iterator[None]:
    """Its process is stopped and its webhook gone; afterwards all is as it was."""
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
