from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from muster.kube.manifests import parse_values
from muster.kube.schema_validation import validate
from muster.platform.graphs.compile import GraphError, compile_run
from muster.platform.graphs.model import Training
from muster.platform.graphs.templates import find_job_kind
from muster.platform.records.resources import QueueSystem
from muster.platform.resources.kueue import QUEUE_LABEL as KUEUE
from muster.training.registry import JOB_KINDS
from muster.workflows import lint
from muster.workflows.executors.resource_conditions import evaluate_conditions, parse_conditions
from muster.workflows.lang.tags import substitute
from tests.platform.graphs.random_graphs import JOBS
from tests.platform.graphs.samples import CONTEXT, GPU, RUN, graph, node, training

FAILED = {
    "status": {"completionTime": "t", "conditions": [{"type": "Created"}, {"type": "Running"}, {"type": "Failed"}]}
}
DONE = {"status": {"completionTime": "t", "conditions": [{"type": "Created"}, {"type": "Succeeded"}]}}
RUNNING = {"status": {"conditions": [{"type": "Created"}, {"type": "Running"}]}}


def templates(*nodes: dict[str, Any], edges: str = "") -> dict[str, dict[str, Any]]:
    workflow = compile_run(graph(*nodes, edges=edges), RUN, CONTEXT)
    assert lint.find_problems(workflow, submitted=True) == []
    return {template["name"]: template for template in workflow["spec"]["templates"]}


def job_in(template: dict[str, Any], **inputs: str) -> dict[str, Any]:
    """Returns the job as it will be created."""
    scope = {f"inputs.parameters.{name}": value for name, value in inputs.items()}
    text = substitute(template["resource"]["manifest"], {**scope, "workflow.name": "run-1"})
    (job,) = parse_values(text, "manifest")
    found: dict[str, Any] = job
    return found


@pytest.mark.parametrize(("kind", "api", "roles"), JOBS)
def test_every_kind_gets_a_valid_job(kind: str, api: str, roles: list[tuple[str, int]]) -> None:
    made = training("train", kind, *roles)
    if api:
        made["training"]["apiVersion"] = api
    template = templates(made)["train"]
    job = job_in(template)
    job_kind = find_job_kind(Training(kind, api))
    assert job_kind is not None
    named = {**job, "metadata": {**job["metadata"], "name": "train-x"}}
    assert validate(named, job_kind.kind.schema) == []
    assert job_kind.validate(named) == []
    read = job_kind.read(named)
    assert [(role.name, role.replicas) for role in read.roles] == roles
    assert {role.restart for role in read.roles} == {"Never"}
    assert read.policy.scheduling is not None
    assert read.policy.scheduling.min_available == sum(count for _, count in roles)
    assert job["metadata"]["generateName"] == "train-"
    assert template["resource"]["setOwnerReference"] is True


def test_every_dialect_is_a_kind_of_node() -> None:
    for job_kind in JOB_KINDS:
        assert find_job_kind(Training(job_kind.kind.kind, job_kind.kind.api_version)) is job_kind
    for kind in {job_kind.kind.kind for job_kind in JOB_KINDS}:
        assert find_job_kind(Training(kind)) is not None


@pytest.mark.parametrize(
    ("kind", "api", "obj", "outcome"),
    [
        ("PyTorchJob", "", RUNNING, None),
        ("PyTorchJob", "", DONE, ""),
        ("PyTorchJob", "", FAILED, "failure condition"),
        ("MPIJob", "kubeflow.org/v2beta1", FAILED, "failure condition"),
        ("PaddleJob", "batch.paddlepaddle.org/v1", {"status": {"phase": "Running"}}, None),
        ("PaddleJob", "batch.paddlepaddle.org/v1", {"status": {"phase": "Completed"}}, ""),
        ("PaddleJob", "batch.paddlepaddle.org/v1", {"status": {"phase": "Failed"}}, "failure condition"),
    ],
)
def test_a_node_ends_with_its_job(kind: str, api: str, obj: dict[str, Any], outcome: str | None) -> None:
    roles = next(roles for k, a, roles in JOBS if k == kind and a == api)
    made = training("train", kind, *roles)
    made["training"]["apiVersion"] = api
    resource = templates(made)["train"]["resource"]
    found = evaluate_conditions(parse_conditions(resource["successCondition"], resource["failureCondition"]), obj)
    assert found == outcome if not outcome else (found or "").startswith(outcome)


