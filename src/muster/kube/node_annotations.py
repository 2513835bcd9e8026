"""Annotations by which a Pod asks the embedded node agent for more than Kubernetes' own fields can express.

muster.dev/keep-files: {"main": ["/tmp/out.txt", "/model"]}
    The paths are copied when the container has ended, and the copies are kept as long as the Pod object exists; see
    `muster.kube.node_files`. The container may write these paths wherever they are: only it sees them, and the
    machine's own files do not change.
muster.dev/containers: {"leading": ["a", "b"], "after": {"b": ["a"]}, "retries": 1, "retrySeconds": 0.5}
    The Pod ends when its leading containers have ended or one of them has failed. A container starts when those in
    its `after` have succeeded.
muster.dev/stop: "30"
    Stops the containers with so many seconds of grace, and keeps the Pod object.
"""

from __future__ import annotations

KEEP_FILES_ANNOTATION = "muster.dev/keep-files"
CONTAINERS_ANNOTATION = "muster.dev/containers"
STOP_ANNOTATION = "muster.dev/stop"
