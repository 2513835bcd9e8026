"""The `NodeFiles` protocol: what a node keeps of its Pods' containers besides their status.

Kubernetes' API has no call for it: the embedded node agent implements it, and the server hands it to those who collect
outputs.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from muster.kube.objects import Object


class NodeFilesError(Exception):
    """The output files of a container could not be copied. The message says why."""


class NodeFiles(Protocol):
    """Files of running and finished containers. All calls may read from the disk."""

    def output(self, pod: Object, container: str, index: int) -> Path | None:
        """Returns the copy of the container's path with this index in its keep-files annotation, or None if there was
        nothing to copy. Raises NodeFilesError if copying failed."""
        ...

    def outputs_written_at(self, pod: Object, container: str) -> int:
        """Returns when the container's outputs were copied, in nanoseconds; 0 if they were not."""
        ...

    def last_output(self, pod: Object, container: str, limit: int) -> bytes:
        """Returns the end of what the container's last attempt wrote to stdout, at most `limit` bytes."""
        ...

    def write_log(self, pod: Object, container: str, target: Path) -> None:
        """Writes what is left of the log of the container's last attempt to a file."""
        ...

    def log_owners(self, kind: str) -> set[tuple[str, str]]:
        """Returns the namespaces and uids of the objects of a kind whose Pods have logs, also of deleted Pods."""
        ...

    def drop_logs(self, kind: str, owners: Collection[str]) -> None:
        """Deletes the logs of all Pods that the objects with these uids controlled."""
        ...

    def scratch_folder(self, pod: Object, container: str) -> str:
        """Returns the folder that a container sees as its /tmp."""
        ...


# Annotations by which a Pod asks the embedded node agent for more than Kubernetes' own
# fields can express.
#
# muster.dev/keep-files: {"main": ["/tmp/out.txt", "/model"]}
# The paths are copied when the container has ended, and the copies are kept as long as the Pod object exists; see
# `muster.kube.node_files`. The container may write these paths wherever they are: only it sees them, and the
# machine's own files do not change.
# muster.dev/containers: {"leading": ["a", "b"], "after": {"b": ["a"]}, "retries": 1, "retrySeconds": 0.5}
# The Pod ends when its leading containers have ended or one of them has failed. A container starts when those in
# its `after` have succeeded.
# muster.dev/stop: "30"
# Stops the containers with so many seconds of grace, and keeps the Pod object.


KEEP_FILES_ANNOTATION = "muster.dev/keep-files"
CONTAINERS_ANNOTATION = "muster.dev/containers"
STOP_ANNOTATION = "muster.dev/stop"
