from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from muster.kube.builtin import POD_SPEC_SCHEMA
from muster.kube.cluster import CONTAINERS_ANNOTATION, KEEP_FILES_ANNOTATION
from muster.kube.objects import Object
from muster.kube.schema_validation import unknown_fields
from muster.workflows.executors.pod_spec import SCRIPT, CannotRun, StagedInputs, build_pod, build_script_config_map
from muster.workflows.model import Launch, Node

WORKFLOW: Object = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Workflow",
    "metadata": {"name": "wf", "namespace": "team", "uid": "u1", "creationTimestamp": "2026-11-16T01:02:03Z"},
    "spec": {},
}
IMAGE = {"image": "busybox", "command": ["true"]}
CONTAINER: dict[str, Any] = {"container": IMAGE}


def launch(template: dict[str, Any], name: str = "wf.a", **more: Any) -> Launch:
    node = Node(id="wf-1", name=name, displayName="a", type="Pod", phase="Pending")
    return Launch(node, "pod", {"name": "t", **template}, "wf-t-1", **more)


def built(template: dict[str, Any], spec: dict[str, Any] | None = None, staged: StagedInputs | None = None) -> Object:
    wanted = replace(launch(template), spec_patch=str((spec or {}).get("podSpecPatch") or ""))
    pod = build_pod(WORKFLOW, spec or {}, wanted, staged)
    assert unknown_fields(pod["spec"], POD_SPEC_SCHEMA) == []
    return pod


def main_of(pod: Object) -> dict[str, Any]:
    return next(c for c in pod["spec"]["containers"] if c["name"] == "main")


def annotation(pod: Object, name: str) -> Any:
    text = pod["metadata"]["annotations"].get(name)
    return None if text is None else json.loads(text)


def test_a_pod_is_labelled_and_owned_as_argo_does() -> None:
    pod = built(CONTAINER)
    assert pod["metadata"] == {
        "name": "wf-t-1",
        "namespace": "team",
        "labels": {"workflows.argoproj.io/workflow": "wf", "workflows.argoproj.io/completed": "false"},
        "annotations": {
            "workflows.argoproj.io/node-id": "wf-1",
            "workflows.argoproj.io/node-name": "wf.a",
            "kubectl.kubernetes.io/default-container": "main",
        },
        "ownerReferences": [
            {
                "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "wf", "uid": "u1",
                "controller": True, "blockOwnerDeletion": True,
            }
        ],
    }  # fmt: skip
    assert pod["spec"]["restartPolicy"] == "Never"
    env = {variable["name"]: variable["value"] for variable in main_of(pod)["env"]}
    assert env["ARGO_NODE_ID"] == "wf-1" and env["ARGO_CONTAINER_NAME"] == "main"


def test_the_template_is_left_as_it_was() -> None:
    template: dict[str, Any] = {"container": dict(IMAGE), "sidecars": [{"name": "s", **IMAGE}]}
    before = json.dumps(template)
    built(template)
    assert json.dumps(template) == before


def test_exit_handlers_are_labelled() -> None:
    pod = build_pod(WORKFLOW, {}, launch(CONTAINER, "wf.onExit[0].b"))
    assert pod["metadata"]["labels"]["workflows.argoproj.io/on-exit"] == "true"


def test_a_script_is_a_file_at_the_end_of_its_command() -> None:
    pod = built({"script": {"image": "python", "command": ["python"], "args": ["-u"], "source": "print(1)"}})
    assert (main_of(pod)["command"], main_of(pod)["args"]) == (["python"], ["-u", "/argo/staging/script"])
    assert pod["metadata"]["annotations"][SCRIPT] == "print(1)"
    assert "source" not in main_of(pod)


@pytest.mark.parametrize("source", [{}, {"source": ""}], ids=["none", "empty"])
def test_a_script_without_a_source_is_its_command_alone(source: dict[str, str]) -> None:
    pod = built({"script": {"image": "i", "args": ["echo", "hello"], **source}})
    assert main_of(pod)["args"] == ["echo", "hello"]


def test_containers_that_a_patch_adds_end_with_the_main_one() -> None:
    patch = "containers: [{name: wait}, {name: main}, {name: guest, image: i, command: [sleep, infinity]}]"
    pod = built({**CONTAINER, "podSpecPatch": patch})
    assert [c["name"] for c in pod["spec"]["containers"]] == ["main", "guest"]
    assert annotation(pod, CONTAINERS_ANNOTATION) == {"leading": ["main"]}


