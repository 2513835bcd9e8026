"""What becomes of a workspace, as tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from muster.kube.objects import Object, annotations_of
from muster.workspaces.addresses import address_of, headers_for
from muster.workspaces.environments import READY, EnvironmentStatus
from muster.workspaces.kinds import RESTART_ANNOTATION, STOP_ANNOTATION
from muster.workspaces.plan import (
    HASH_ANNOTATION,
    HostFolders,
    Observed,
    build_pod,
    build_service,
    decide,
    notebook_pod_spec,
    port_of,
    prefix_of,
    state_of,
    template_hash,
    tensorboard_pod_spec,
)
from tests.workspaces.sample_workspaces import notebook, pod_of, tensorboard

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
INSTALLING = EnvironmentStatus("minimal", "installing", "Downloading numpy (package 3)", 0.2)


def current_pod(workspace: Object, **status: Any) -> Object:
    """A Pod that was made from the workspace as it is now."""
    pod = pod_of(workspace, **status)
    pod["metadata"]["annotations"] = {HASH_ANNOTATION: template_hash(notebook_pod_spec(workspace))}
    return pod


def decided(workspace: Object, *pods: Object, environment: EnvironmentStatus = READY, refused: str = "") -> Any:
    wanted = template_hash(notebook_pod_spec(workspace))
    return decide(workspace, wanted, Observed(pods, environment, refused), NOW)


def test_a_notebook_without_a_pod_gets_one_when_its_environment_is_there() -> None:
    assert decided(notebook()).create_pod
    waiting = decided(notebook(), environment=INSTALLING)
    assert not waiting.create_pod
    assert waiting.status["environment"] == {
        "name": "minimal", "state": "installing", "message": "Downloading numpy (package 3)", "fraction": 0.2,
    }  # fmt: skip


def test_a_running_notebook_is_left_alone_and_its_status_is_that_of_its_pod() -> None:
    nb = notebook()
    running = {"state": {"running": {"startedAt": "2026-11-17T10:00:00Z"}}, "name": "nb", "ready": True}
    decision = decided(nb, current_pod(nb, containerStatuses=[running]))
    assert (decision.create_pod, decision.delete) == (False, [])
    assert decision.status["readyReplicas"] == 1
    assert decision.status["containerState"] == running["state"]
    assert [each["type"] for each in decision.status["conditions"]] == ["Ready"]


@pytest.mark.parametrize("annotation", [STOP_ANNOTATION, RESTART_ANNOTATION])
def test_a_stop_and_a_restart_delete_the_pod(annotation: str) -> None:
    nb = notebook(annotations={annotation: "2026-11-17T11:00:00Z"})
    pod = current_pod(nb)
    decision = decided(nb, pod)
    assert decision.delete == [pod]
    assert not decision.create_pod
    assert decision.annotations == ({} if annotation == STOP_ANNOTATION else {RESTART_ANNOTATION: None})
    assert decided(nb).create_pod is (annotation == RESTART_ANNOTATION)


def test_a_pod_that_ended_or_was_made_from_another_template_is_replaced() -> None:
    nb = notebook()
    ended = current_pod(nb)
    ended["status"]["phase"] = "Failed"
    assert decided(nb, ended).delete == [ended]
    old = current_pod(nb)
    changed = notebook(image="jupyter/base-notebook")
    assert decided(changed, old).delete == [old]


@pytest.mark.parametrize(
    ("workspace", "pod", "state", "reason"),
    [
        (notebook(), pod_of(notebook()), "running", ""),
        (notebook(), None, "starting", ""),
        (notebook(annotations={STOP_ANNOTATION: "x"}), None, "stopped", ""),
        (notebook(annotations={STOP_ANNOTATION: "x"}), pod_of(notebook()), "stopped", "Stopping"),
        (
            notebook(),
            pod_of(
                notebook(),
                ready=False,
                containerStatuses=[
                    {
                        "name": "nb",
                        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
                        "lastState": {"terminated": {"exitCode": 127, "message": "jupyter: not found"}},
                    }
                ],
            ),
            "failed",
            "CrashLoopBackOff: back-off 10s (exit code 127) jupyter: not found",
        ),
        (
            notebook(),
            pod_of(
                notebook(), ready=False, conditions=[{"type": "PodScheduled", "status": "False", "message": "no GPU"}]
            ),
            "starting",
            "no GPU",
        ),
    ],
)
def test_the_state_of_a_notebook(workspace: Object, pod: Object | None, state: str, reason: str) -> None:
    assert state_of(workspace, pod) == (state, reason)


def test_a_refused_pod_and_a_failed_environment_are_failures_with_the_reason() -> None:
    failed = EnvironmentStatus("minimal", "failed", "pip could not install it", 0.0)
    for decision, reason in (
        (decided(notebook(), environment=failed), "pip could not install it"),
        (decided(notebook(), refused="hostPath is forbidden"), "hostPath is forbidden"),
    ):
        assert state_of({**notebook(), "status": decision.status}, None) == ("failed", reason)


def test_the_pod_of_a_notebook_has_the_token_its_address_and_the_labels_of_kubeflow() -> None:
    nb = notebook(annotations={"scheduling.volcano.sh/queue-name": "gpu", "muster.dev/owner": "me"})
    pod = build_pod(nb, notebook_pod_spec(nb))
    (container,) = pod["spec"]["containers"]
    env = {each["name"]: each["valueFrom"] for each in container["env"]}
    assert env["JUPYTER_TOKEN"] == {"secretKeyRef": {"name": "notebook-nb-token", "key": "token"}}
    assert env["MUSTER_POD_IP"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    assert container["ports"][0]["containerPort"] == 8888
    assert pod["metadata"]["name"] == "nb-0"
    assert pod["metadata"]["labels"]["notebook-name"] == "nb"
    assert pod["metadata"]["labels"]["app"] == "nb"
    # The queue is for the scheduler; what the platform wrote is about the notebook, and Pods may not have it.
    assert set(annotations_of(pod)) == {"scheduling.volcano.sh/queue-name", HASH_ANNOTATION}
    service = build_service(nb)
    assert service["spec"]["ports"] == [{"name": "http-nb", "port": 80, "targetPort": 8888}]


def test_a_notebook_with_its_own_port_token_and_prefix_keeps_them() -> None:
    env = [{"name": "NB_PREFIX", "value": "/notebook/default/nb"}, {"name": "JUPYTER_TOKEN", "value": "mine"}]
    nb = notebook(ports=[{"containerPort": 9999}], env=env)
    (container,) = notebook_pod_spec(nb)["containers"]
    assert [each for each in container["env"] if each["name"] == "JUPYTER_TOKEN"] == env[1:]
    assert (port_of(nb), prefix_of(nb)) == (9999, "/notebook/default/nb/")


def test_the_address_is_the_one_that_the_node_reports_for_the_notebooks_own_pod() -> None:
    nb = notebook()
    assert address_of(nb, pod_of(nb)) == ("127.1.0.9", 8888)
    assert address_of(nb, pod_of(nb, ready=False)) is None
    assert address_of(nb, pod_of(nb, podIP="")) is None
    assert address_of({**nb, "metadata": {**nb["metadata"], "uid": "another"}}, pod_of(nb)) is None
    assert headers_for(nb, "t") == (("authorization", "token t"),)
    assert headers_for(tensorboard(), "t") == (("authorization", "Bearer t"),)


def test_a_tensorboard_mounts_its_logs_read_only() -> None:
    board = tensorboard("", logs=[{"name": "a", "path": "pvc://logs/x"}, {"name": "b", "path": "s3://bucket/y"}])
    spec = tensorboard_pod_spec(board, "image", HostFolders())
    (container,) = spec["containers"]
    assert container["args"] == ["6006", "a=/logs/0/x", "b=s3://bucket/y"]
    assert container["volumeMounts"] == [{"name": "logs-0", "mountPath": "/logs/0", "readOnly": True}]
    assert spec["volumes"] == [{"name": "logs-0", "persistentVolumeClaim": {"claimName": "logs", "readOnly": True}}]


def test_a_folder_of_a_restricted_namespace_has_to_be_below_one_of_its_storage_roots() -> None:
    board = tensorboard("/nfs/data/runs/7")
    allowed = tensorboard_pod_spec(board, "image", HostFolders(True, {"/nfs/data": False, "/nfs": True}))
    assert allowed["volumes"][0]["hostPath"]["path"] == "/nfs/data"
    assert allowed["containers"][0]["args"] == ["6006", "=/logs/0/runs/7"]
    assert tensorboard_pod_spec(board, "image", HostFolders())["volumes"][0]["hostPath"]["path"] == "/nfs/data/runs/7"
    with pytest.raises(ValueError, match='"/nfs/data/runs/7" is not below a storage root that you may use'):
        tensorboard_pod_spec(board, "image", HostFolders(True, {"/nfs/database": False}))
