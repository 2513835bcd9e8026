"""What Pods of a namespace may do.

A namespace with the label `muster.dev/isolation: restricted` belongs to people who are not admins. Its Pods are
checked when they are stored and confined when they run, wherever they came from.
"""

from __future__ import annotations

from typing import Final

from muster.kube.objects import Object, labels_of

ISOLATION_LABEL: Final = "muster.dev/isolation"
RESTRICTED: Final = "restricted"


def is_restricted(namespace: Object | None) -> bool:
    """Whether the Namespace object belongs to people who are not admins."""
    return namespace is not None and labels_of(namespace).get(ISOLATION_LABEL) == RESTRICTED