def test_a_long_script_is_a_config_map() -> None:
    long = launch({"script": {"image": "python", "command": ["python"], "source": "#" * 100_000}})
    pod = build_pod(WORKFLOW, {}, long)
    config_map = build_script_config_map(WORKFLOW, long)
    assert config_map is not None
    assert config_map["metadata"]["name"] == pod["spec"]["volumes"][0]["configMap"]["name"] == "wf-t-1"
    assert len(config_map["data"]["script"]) == 100_000
    assert SCRIPT not in pod["metadata"]["annotations"]
    assert build_script_config_map(WORKFLOW, launch(CONTAINER)) is None


@pytest.mark.parametrize(
    ("field", "of_workflow", "of_template", "expected"),
    [
        ("nodeSelector", {"a": "1"}, None, {"a": "1"}),
        ("nodeSelector", {"a": "1"}, {"b": "2"}, {"b": "2"}),
        ("tolerations", [{"key": "a"}], None, [{"key": "a"}]),
        ("affinity", {"nodeAffinity": {}}, None, {"nodeAffinity": {}}),
        ("schedulerName", "s", "t", "t"),
        ("serviceAccountName", "a", None, "a"),
        ("automountServiceAccountToken", True, False, False),
        ("securityContext", {"runAsUser": 1}, {"runAsUser": 2}, {"runAsUser": 2}),
        ("hostAliases", [{"ip": "1.1.1.1"}], [{"ip": "2.2.2.2"}], [{"ip": "1.1.1.1"}, {"ip": "2.2.2.2"}]),
        ("hostNetwork", True, None, True),
        ("dnsPolicy", "Default", None, "Default"),
        ("dnsConfig", {"searches": ["x"]}, None, {"searches": ["x"]}),
        ("imagePullSecrets", [{"name": "p"}], None, [{"name": "p"}]),
        ("activeDeadlineSeconds", 100, None, None),
        ("activeDeadlineSeconds", None, "30", 30),
    ],
)
def test_a_template_says_it_or_else_the_workflow(field: str, of_workflow: Any, of_template: Any, expected: Any) -> None:
    template = {**CONTAINER, **({field: of_template} if of_template is not None else {})}
    assert built(template, {field: of_workflow} if of_workflow is not None else {})["spec"].get(field) == expected


def test_priority_has_two_names() -> None:
    assert built(CONTAINER, {"podPriorityClassName": "p"})["spec"]["priorityClassName"] == "p"
    assert built({**CONTAINER, "priorityClassName": "q"}, {"podPriorityClassName": "p"})["spec"][
        "priorityClassName"
    ] == "q"  # fmt: skip


def test_metadata_of_the_workflow_and_of_the_template_is_added() -> None:
    spec = {"podMetadata": {"labels": {"a": "1", "b": "1"}, "annotations": {"x": "1"}}}
    pod = built({**CONTAINER, "metadata": {"labels": {"b": "2"}}}, spec)
    assert {k: v for k, v in pod["metadata"]["labels"].items() if k in "ab"} == {"a": "1", "b": "2"}
    assert pod["metadata"]["annotations"]["x"] == "1"


def test_volumes_and_claims_of_the_workflow_come_along_when_they_are_mounted() -> None:
    spec = {
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "unused", "emptyDir": {}}],
        "volumeClaimTemplates": [{"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"]}}],
    }
    mounts = [{"name": n, "mountPath": f"/{n}"} for n in ("v", "c", "own")]
    template = {"container": {**IMAGE, "volumeMounts": mounts}, "volumes": [{"name": "own", "emptyDir": {}}]}
    assert built(template, spec)["spec"]["volumes"] == [
        {"name": "own", "emptyDir": {}},
        {"name": "v", "emptyDir": {}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "wf-c"}},
    ]


def test_outputs_are_kept() -> None:
    template = {
        **CONTAINER,
        "outputs": {
            "parameters": [{"name": "p", "valueFrom": {"path": "/tmp/p"}}, {"name": "q", "valueFrom": {}}],
            "artifacts": [{"name": "a", "path": "/out/a/"}, {"name": "b", "path": "/tmp/p"}],
        },
    }  # fmt: skip
    assert annotation(built(template), KEEP_FILES_ANNOTATION) == {"main": ["/tmp/p", "/out/a"]}
    assert annotation(built(CONTAINER), KEEP_FILES_ANNOTATION) is None


