"""What users without admin rights may not write into an Argo Workflow."""

from __future__ import annotations

from typing import Any

import pytest

from muster.kube.objects import Object
from muster.kube.pod_security import PodGrants
from muster.platform.graphs.argo_manifest import check_workflow_policy

MINE = PodGrants(
    only_listed=True,
    paths={"/data": False, "/models": True},
    claims={"team": False},
    secrets=frozenset({"shared"}),
    config_maps=frozenset({"settings"}),
)
SECRET = {"name": "run-1", "key": "k"}
SHARED = {"name": "shared", "key": "k"}
CONTAINER = {"image": "busybox", "command": ["true"]}


def workflow(*templates: dict[str, Any], metadata: dict[str, Any] | None = None, **spec: Any) -> Object:
    named = [{"name": f"t{n}", **template} for n, template in enumerate(templates)]
    return {"metadata": metadata or {}, "spec": {"entrypoint": "t0", "templates": named, **spec}}


def container(**more: Any) -> dict[str, Any]:
    return {"container": {**CONTAINER, **more}}


def taking(**artifact: Any) -> dict[str, Any]:
    return {**container(), "inputs": {"artifacts": [{"name": "a", "path": "/a", **artifact}]}}


ROOT = [{"name": "v", "hostPath": {"path": "/"}}]
KEY = {"name": "K", "valueFrom": {"secretKeyRef": SECRET}}
T0 = "spec.templates[0]"

WANTED = {"parameters": [{"name": "p", "valueFrom": {"configMapKeyRef": SECRET}}]}

