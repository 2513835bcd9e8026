"""The contract between a task and its container: templates, outputs, and what Kubernetes is asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.kube.cluster import PIP_INSTALL_ANNOTATION
from muster.pipelines.executor import location_of_uri, pip_commands, read_outputs, staged_inputs, template_of
from muster.pipelines.kubernetes_settings import pod_settings, resources_of
from muster.pipelines.model import (
    Accelerator,
    ArtifactType,
    Component,
    ContainerSpec,
    EnvVar,
    InputDefinitions,
    InputParameter,
    OutputArtifact,
    OutputDefinitions,
    OutputParameter,
    Resources,
    TaskConfigPassthrough,
)
from muster.pipelines.task import Artifact, RunInfo, TaskFailed, TaskInputs, TaskLaunch, local_path

CONFORMANCE = Path(__file__).parents[3] / "shared/conformance/kfp/valid"
ROOT = "minio://mlpipeline/v2/artifacts/demo/run-1/train/demo-abc-123"
FOLDER = "/minio/mlpipeline/v2/artifacts/demo/run-1/train/demo-abc-123"
MODEL = Artifact("model", f"{ROOT}/model", ArtifactType("system.Model"), {"framework": "x"})


def launch(**more: Any) -> TaskLaunch:
    parameters = more.pop("outputs", {"out": "STRING"})
    settings = more.pop("platform", {})
    definitions = OutputDefinitions(
        {name: OutputParameter(kind) for name, kind in parameters.items()}, {"model": OutputArtifact()}
    )
    return TaskLaunch(
        run=RunInfo("run-1", "my run", "demo-abc", "team", "demo", "minio://mlpipeline/v2/artifacts"),
        task_name="train",
        task_id="demo-abc-123",
        component_name="comp-train",
        component=Component(output_definitions=definitions),
        container=ContainerSpec(image="python:3.11", command=("train",)),
        inputs=TaskInputs(),
        task_root=ROOT,
        platform=settings,
        output_artifacts={"model": (MODEL,)},
        **more,
    )


def left(files: dict[str, str] | None = None, output: Any = None, *, stored: bool = True) -> Any:
    """What the Pod executor collects of a Pod that wrote these files and this output file."""
    found = template_of(launch())["outputs"]
    missing = found["parameters"][0]["valueFrom"]["default"]
    values = {"kfp-output-file": missing if output is None else json.dumps(output), **(files or {})}
    artifacts = [{"name": "kfp-task-root", "s3": {"key": "demo-abc/demo-abc-123"}}] if stored else []
    return {"parameters": [{"name": n, "value": v} for n, v in values.items()], "artifacts": artifacts}


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("STRING", "a b", "a b"),
        ("STRING", "", ""),
        ("STRING", "1", "1"),
        ("NUMBER_INTEGER", "3", 3),
        ("NUMBER_INTEGER", "3.0", 3),
        ("NUMBER_DOUBLE", "2.5", 2.5),
        ("NUMBER_DOUBLE", "2", 2),
        ("BOOLEAN", "true", True),
        ("BOOLEAN", "False", False),
        ("LIST", '[1, "x"]', [1, "x"]),
        ("STRUCT", '{"a": {"b": null}}', {"a": {"b": None}}),
    ],
)
def test_the_file_of_a_parameter_is_parsed_by_type(kind: str, text: str, value: Any) -> None:
    found = read_outputs(launch(outputs={"out": kind}), left({"out": text})).parameters
    assert found == {"out": value} and type(found["out"]) is type(value)


@pytest.mark.parametrize(
    ("kind", "text"), [("NUMBER_INTEGER", "x"), ("NUMBER_INTEGER", "1.5"), ("LIST", "{}"), ("BOOLEAN", "yes")]
)
def test_a_file_of_another_type_fails_the_task(kind: str, text: str) -> None:
    with pytest.raises(TaskFailed, match='output parameter "out"'):
        read_outputs(launch(outputs={"out": kind}), left({"out": text}))


def test_the_output_file_wins_over_the_files_of_parameters() -> None:
    written = {"parameterValues": {"out": "from the output file"}}
    assert read_outputs(launch(), left({"out": "from its file"}, written)).parameters == {"out": "from the output file"}


def test_a_parameter_in_neither_fails_the_task() -> None:
    missing = template_of(launch())["outputs"]["parameters"][1]["valueFrom"]["default"]
    for files in ({}, {"out": missing}):
        with pytest.raises(TaskFailed, match=r'did not write its output parameter "out".*/tmp/kfp/outputs/out'):
            read_outputs(launch(), left(files, {"parameterValues": {"other": 1}}))


@pytest.mark.parametrize("output", ["[]", '"x"', "1"])
def test_an_output_file_of_another_form_says_nothing(output: str) -> None:
    assert read_outputs(launch(outputs={}), left({"kfp-output-file": output})).parameters == {}


def test_an_output_file_that_is_not_json_fails_the_task() -> None:
    with pytest.raises(TaskFailed, match="not JSON"):
        read_outputs(launch(outputs={}), left({"kfp-output-file": "{"}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (r'{"parameterValues": {"out": "\ud800"}}', "half of a character"),
        (r'{"artifacts": {"model": {"artifacts": [{"metadata": {"\udfff": 1}}]}}}', "half of a character"),
        (r'{"artifacts": {"model": {"artifacts": [{"uri": "\u0000"}]}}}', "NUL"),
        ('{"parameterValues": {"out": ' + "[" * 300 + "]" * 300 + "}}", "nested more than 200 levels"),
        ('{"parameterValues": {"out": 1' + "0" * 400 + "}}", "too large"),
    ],
)
def test_outputs_that_nothing_can_store_fail_the_task(text: str, message: str) -> None:
    with pytest.raises(TaskFailed, match=message):
        read_outputs(launch(), left({"kfp-output-file": text}))


def test_an_integer_of_more_than_64_bits_is_a_double_as_in_kubeflow() -> None:
    found = read_outputs(launch(outputs={"out": "NUMBER_INTEGER"}), left({"out": str(10**30)})).parameters
    assert found == {"out": 1e30} and isinstance(found["out"], float)


def artifact_after(written: dict[str, Any] | None, **more: Any) -> Artifact:
    output = {"artifacts": {"model": {"artifacts": [written]}}} if written is not None else {}
    return read_outputs(launch(outputs={}), left({}, output, **more)).artifacts["model"][0]


@pytest.mark.parametrize(
    ("written", "uri", "key"),
    [
        (None, f"{ROOT}/model", "model"),
        ({"uri": f"{ROOT}/model"}, f"{ROOT}/model", "model"),
        ({"uri": f"{ROOT}/best.bin"}, f"{ROOT}/best.bin", "best.bin"),  # dsl.get_uri("best.bin")
        ({"uri": f"{ROOT}/a/b"}, f"{ROOT}/a/b", "a/b"),
        ({"custom_path": f"{FOLDER}/mine"}, f"{ROOT}/model", "mine"),
        ({"uri": "gs://elsewhere/model"}, "gs://elsewhere/model", None),
        ({"uri": f"{ROOT}/../../other"}, f"{ROOT}/../../other", None),
    ],
)
def test_where_the_bytes_of_an_artifact_are(written: dict[str, Any] | None, uri: str, key: str | None) -> None:
    found = artifact_after(written)
    assert found.uri == uri
    expected = {"s3": {"key": f"demo-abc/demo-abc-123/{key}"}, "archive": {"none": {}}} if key else {}
    assert found.location == expected


def test_an_artifact_gets_the_metadata_that_was_written() -> None:
    found = artifact_after({"uri": f"{ROOT}/model", "metadata": {"accuracy": 0.9}})
    assert found.metadata == {"framework": "x", "accuracy": 0.9}
    assert found.type.schema_title == "system.Model"


def test_a_component_that_writes_no_artifact_succeeds() -> None:
    assert artifact_after(None, stored=False).location == {}


@pytest.mark.parametrize(("copied", "key"), [("/data/x\n/data/y", "model"), ("/data/y", None), ("", None)])
def test_a_custom_path_elsewhere_is_copied_to_where_the_uri_says(copied: str, key: str | None) -> None:
    declared = template_of(launch())["outputs"]["parameters"][-1]
    assert declared["valueFrom"]["path"] == f"{FOLDER}/output_metadata.json#custom_path"
    output = {"artifacts": {"model": {"artifacts": [{"custom_path": "/data//x"}]}}}
    [found] = read_outputs(launch(outputs={}), left({declared["name"]: copied}, output)).artifacts["model"]
    expected = {"s3": {"key": f"demo-abc/demo-abc-123/{key}"}, "archive": {"none": {}}} if key else {}
    assert (found.location, found.uri) == (expected, f"{ROOT}/model")


def test_a_custom_path_elsewhere_in_an_image_fails_the_task() -> None:
    with pytest.raises(TaskFailed, match="custom_path /data/x cannot be read from the image engine"):
        artifact_after({"custom_path": "/data/x"})


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("gs://b/k", "/gcs/b/k"),
        ("s3://b/k", "/s3/b/k"),
        ("minio://b/k", "/minio/b/k"),
        ("oci://registry/a/b:1", "/oci/registry_a_b:1/models"),
        ("/data/x", "/data/x"),
        ("https://example.org/x", "https://example.org/x"),
    ],
)
def test_the_path_of_a_uri(uri: str, path: str) -> None:
    assert local_path(uri) == path


@pytest.mark.parametrize(
    ("uri", "location"),
    [
        (f"{ROOT}/model", {"s3": {"key": "demo-abc/demo-abc-123/model"}}),
        (f"{ROOT}/a/b", {"s3": {"key": "demo-abc/demo-abc-123/a/b"}}),
        ("minio://mlpipeline/other", None),
        ("gs://public/data.csv", {"http": {"url": "https://storage.googleapis.com/public/data.csv"}}),
        ("s3://public/data.csv", {"http": {"url": "https://public.s3.amazonaws.com/data.csv"}}),
        ("s3://bucket", None),
        ("https://example.org/x", None),
        ("/data/x", None),
    ],
)
def test_where_an_imported_artifact_is(uri: str, location: dict[str, Any] | None) -> None:
    assert location_of_uri(uri) == ({**location, "archive": {"none": {}}} if location else {})


def test_inputs_are_staged_once_and_outer_folders_first() -> None:
    inner, outer = (
        Artifact("x", f"{ROOT}/{name}", location={"s3": {"key": name}, "archive": {"none": {}}})
        for name in ("a/b", "a")
    )
    abroad = Artifact("y", "https://example.org/x")
    there = Artifact("z", "s3://b/k", metadata={"_kfp_workspace": True})
    inputs = TaskInputs({}, {"one": (inner, outer), "two": (outer,), "three": (abroad, there)})
    assert [(each["name"], each["path"]) for each in staged_inputs(replace(launch(), inputs=inputs))] == [
        ("one-1", f"{FOLDER}/a"),
        ("one-0", f"{FOLDER}/a/b"),
    ]


def test_folders_of_outputs_are_there_and_outputs_are_not() -> None:
    template = template_of(launch())
    mounts = {mount["mountPath"]: mount["name"] for mount in template["container"]["volumeMounts"]}
    assert set(mounts) == {FOLDER, "/tmp/kfp/outputs"}
    assert {volume["name"] for volume in template["volumes"] if volume["emptyDir"] == {}} == set(mounts.values())
    assert [each["path"] for each in template["outputs"]["artifacts"]] == [FOLDER]
    assert template["archiveLocation"] == {"archiveLogs": True}


def test_values_are_not_expanded_by_kubernetes() -> None:
    task = replace(
        launch(),
        container=ContainerSpec(image="x", command=("echo", "$(HOME)", "{{$.inputs.parameters['p']}}")),
        inputs=TaskInputs({"p": "$(HOME)"}),
    )
    component = replace(task.component, input_definitions=InputDefinitions({"p": InputParameter("STRING")}))
    assert template_of(replace(task, component=component))["container"]["command"] == ["echo", "$(HOME)", "$$(HOME)"]


@pytest.mark.parametrize("root", ["file:///x", "oci://registry/x", "https://example.org"])
def test_roots_that_have_no_path(root: str) -> None:
    with pytest.raises(TaskFailed, match="pipeline root"):
        template_of(replace(launch(), task_root=f"{root}/task"))


BOOTSTRAP = """
if ! [ -x "$(command -v pip)" ]; then
    python3 -m ensurepip || python3 -m ensurepip --user || apt-get install python3-pip