def test_sidecars_serve_the_main_container() -> None:
    mounts = [{"name": "v", "mountPath": "/v"}]
    template = {
        "container": {**IMAGE, "volumeMounts": mounts},
        "volumes": [{"name": "v", "emptyDir": {}}],
        "sidecars": [{"name": "s", **IMAGE, "mirrorVolumeMounts": True}],
        "initContainers": [{"name": "i", **IMAGE}],
    }
    pod = built(template)
    assert annotation(pod, CONTAINERS_ANNOTATION) == {"leading": ["main"]}
    assert [c["name"] for c in pod["spec"]["containers"]] == ["main", "s"]
    assert pod["spec"]["containers"][1]["volumeMounts"] == mounts
    assert [c["name"] for c in pod["spec"]["initContainers"]] == ["i"]


def test_a_container_set_has_an_order_and_retries() -> None:
    group = {
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        "retryStrategy": {"retries": "2", "duration": "1m"},
        "containers": [{"name": "a", **IMAGE}, {"name": "b", **IMAGE, "dependencies": ["a"]}],
    }
    pod = built({"containerSet": group, "volumes": [{"name": "v", "emptyDir": {}}]})
    wish = {"leading": ["a", "b"], "after": {"b": ["a"]}, "retries": 2, "retrySeconds": 60.0}
    assert annotation(pod, CONTAINERS_ANNOTATION) == wish
    assert all(c["volumeMounts"] == group["volumeMounts"] for c in pod["spec"]["containers"])
    assert pod["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"] == "b"


def test_input_artifacts_are_mounted_where_they_belong() -> None:
    template = {
        "container": {**IMAGE, "volumeMounts": [{"name": "go", "mountPath": "/go"}]},
        "volumes": [{"name": "go", "emptyDir": {}}],
        "inputs": {
            "artifacts": [
                {"name": "tool", "path": "/bin/tool"}, {"name": "none", "path": "/n", "optional": True},
                {"name": "src", "path": "/go/src"},
            ]
        },
    }  # fmt: skip
    pod = built(template, staged=StagedInputs("/home/inputs", {0, 2}))
    assert main_of(pod)["volumeMounts"][1:] == [{"name": "input-artifacts", "mountPath": "/bin/tool", "subPath": "0"}]
    (init,) = pod["spec"]["initContainers"]
    assert init["command"][-2:] == ["/argo/inputs/artifacts/2", "/mainctrfs/go/src"]
    assert [m["mountPath"] for m in init["volumeMounts"]] == ["/argo/inputs/artifacts", "/mainctrfs/go"]


def test_a_patch_for_containers_of_argos_own_does_no_harm() -> None:
    patch = '{"containers": [{"name": "wait", "resources": {}}], "initContainers": [{"name": "init", "resources": {}}]}'
    pod = built(CONTAINER, {"podSpecPatch": patch})
    assert [c["name"] for c in pod["spec"]["containers"]] == ["main"]
    assert "initContainers" not in pod["spec"]


def test_the_template_has_the_last_word_in_patches() -> None:
    spec = {"podSpecPatch": '{"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": "x"}]}'}
    pod = built({**CONTAINER, "podSpecPatch": "containers: [{name: main, image: y}]"}, spec)
    assert pod["spec"]["terminationGracePeriodSeconds"] == 1
    assert main_of(pod)["image"] == "y"
    assert main_of(pod)["command"] == ["true"]


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ({}, "neither container, script nor containerSet"),
        ({**CONTAINER, "podSpecPatch": "{"}, "Error applying PodSpecPatch"),
        ({**CONTAINER, "podSpecPatch": "text"}, "must be a Pod's spec"),
        ({**CONTAINER, "activeDeadlineSeconds": "soon"}, 'activeDeadlineSeconds: "soon" is not a number'),
        ({"container": {**IMAGE, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}}, "volume 'v' not found"),
        ({**CONTAINER, "outputs": {"artifacts": [{"name": "a", "path": "/"}]}}, "must be absolute and not /"),
        ({**CONTAINER, "outputs": {"artifacts": [{"name": "a", "path": "/a/../b"}]}}, "directory traversal"),
    ],
)
def test_what_cannot_be_is_named(template: dict[str, Any], message: str) -> None:
    with pytest.raises(CannotRun, match=message):
        built(template)