CASES: list[tuple[Object, str, str]] = [
    (workflow(container(), volumes=ROOT), "spec.volumes[0].hostPath.path", "confined.path"),
    (workflow({**container(), "volumes": ROOT}), f"{T0}.volumes[0].hostPath.path", "confined.path"),
    (workflow(templateDefaults={"volumes": ROOT}), "spec.templateDefaults.volumes[0].hostPath.path", "confined.path"),
    (workflow(container(env=[KEY])), f"{T0}.container.env[0].valueFrom.secretKeyRef.name", "confined.secret"),
    (
        workflow({"script": {**CONTAINER, "source": "", "envFrom": [{"secretRef": SECRET}]}}),
        f"{T0}.script.envFrom[0].secretRef.name",
        "confined.secret",
    ),
    (
        workflow({**container(), "sidecars": [{"name": "s", "securityContext": {"privileged": True}}]}),
        f"{T0}.sidecars[0].securityContext.privileged",
        "confined.privileged",
    ),
    (
        workflow({"containerSet": {"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]}}),
        f"{T0}.containerSet.containers[0].ports[0].hostPort",
        "confined.port",
    ),
    (
        workflow({"steps": [[{"name": "s", "inline": container(env=[KEY])}]]}),
        f"{T0}.steps[0][0].inline.container.env[0].valueFrom.secretKeyRef.name",
        "confined.secret",
    ),
    (
        workflow({"dag": {"tasks": [{"name": "s", "inline": {"resource": {"action": "get"}}}]}}),
        f"{T0}.dag.tasks[0].inline.resource",
        "confined.resource",
    ),
    (
        workflow({"http": {"url": "x", "headers": [{"name": "h", "valueFrom": {"secretKeyRef": SECRET}}]}}),
        f"{T0}.http.headers[0].valueFrom.secretKeyRef.name",
        "confined.secret",
    ),
    (workflow({**container(), "podSpecPatch": "{}"}), f"{T0}.podSpecPatch", "confined.setting"),
    (workflow(container(), podSpecPatch="{}"), "spec.podSpecPatch", "confined.setting"),
    (workflow({"plugin": {"x": {}}}), f"{T0}.plugin", "confined.setting"),
    (workflow(container(), serviceAccountName="admin"), "spec.serviceAccountName", "confined.account"),
    (
        workflow({**container(), "executor": {"serviceAccountName": "admin"}}),
        f"{T0}.executor.serviceAccountName",
        "confined.account",
    ),
    (
        workflow({**container(), "automountServiceAccountToken": True}),
        f"{T0}.automountServiceAccountToken",
        "confined.token",
    ),
    (workflow(container(), hostNetwork=True), "spec.hostNetwork", "confined.host"),
    (
        workflow(container(), artifactRepositoryRef={"configMap": "x"}),
        "spec.artifactRepositoryRef",
        "confined.repository",
    ),
    (workflow(taking(s3={"key": "run-1/other"})), f"{T0}.inputs.artifacts[0].s3", "confined.store"),
    (
        workflow({**container(), "outputs": {"artifacts": [{"name": "a", "path": "/a", "s3": {"key": "run-1/a"}}]}}),
        f"{T0}.outputs.artifacts[0].s3",
        "confined.store",
    ),
    (
        workflow(taking(s3={"bucket": "b", "key": "{{workflow.name}}/a"})),
        f"{T0}.inputs.artifacts[0].s3",
        "confined.store",
    ),
    (
        workflow(taking(s3={"bucket": "b", "key": "x", "accessKeySecret": SECRET, "secretKeySecret": SHARED})),
        f"{T0}.inputs.artifacts[0].s3.accessKeySecret.name",
        "confined.secret",
    ),
    (
        workflow(container(), arguments={"artifacts": [{"name": "a", "s3": {"key": "run-1/other"}}]}),
        "spec.arguments.artifacts[0].s3",
        "confined.store",
    ),
    (
        workflow(container(), arguments=WANTED),
        "spec.arguments.parameters[0].valueFrom.configMapKeyRef.name",
        "confined.config map",
    ),
    (workflow(taking(git={"repo": "/srv/repo"})), f"{T0}.inputs.artifacts[0].git.repo", "confined.repo"),
    (workflow(taking(git={"repo": "file:///srv/repo"})), f"{T0}.inputs.artifacts[0].git.repo", "confined.repo"),
    (
        workflow({**container(), "inputs": {"parameters": [{"name": "p", "valueFrom": {"configMapKeyRef": SECRET}}]}}),
        f"{T0}.inputs.parameters[0].valueFrom.configMapKeyRef.name",
        "confined.config map",
    ),
    (
        workflow({**container(), "metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "theirs"}}}),
        f"{T0}.metadata.annotations[scheduling.volcano.sh/queue-name]",
        "confined.queue",
    ),
    (
        workflow(container(), metadata={"labels": {"muster.dev/run": "1"}}),
        "metadata.labels[muster.dev/run]",
        "confined.label",
    ),
    (
        workflow(container(), workflowMetadata={"labelsFrom": {"muster.dev/run": {"expression": "x"}}}),
        "spec.workflowMetadata.labels[muster.dev/run]",
        "confined.label",
    ),
    (
        workflow(
            {**container(volumeMounts=[{"name": "v", "mountPath": "/m"}])},
            volumes=[{"name": "v", "hostPath": {"path": "/models"}}],
        ),
        f"{T0}.container.volumeMounts[0]",
        "confined.read only",
    ),
]


@pytest.mark.parametrize(("written", "path", "code"), CASES)
def test_access_to_the_machine_or_to_others_is_refused(written: Object, path: str, code: str) -> None:
    assert [(error.field, error.code) for error in check_workflow_policy(written, MINE, ["theirs"])] == [(path, code)]


@pytest.mark.parametrize(
    "written",
    [
        workflow(container()),
        workflow(container(env=[{"name": "K", "valueFrom": {"secretKeyRef": {"name": "shared", "key": "k"}}}])),
        workflow(container(), volumes=[{"name": "v", "hostPath": {"path": "/data"}}, {"name": "w", "emptyDir": {}}]),
        workflow(container(), volumeClaimTemplates=[{"metadata": {"name": "w"}, "spec": {}}]),
        workflow(container(), serviceAccountName="default", nodeSelector={"accessKeySecret": "x"}),
        workflow(
            taking(s3={"key": "{{workflow.name}}/a"}), taking(raw={"data": "x"}), taking(http={"url": "http://x"})
        ),
        workflow(taking(s3={"bucket": "b", "key": "x", "accessKeySecret": SHARED, "secretKeySecret": SHARED})),
        workflow(taking(git={"repo": "https://host/x.git"}), taking(git={"repo": "git@host:x.git"})),
        workflow(container(), synchronization={"semaphores": [{"configMapKeyRef": {"name": "limits", "key": "n"}}]}),
        workflow({**container(), "metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "ours"}}}),
    ],
)
def test_other_fields_are_allowed(written: Object) -> None:
    assert check_workflow_policy(written, MINE, ["theirs"]) == []


def test_every_message_has_a_case() -> None:
    own = {f"confined.{name}" for name in ("queue", "repository", "resource", "store", "repo")}
    assert own <= {code for _, _, code in CASES}