fi

PIP_DISABLE_PIP_VERSION_CHECK=1 %s && "$0" "$@"
"""
KFP = """python3 -m pip install --quiet --no-deps 'kfp==2.14.3' 'a>=3,<5; python_version<"3.9"'"""
KFP_WORDS = ["--quiet", "--no-deps", "kfp==2.14.3", 'a>=3,<5; python_version<"3.9"']


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (BOOTSTRAP % KFP, [KFP_WORDS]),
        (BOOTSTRAP % f"python3 -m pip install 'pandas==2.2.0'  &&  {KFP}", [["pandas==2.2.0"], KFP_WORDS]),
        ("(PIP_X=1 python3 -m pip install 'a' || PIP_X=1 python3 -m pip install 'a' --user) && \"$0\" \"$@\"", [["a"]]),
        ("python3 -m pip install $PACKAGE && run", []),
        ("python3 -m pip install `cat list` && run", []),
        ('python3 -m venv x; . x/bin/activate; python3 -m pip install a && "$0"', []),
        ("python3 -m pip install 'a", []),
        ("echo hello", []),
        ("echo 'python3 -m pip install a'", []),
    ],
)
def test_what_a_component_installs(script: str, expected: list[list[str]]) -> None:
    assert pip_commands(["sh", "-c", script, "sh", "-ec", "run"]) == expected
    assert pip_commands(["echo", "-c", script]) == []


@pytest.mark.skipif(not CONFORMANCE.is_dir(), reason="the conformance files are not here")
def test_what_every_component_of_the_conformance_files_installs_is_found() -> None:
    """A bootstrap that is not understood costs a second and a half in every task."""
    commands = [
        [*executor["container"].get("command", ()), *executor["container"].get("args", ())]
        for path in CONFORMANCE.rglob("*.yaml")
        if "-m pip install" in (text := path.read_text())
        for document in yaml.load_all(text, yaml.CSafeLoader)
        for executor in ((document or {}).get("deploymentSpec") or {}).get("executors", {}).values()
        if "container" in executor
    ]
    scripts = [command for command in commands if any("-m pip install" in word for word in command[:3])]
    missed = [command[2] for command in scripts if not pip_commands(command) and "-m venv" not in command[2]]
    assert len(scripts) > 100 and missed == []


def test_the_pod_names_what_it_installs() -> None:
    task = replace(launch(), container=ContainerSpec(image="x", command=("sh", "-c", BOOTSTRAP % KFP)))
    assert json.loads(template_of(task)["metadata"]["annotations"][PIP_INSTALL_ANNOTATION]) == [KFP_WORDS]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (Resources(), {}),
        (Resources(cpu_limit=2, memory_limit=1.5), {"limits": {"cpu": "2", "memory": "1.5G"}}),
        (Resources(cpu_limit=2, resource_cpu_limit="500m"), {"limits": {"cpu": "500m"}}),
        (Resources(resource_memory_request="1Gi"), {"requests": {"memory": "1Gi"}}),
        (
            Resources(accelerator=Accelerator("nvidia.com/gpu", 1, "{{type}}", "2")),
            {"limits": {"resolved": "2"}},
        ),
        (Resources(accelerator=Accelerator("nvidia.com/gpu", 1)), {"limits": {"nvidia.com/gpu": "1"}}),
        (Resources(accelerator=Accelerator("nvidia.com/gpu", 0)), {}),
    ],
)
def test_resources(resources: Resources, expected: dict[str, Any]) -> None:
    assert resources_of(resources, lambda text: "resolved" if text == "{{type}}" else text) == expected


TO_ENV = {"secretKey": "k", "configMapKey": "k", "envVar": "E"}


@pytest.mark.parametrize(
    ("platform", "expected"),
    [
        (
            {"secretAsEnv": [{"secretNameParameter": {"constant": "s"}, "keyToEnv": [TO_ENV]}]},
            {"env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
        ),
        (
            {"configMapAsEnv": [{"configMapName": "c", "keyToEnv": [TO_ENV], "optional": True}]},
            {"env": [{"name": "E", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": True}}}]},
        ),
        (
            {"secretAsVolume": [{"secretName": "s", "mountPath": "/s"}]},
            {
                "volumes": [{"name": "secret-0", "secret": {"secretName": "s"}}],
                "volumeMounts": [{"name": "secret-0", "mountPath": "/s"}],
            },
        ),
        (
            {
                "pvcMount": [
                    {"pvcNameParameter": {"constant": "c"}, "mountPath": "/a"},
                    {"constant": "c", "mountPath": "/b", "subPath": "x"},
                ]
            },
            {
                "volumes": [{"name": "claim-0", "persistentVolumeClaim": {"claimName": "c"}}],
                "volumeMounts": [
                    {"name": "claim-0", "mountPath": "/a"},
                    {"name": "claim-0", "mountPath": "/b", "subPath": "x"},
                ],
            },
        ),
        (
            {"emptyDirMounts": [{"volumeName": "v", "mountPath": "/v", "medium": "Memory", "sizeLimit": "1Gi"}]},
            {"volumes": [{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]},
        ),
        ({"nodeSelector": {"labels": {"a": "b"}}}, {"nodeSelector": {"a": "b"}}),
        ({"nodeSelector": {"nodeSelectorJson": {"constant": {"a": "b"}}}}, {"nodeSelector": {"a": "b"}}),
        (
            {"tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": "5"}]},
            {"tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}]},
        ),
        (
            {"tolerations": [{"tolerationJson": {"constant": [{"key": "k"}, {"key": "l"}]}}]},
            {"tolerations": [{"key": "k"}, {"key": "l"}]},
        ),
        (
            {"nodeAffinity": [{"matchExpressions": [{"key": "a", "operator": "Exists"}], "weight": 5}]},
            {
                "affinity": {
                    "nodeAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 5, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
                        ]
                    }
                }
            },
        ),
        ({"podMetadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}, {"labels": {"a": "b"}}),
        ({"imagePullSecret": [{"secretName": "s"}]}, {"image_pull_secrets": [{"name": "s"}]}),
        ({"imagePullPolicy": "Always"}, {"image_pull_policy": "Always"}),
        (
            {"fieldPathAsEnv": [{"name": "N", "fieldPath": "metadata.name"}]},
            {"env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
        ),
        ({"activeDeadlineSeconds": "60"}, {"active_deadline_seconds": 60}),
        ({"securityContext": {"runAsUser": "1000"}}, {"security_context": {"runAsUser": 1000}}),
        (
            {"enabledSharedMemory": {"size": "1Gi"}},
            {"volumeMounts": [{"name": "shared-memory", "mountPath": "/dev/shm"}]},
        ),
    ],
)  # fmt: skip
def test_kubernetes_settings(platform: dict[str, Any], expected: dict[str, Any]) -> None:
    found = pod_settings(launch(platform=platform))
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("platform", "message"),
    [
        ({"hostNetwork": True}, '"hostNetwork" of the task is not supported'),
        ({"securityContext": {"privileged": True}}, '"securityContext.privileged"'),
        ({"secretAsVolume": [{"secretName": "s", "mountPath": "x"}]}, "absolute path"),
        ({"secretAsVolume": [{"mountPath": "/x"}]}, "secretName of a Kubernetes setting has no value"),
        ({"pvcMount": [{"mountPath": "/x"}]}, "mounted at /x has no name"),
        ({"podMetadata": "x"}, '"podMetadata" of the task does not have the form'),
        ({"tolerations": [5]}, '"tolerations" of the task does not have the form'),
        ({"activeDeadlineSeconds": float("inf")}, '"activeDeadlineSeconds" of the task does not have the form'),
    ],
)
def test_settings_that_cannot_be_honoured_are_refused_by_name(platform: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskFailed, match=message):
        pod_settings(launch(platform=platform))


def test_the_workspace_is_mounted_where_it_is_named() -> None:
    task = replace(launch(), run=replace(launch().run, workspace_claim="demo-workspace"))
    assert "/kfp-workspace" not in [m["mountPath"] for m in pod_settings(task).volumeMounts]
    named = replace(task, inputs=TaskInputs({"p": {"path": "{{$.workspace_path}}/x"}}))
    assert [m["mountPath"] for m in pod_settings(named).volumeMounts] == ["/kfp-workspace"]
    shown = replace(named, container=ContainerSpec(image="x", command=("{{$}}",)))
    assert '"path": "/kfp-workspace/x"' in template_of(shown)["container"]["command"][0]


def test_a_task_config_is_passed_to_the_component_instead_of_the_pod() -> None:
    definitions = InputDefinitions({"config": InputParameter("TASK_CONFIG")})
    passed = (TaskConfigPassthrough("RESOURCES"), TaskConfigPassthrough("ENV", apply_to_task=True))
    task = replace(
        launch(),
        component=replace(launch().component, input_definitions=definitions, task_config_passthroughs=passed),
        container=ContainerSpec(
            image="x",
            command=("{{$.inputs.parameters['config']}}",),
            resources=Resources(resource_cpu_limit="1"),
            env=(EnvVar("A", "b"),),
        ),
    )
    container = template_of(task)["container"]
    assert json.loads(container["command"][0]) == {
        "resources": {"limits": {"cpu": "1"}},
        "env": [{"name": "A", "value": "b"}],
    }
    assert "resources" not in container and container["env"] == [{"name": "A", "value": "b"}]
