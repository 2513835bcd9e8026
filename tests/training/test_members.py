"""Which Pod is which member of a job."""

from __future__ import annotations

from muster.training.dialects.paddlecloud import PaddleCloud
from muster.training.members import replica_of
from muster.training.model import Replica


def test_pods_that_paddle_operator_made_are_known_by_their_names() -> None:
    """They have labels of their own. Taken for strays they would be deleted when Muster takes over."""
    template = {"spec": {"containers": [{"name": "main", "image": "i"}]}}
    roles = {role: {"replicas": 2, "template": template} for role in ("ps", "worker")}
    metadata = {"name": "wide-and-deep", "namespace": "default", "uid": "u"}
    job = PaddleCloud().read(
        {"apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob", "metadata": metadata, "spec": roles}
    )
    names = ["wide-and-deep-ps-0", "wide-and-deep-worker-1", "wide-and-deep-worker-12", "wide-and-deep-heter-0", "else"]
    pods = [{"metadata": {"name": name, "labels": {"paddle-res-name": name}}} for name in names]
    assert [replica_of(job, pod) for pod in pods] == [
        Replica("ps", 0), Replica("worker", 1), Replica("worker", 12), None, None,
    ]  # fmt: skip