def test_inputs_are_variables_of_every_replica_and_stay_quoted() -> None:
    first = node("a", outputs=[{"name": "lr", "path": "/tmp/lr"}])
    taken = [{"name": "lr", "from": {"node": "a", "output": "lr"}}, {"name": "note", "value": "a: 'b'"}]
    second = training("train", "PyTorchJob", ("Master", 1), ("Worker", 2), inputs=taken, command="echo $(id) $lr")
    nasty = 'x"\n- name: AI_HUB_USER_ID\n  value: root # $(lr) $$'
    job = job_in(templates(first, second, edges="a>train")["train"], lr=nasty, note="a: 'b'")
    for role in job["spec"]["pytorchReplicaSpecs"].values():
        (container,) = role["template"]["spec"]["containers"]
        env = {each["name"]: each.get("value") for each in container["env"]}
        assert env["lr"] == nasty.replace("$", "$$")
        assert env["note"] == "a: 'b'"
        assert env["AI_HUB_USER_ID"] == "u1"
        # Kubernetes would restore an escaped text twice: for Argo's executor, and in the job's Pod.
        assert container["command"] == ["sh", "-c", 'eval "$MUSTER_COMMAND"']
        assert "valueFrom" in next(each for each in container["env"] if each["name"] == "MUSTER_COMMAND")
        assert role["template"]["metadata"]["labels"] == {"muster.dev/task": "train", "muster.dev/run": "r1"}


def test_a_role_may_differ_from_the_node() -> None:
    made = training("train", "TFJob", ("PS", 1), ("Worker", 2), task={"type": "compute", "cluster": "RTX2080x8"})
    made["training"]["roles"][0] |= {"command": "python ps.py", "image": "tf-cpu", "task": {"type": "monitor"}}
    specs = job_in(templates(made)["train"])["spec"]["tfReplicaSpecs"]
    ps, worker = (specs[role]["template"]["spec"] for role in ("PS", "Worker"))
    assert ps["containers"][0]["command"][2] == "python ps.py"
    assert ps["containers"][0]["image"] == "tf-cpu"
    assert ps["containers"][0]["resources"]["limits"] == {"cpu": "100m", "memory": "1000M"}
    assert "nodeSelector" not in ps
    assert worker["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert worker["nodeSelector"] == {"pool": "rtx2080"}
    assert worker["tolerations"] == [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("system", "kind", "api_version", "of_job", "of_pods", "policy", "priority_class"),
    [
        ("volcano", "TFJob", "", False, False, {"minAvailable": 1, "queue": "rtx"}, None),
        ("kueue", "TFJob", "", True, False, {"minAvailable": 1}, None),
        ("kueue", "MPIJob", "kubeflow.org/v2beta1", True, False, {"minAvailable": 1}, None),
        ("kueue", "MPIJob", "kubeflow.org/v1", False, True, {"minAvailable": 1}, None),
        ("quota", "TFJob", "", False, False, {"minAvailable": 1}, "rtx"),
    ],
)
def test_a_job_waits_in_the_queue_of_its_virtual_cluster(
    system: QueueSystem,
    kind: str,
    api_version: str,
    of_job: bool,
    of_pods: bool,
    policy: dict[str, Any],
    priority_class: str | None,
) -> None:
    """Kueue holds back whole jobs of the kinds that it knows, and single Pods of others."""
    role, specs = ("Worker", "tfReplicaSpecs") if kind == "TFJob" else ("Launcher", "mpiReplicaSpecs")
    made = training("t", kind, (role, 1), task={"type": "compute", "cluster": "RTX2080x8"})
    if api_version:
        made["training"]["apiVersion"] = api_version
    context = replace(CONTEXT, clusters={"RTX2080x8": replace(GPU, system=system)})
    workflow = compile_run(graph(made), RUN, context)
    job = job_in(next(each for each in workflow["spec"]["templates"] if each["name"] == "t"))
    pod = job["spec"][specs][role]["template"]
    assert (KUEUE in job["metadata"]["labels"], KUEUE in pod["metadata"]["labels"]) == (of_job, of_pods)
    assert job["spec"]["runPolicy"]["schedulingPolicy"] == policy
    assert pod["spec"].get("priorityClassName") == priority_class


@pytest.mark.parametrize(
    ("claim_class", "replicas", "spec"),
    [
        ("", 2, {"accessModes": ["ReadWriteMany"]}),
        ("nfs", 2, {"accessModes": ["ReadWriteMany"], "storageClassName": "nfs"}),
        ("nfs", 1, {"accessModes": ["ReadWriteMany"], "storageClassName": "nfs"}),
        (None, 1, {"accessModes": ["ReadWriteOnce"]}),
        (None, 2, None),
    ],
)
def test_replicas_share_files_only_where_there_is_storage_for_it(
    claim_class: str | None, replicas: int, spec: dict[str, Any] | None
) -> None:
    model = {"name": "model", "path": "/tmp/workflow_space/model", "type": "file"}
    document = graph(node("a"), training("train", "JAXJob", ("Worker", replicas), outputs=[model]))
    context = replace(CONTEXT, claim_class=claim_class)
    if spec is None:
        with pytest.raises(GraphError, match=r"nodes\[1\].training.*kubernetes.sharedStorageClass"):
            compile_run(document, RUN, context)
        return
    (claim,) = compile_run(document, RUN, context)["spec"]["volumeClaimTemplates"]
    assert claim["spec"] == {"resources": {"requests": {"storage": "10Gi"}}, **spec}


def test_an_mpi_worker_waits_for_the_launcher() -> None:
    specs = job_in(templates(training("t", "MPIJob", ("Launcher", 1), ("Worker", 2), command="mpirun x"))["t"])
    launcher, worker = (specs["spec"]["mpiReplicaSpecs"][r]["template"]["spec"] for r in ("Launcher", "Worker"))
    assert launcher["containers"][0]["command"] == ["sh", "-c", "mpirun x"]
    assert "command" not in worker["containers"][0]


def test_files_are_passed_through_a_volume_of_the_run() -> None:
    data = {"name": "data", "path": "/tmp/data dir", "type": "file"}
    model = {"name": "model", "path": "/tmp/workflow_space/model", "type": "file"}
    document = graph(
        node("prepare", outputs=[data]),
        training("train", "JAXJob", ("Worker", 2), outputs=[model], storage=[{"root": "nfs"}],
                 inputs=[{"name": "d", "from": {"node": "prepare", "output": "data"}}]),
        node("evaluate", inputs=[{"name": "m", "from": {"node": "train", "output": "model"}}]),
        edges="prepare>train train>evaluate",
    )  # fmt: skip
    workflow = compile_run(document, RUN, CONTEXT)
    assert lint.find_problems(workflow, submitted=True) == []
    assert "volumes" not in workflow["spec"]
    assert workflow["spec"]["volumeClaimTemplates"][0]["metadata"] == {"name": "workspace"}
    made = {template["name"]: template for template in workflow["spec"]["templates"]}
    depends = {task["name"]: task.get("depends") for task in made["main"]["dag"]["tasks"]}
    assert depends == {
        "prepare": None,
        "train-inputs": "prepare",
        "train": "train-inputs",
        "train-outputs": "train",
        "evaluate": "train-outputs",
    }
    assert "cp -a '/tmp/data dir' /muster/inputs/d" in made["train-inputs"]["script"]["source"]
    (pod,) = (s["template"]["spec"] for s in job_in(made["train"])["spec"]["jaxReplicaSpecs"].values())
    assert pod["containers"][0]["volumeMounts"] == [
        {"name": "storage-nfs", "mountPath": "/nfs/data"},
        {"name": "workspace", "mountPath": "/tmp/workflow_space", "subPath": "train/space"},
        {"name": "workspace", "mountPath": "/tmp/data dir", "subPath": "train/inputs/d"},
    ]
    assert pod["volumes"][1] == {"name": "workspace", "persistentVolumeClaim": {"claimName": "run-1-workspace"}}
    assert made["train-outputs"]["outputs"]["artifacts"] == [{"name": "model", "path": "/tmp/workflow_space/model"}]
    assert made["evaluate"]["inputs"]["artifacts"][0]["path"] == "/tmp/workflow_space/model"
