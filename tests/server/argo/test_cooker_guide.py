"""The commands of MLP Cooker's guide to its Argo templates, as it prints them, in a shell with the real kubectl, argo
and curl. Its files are ours of the same purpose; `argo` in the table below is `argo -n argo`.

| command of the guide | test, or why there is none |
| --- | --- |
| kubectl create namespace argo | `guide`, which all tests use |
| kubectl apply -n argo -f .../install.yaml | the cluster has Argo's kinds, controller and API, but no Deployments; `argo_server` applies examples/cooker/argo-server.yaml instead |
| kubectl apply -f argo/argo-server-rbac.yaml | `test_argo_server_and_its_services`; nothing needs these rights here |
| kubectl get pods, svc -n argo | `test_argo_server_and_its_services`; the workflow controller is part of the server, and no Pod |
| kubectl port-forward -n argo svc/argo-server 2746:2746 | `test_argo_server_and_its_services`; it serves the API. The web UI is that of the platform |
| kubectl get svc argo-server-ui -n argo | `test_argo_server_and_its_services`; EXTERNAL-IP stays pending, as on other machines without a load balancer |
| kubectl create configmap mlp-cooker-config | `test_the_backend_needs_no_deployment` |
| kubectl apply -f k8s/mlp-cooker-backend-deployment.yaml | `test_the_backend_needs_no_deployment`: refused by kind; the Service exists already |
| kubectl apply -f argo/training-job-*.yaml | `guide` |
| argo submit argo/examples/*.yaml | `test_the_examples`; with the real frameworks in tests/frameworks/test_cooker.py |
| argo submit --from ... --parameter task-params='...' | `test_a_job_by_parameters` |
| cp ... my-config.json; vi; argo submit --parameter-file | `test_a_job_by_a_parameter_file`, with sed for vi |
| argo list, get, logs with @latest and with a name | `test_a_job_by_parameters` |
| argo delete, resubmit | `test_a_job_by_parameters` |
| argo stop | `test_a_job_by_a_parameter_file`; its training job ends, too: `test_stopping_the_workflow_stops_its_job` |
| argo submit --from workflowtemplate/aihc-training-job | `test_the_complete_flow`; `test_the_whole_guide_on_aihc` for PyTorchJob and TensorFlowJob |
| CreateJob(resourcePoolId=, queueID=, body=) in Python | no published SDK has this signature; Baidu's own is used by the template |
| workflows in stages, with a condition, in parallel | `test_steps_may_leave_out_parameters` |
| kubectl get configmap aihc-config -n argo -o yaml | `test_the_complete_flow` |
| curl http://localhost:5002/api/resources/pools, queues | `test_curl_as_printed` |
| kubectl create configmap aihc-config -n argo ... | `test_the_complete_flow` |

The tests that are not here are in test_cooker_templates.py.
"""  # noqa: E501 (a table)

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.cli.commands import PATIENCE, Muster
from tests.dispatch.aihc_server import AK, SERVERLESS, SK, AihcServer
from tests.http_server import reserve_port
from tests.server.argo.test_argo_command import ARGO, CACHE

BUILT = CACHE / "cluster/kubernetes-v1.35.4/bin/kubectl"
KUBECTL = os.environ.get("MUSTER_TEST_KUBECTL") or (str(BUILT) if BUILT.exists() else shutil.which("kubectl") or "")
pytestmark = [
    pytest.mark.skipif(not ARGO, reason="there is no argo: python -m tools.argo_cli builds one (with Go)"),
    pytest.mark.skipif(not KUBECTL, reason="there is no kubectl: install one, or name it in MUSTER_TEST_KUBECTL"),
]

SOURCE = Path(__file__).parents[3]
SETTINGS = """
    cooker:
      port: {port}
      datasources: {{"pfs:*": {{storageRoot: shared}}, "bos:my-bucket": {{storageRoot: shared, path: bucket}}}}
    images:
      "python:*": {{path: [{programs}]}}   # the Python of these tests has Baidu's SDK
      "muster-examples/*": {{path: [{folder}/bin, {programs}], workingDir: {folder}}}
      "registry.baidubce.com/*": {{path: [{folder}/bin, {programs}], workingDir: {folder}}}
"""


class Guide:
    """A shell in the folder of the guide."""

    def __init__(self, muster: Muster) -> None:
        self.muster = muster
        self.folder = muster.folder
        told = muster("env").ok().out
        settings = dict(line.removeprefix("export ").replace("'", "").split("=", 1) for line in told.splitlines())
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        self.settings = {**settings, "PATH": path, "HOME": str(self.folder)}
        self.token = muster("tokens", "create", "guide").ok().out.split()[-1]

    def __call__(self, script: str, variables: Mapping[str, str] | None = None, *, fine: bool = True) -> str:
        """Runs commands and returns what they print, without colours; after a failure, errors, too."""
        done = subprocess.run(
            ["bash", "-ec", dedent(script)], cwd=self.folder, env={**self.settings, **(variables or {})},
            capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert (done.returncode == 0) is fine, (script, done.stdout, done.stderr)
        return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout if fine else done.stdout + done.stderr)

    def file(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(dedent(text))

    def latest(self) -> str:
        name: str = json.loads(self("argo get -n argo @latest -o json"))["metadata"]["name"]
        return name

    def response(self, name: str) -> Any:
        """What the backend has answered to the step of a workflow."""
        nodes = json.loads(self(f"argo get -n argo {name} -o json"))["status"]["nodes"].values()
        (found,) = (each["value"] for node in nodes if node["type"] == "Pod"
                    for each in node["outputs"]["parameters"] if each["name"] == "response")  # fmt: skip
        return json.loads(found)


@pytest.fixture(scope="module")
def guide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guide]:
    """After the templates were applied."""
    folder = tmp_path_factory.mktemp("guide") / "mlp-cooker"
    muster = Muster(folder / "home", folder)
    for each in ("home", "bin", "pfs/bucket/datasets"):
        (folder / each).mkdir(parents=True)
    port = reserve_port()
    programs = Path(sys.executable).parent
    muster.file("home/config.yaml", SETTINGS.format(port=port, programs=programs, folder=folder))
    (folder / "bin/argo").symlink_to(ARGO)
    (folder / "bin/kubectl").symlink_to(KUBECTL)
    muster.file("bin/torchrun", '#!/bin/sh\nls -d /data /workspace 2>&1; echo "torchrun $*"\n')
    (folder / "bin/torchrun").chmod(0o755)
    muster.file("train.py", 'import sys\nprint("trained", *sys.argv[1:])\n')
    muster("up", "-d").ok()
    try:
        guide = Guide(muster)
        _prepare(guide, port)
        yield guide
    finally:
        muster("down").ok()


def _prepare(guide: Guide, port: int) -> None:
    # The token for localhost, so that the lines with curl need no edit; and the port, which others may use, too.
    guide.file(".netrc", f"machine localhost login token password {guide.token}\n")
    guide.file(".curlrc", f'netrc-optional\nsilent\nconnect-to = "localhost:5002:127.0.0.1:{port}"\n')
    guide.muster("storage", "create", "shared", "/mnt/shared", "--host-path", str(guide.folder / "pfs")).ok()
    bundled = SOURCE / "src/muster/workflows/bundled/mlp-cooker"
    for name, of in (("via-api", "mlp-cooker"), ("template-cn", "aihc"), ("template", "aihc")):
        text = (bundled / f"{of}-training-job.yaml").read_text()
        guide.file(f"argo/training-job-{name}.yaml", text.replace("metadata:\n", "metadata:\n  namespace: argo\n", 1))
    for name in ("pytorch", "tensorflow", "deepspeed"):
        guide.file(f"argo/examples/{name}-training-example.yaml", (SOURCE / f"examples/cooker/{name}.yaml").read_text())
    shutil.copy(SOURCE / "examples/cooker/params.json", guide.folder / "argo/examples/config-example.json")
    guide("kubectl create namespace argo")
    guide("""
        # 提交模板（推荐使用via-api版本）
        kubectl apply -f argo/training-job-via-api.yaml

        # 或者提交直接调用版本
        kubectl apply -f argo/training-job-template-cn.yaml
    """)
    guide(f"kubectl create secret generic mlp-cooker-credentials -n argo --from-literal=token={guide.token}")


RBAC = """
    apiVersion: v1
    kind: ServiceAccount
    metadata: {name: argo-server, namespace: argo}
    ---
    apiVersion: rbac.authorization.k8s.io/v1
    kind: Role
    metadata: {name: argo-server, namespace: argo}
    rules:
    - {apiGroups: [""], resources: [pods, pods/exec, pods/log], verbs: [get, list, watch, delete]}
    - {apiGroups: [argoproj.io], resources: [workflows, workflows/finalizers, workflowtasksets], verbs: [create]}
    ---
    apiVersion: rbac.authorization.k8s.io/v1
    kind: RoleBinding
    metadata: {name: argo-server, namespace: argo}
    roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: argo-server}
    subjects: [{kind: ServiceAccount, name: argo-server, namespace: argo}]
    ---
    apiVersion: v1
    kind: Service
    metadata: {name: argo-server-ui, namespace: argo}
    spec:
      type: LoadBalancer
      ports: [{name: ui, port: 2746, targetPort: 2746}]
      selector: {app: argo-server}
"""


@pytest.fixture
def argo_server(guide: Guide) -> Iterator[None]:
    """In the place of Argo's install.yaml. Pods outlive the server, so it is deleted."""
    manifest = SOURCE / "examples/cooker/argo-server.yaml"
    guide(f"kubectl apply -n argo -f {manifest}")
    guide("kubectl wait -n argo --for=condition=Ready pod/argo-server --timeout=50s")
    yield
    guide(f"kubectl delete -n argo --now -f {manifest}")


@pytest.fixture
def forwarded(guide: Guide, argo_server: None) -> Iterator[str]:
    """The address of `kubectl port-forward`."""
    version = json.loads(guide("kubectl version --client -o json"))["clientVersion"]
    if int(re.sub(r"\D.*", "", version["minor"])) < 31:
        pytest.skip("this kubectl forwards ports over SPDY only")
    command = "kubectl port-forward -n argo svc/argo-server 2746:2746"
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", 2746)) == 0:  # another program of this machine has it
            command = command.replace("2746:2746", ":2746")
    forwarding = subprocess.Popen(
        command.split(), executable=KUBECTL, env=guide.settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
    try:
        assert forwarding.stdout is not None
        said = forwarding.stdout.readline()
        found = re.search(r"127\.0\.0\.1:(\d+) -> 2746", said)
        assert found is not None, said
        yield f"localhost:{found[1]}"
    finally:
        forwarding.terminate()
        forwarding.communicate()


def test_argo_server_and_its_services(guide: Guide, forwarded: str) -> None:
    guide.file("argo/argo-server-rbac.yaml", RBAC)
    guide("kubectl apply -f argo/argo-server-rbac.yaml")
    assert re.search(r"argo-server\s+1/1\s+Running", guide("kubectl get pods -n argo"))
    assert re.search(r"argo-server\s+ClusterIP\s.*2746/TCP", guide("kubectl get svc -n argo"))
    assert re.search(r"argo-server-ui\s+LoadBalancer\s.*2746", guide("kubectl get svc argo-server-ui -n argo"))

    there = {"ARGO_SERVER": forwarded, "ARGO_SECURE": "false"}
    assert "No workflows found" in guide("argo list -n argo -l none=such", there)
    assert re.search(r"argo-server: v\d", guide("argo version", there))
    templates = f"curl --no-netrc http://{forwarded}/api/v1/workflow-templates/argo"
    assert json.loads(guide(templates))["code"] == 16, "it wants a token"
    listed = json.loads(guide(f'{templates} -H "Authorization: $ARGO_TOKEN"'))
    names = {each["metadata"]["name"] for each in listed["items"]}
    assert names >= {"mlp-cooker-training-job", "aihc-training-job"}


DEPLOYMENT = """
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: mlp-cooker-backend}
    spec:
      selector: {matchLabels: {app: mlp-cooker-backend}}
      template:
        metadata: {labels: {app: mlp-cooker-backend}}
        spec: {containers: [{name: backend, image: mlp-cooker-backend}]}
"""


def test_the_backend_needs_no_deployment(guide: Guide) -> None:
    guide.file("../config.yaml", "ML_PLATFORM_RESOURCE_POOL_ID: your-pool-id\n")
    guide("""
        kubectl create configmap mlp-cooker-config \\
          --from-file=config.yaml=../config.yaml
    """)
    guide.file("k8s/mlp-cooker-backend-deployment.yaml", DEPLOYMENT)
    refused = guide("kubectl apply -f k8s/mlp-cooker-backend-deployment.yaml", fine=False)
    assert 'no matches for kind "Deployment"' in refused
    assert "5002/TCP" in guide("kubectl get svc -n kube-system mlp-cooker-backend")


def test_the_examples(guide: Guide) -> None:
    guide("""
        # PyTorch训练任务
        argo submit -n argo argo/examples/pytorch-training-example.yaml

        # TensorFlow训练任务
        argo submit -n argo argo/examples/tensorflow-training-example.yaml

        # DeepSpeed大模型训练
        argo submit -n argo argo/examples/deepspeed-training-example.yaml
    """)
    names = re.findall(r"(?:pytorch|tensorflow|deepspeed)-training-\w+", guide("argo list -n argo -o name"))
    assert len(names) == 3
    guide(f"argo wait -n argo {' '.join(names)}")
    for name in names:
        assert re.search(r"\| (trained|torchrun --nnodes=2)", guide(f"argo logs -n argo {name}"))


SUBMIT = """
    argo submit -n argo --from workflowtemplate/mlp-cooker-training-job \\
      --parameter mlp-cooker-api="http://mlp-cooker-backend:5002" \\
      --parameter task-params='{"name":"my-job","jobType":"PyTorchJob","command":"python train.py","jobSpec":{"replicas":1,"image":"registry.baidubce.com/aihc-aiak/pytorch:latest","resources":[],"envs":[],"enableRDMA":true}}'
"""  # noqa: E501 (as it is printed)


def test_a_job_by_parameters(guide: Guide) -> None:
    guide(SUBMIT)
    name = guide.latest()
    guide(f"argo wait -n argo {name}")
    assert guide.response(name)["data"]["jobName"] == "my-job"
    assert re.search(rf"{name}\s+Succeeded", guide("argo list -n argo"))
    for each in ("@latest", name):
        assert re.search(rf"Name:\s+{name}", guide(f"argo get -n argo {each}"))
        assert "(my-job)" in guide(f"argo logs -n argo {each}")
    guide(f"argo resubmit -n argo {name}")
    again = guide.latest()
    guide(f"argo wait -n argo {again}")
    assert guide.response(again)["data"]["jobId"] != guide.response(name)["data"]["jobId"]
    guide(f"argo delete -n argo {name}")
    assert "not found" in guide(f"argo get -n argo {name}", fine=False)


def test_a_job_by_a_parameter_file(guide: Guide) -> None:
    guide("""
        # 编辑配置文件
        cp argo/examples/config-example.json my-config.json
        sed -i 's/python train.py/sleep 30/' my-config.json

        # 提交任务
        argo submit -n argo --from workflowtemplate/mlp-cooker-training-job \\
          --parameter-file my-config.json
    """)
    name = guide.latest()
    guide(f"argo stop -n argo {name}")
    guide(f"argo wait -n argo {name}", fine=False)
    assert re.search(r"Status:\s+Failed", guide(f"argo get -n argo {name}"))


def test_curl_as_printed(guide: Guide) -> None:
    lines = """
        # 使用 MLP Cooker API 查询
        curl http://localhost:5002/api/resources/pools
        curl http://localhost:5002/api/resources/queues
    """
    decoder = json.JSONDecoder()
    told = guide(lines)
    pools, end = decoder.raw_decode(told)
    queues = json.loads(told[end:])
    assert [pool["resourcePoolId"] for pool in pools["data"]["resourcePools"]] == ["muster"]
    assert "default" in [queue["queueName"] for queue in queues["data"]["queues"]]
    (guide.folder / "stranger").mkdir()
    shutil.copy(guide.folder / ".curlrc", guide.folder / "stranger/.curlrc")
    refused = json.loads(guide("curl http://localhost:5002/api/resources/pools", {"HOME": f"{guide.folder}/stranger"}))
    assert (refused["success"], refused["details"]["code"]) == (False, "AUTH_FAILED")
    task = SUBMIT.partition("task-params=")[2].strip()
    created = json.loads(guide(
        f"""curl -X POST http://localhost:5002/api/jobs/create -H "Content-Type: application/json" """
        f"""-d '{{"taskParams": '{task}'}}'"""
    ))  # fmt: skip
    assert (created["success"], created["data"]["jobName"]) == (True, "my-job")


PUBLISHED = """
    apiVersion: argoproj.io/v1alpha1
    kind: WorkflowTemplate
    metadata: {name: published, namespace: argo}
    spec:
      entrypoint: create-training-job
      arguments: {parameters: [{name: mlp-cooker-api, value: "http://mlp-cooker-backend:5002"}, {name: task-params}]}
      templates:
      - name: create-training-job
        container:
          image: curlimages/curl:latest
          command: [sh, -c]
          args:
          - |
            answer=$(curl -s -w "\\n%{http_code}" -X POST "{{workflow.parameters.mlp-cooker-api}}/api/jobs/create" \\
              -H "Content-Type: application/json" -d "{\\"taskParams\\": {{workflow.parameters.task-params}}}")
            echo "$answer"
            [ "$(echo "$answer" | tail -n1)" = 200 ] || exit 1
            body=$(echo "$answer" | sed '$d')
            [ "$(echo "$body" | grep -o '"success":[^,}]*' | grep -o '[^:]*$' | tr -d ' ')" = true ] || exit 1
            echo "$body" > /tmp/response.json
        outputs: {parameters: [{name: response, valueFrom: {path: /tmp/response.json}}]}
"""
"""What the published template does: curl without a header for a token, and the task pasted into a quoted string."""


def test_the_published_template_with_the_token_in_the_address(guide: Guide) -> None:
    guide.file("published.yaml", PUBLISHED)
    guide("kubectl apply -f published.yaml")
    task = json.dumps({
        "name": "from-curl", "jobType": "PyTorchJob", "command": "python train.py",
        "jobSpec": {"replicas": 1, "image": "registry.baidubce.com/aihc-aiak/pytorch:latest", "enableRDMA": True},
    }).replace('"', '\\"')  # fmt: skip
    submit = f"argo submit -n argo --from workflowtemplate/published --parameter task-params='{task}' -o name --wait"
    address = f"http://token:{guide.token}@mlp-cooker-backend:5002"
    name = guide(f"{submit} --parameter mlp-cooker-api={address}").strip()
    assert guide.response(name)["data"]["jobName"] == "from-curl"
    guide(submit, fine=False)
    assert "AUTH_FAILED" in guide("argo logs -n argo @latest"), "without a token"


EXAMPLE = """
    apiVersion: argoproj.io/v1alpha1
    kind: Workflow
    metadata: {generateName: unedited-, namespace: argo}
    spec:
      entrypoint: main
      templates:
      - name: main
        steps:
        - - name: create-training-job
            templateRef: {name: mlp-cooker-training-job, template: create-training-job}
            arguments:
              parameters:
              - {name: mlp-cooker-api, value: "http://mlp-cooker-backend:5002"}
              - name: task-params
                value: |
                  {"name": "distributed", "jobType": "PyTorchJob", "command": "torchrun --nproc_per_node=8 train.py",
                   "jobSpec": {"replicas": 2, "image": "registry.baidubce.com/aihc-aiak/pytorch:2.1.0-cuda11.8",
                     "resources": [], "envs": [{"name": "NCCL_IB_DISABLE", "value": "0"}], "enableRDMA": true},
                   "datasources": [
                     {"type": "pfs", "sourcePath": "/", "mountPath": "/workspace"},
                     {"type": "bos", "sourcePath": "my-bucket/datasets/", "mountPath": "/data", "readOnly": true}]}
"""
"""Of the form of the published examples, with the guide's mixed data sources. It does not say where it runs."""


def test_an_example_that_knows_nothing_of_this_cluster(guide: Guide) -> None:
    guide.file("unedited.yaml", EXAMPLE)
    name = guide("argo submit -n argo unedited.yaml -o name --wait").strip()
    job = guide.response(name)["data"]["jobId"]
    described = f"http://localhost:5002/api/jobs/{job}?needDetail=true"
    ended = guide(
        f"until curl '{described}' | tee ended | grep -E '\"(Succeeded|Failed)\"' >&2; do sleep 0.1; done; cat ended"
    )
    detail = json.loads(ended)["data"]["job"]
    assert detail["status"] == "Succeeded", detail
    log = json.loads(guide(f"curl http://localhost:5002/api/jobs/{job}/pods/{detail['pods'][0]['name']}/logs"))
    assert log["data"]["logs"] == ["/data", "/workspace", "torchrun --nproc_per_node=8 train.py"]


def test_the_complete_flow(guide: Guide) -> None:
    with AihcServer() as aihc:
        guide.file("config.json", json.dumps({"aihc-base-url": aihc.url}))
        guide("kubectl create namespace argo", fine=False)  # it exists since the first step
        flow = """
            kubectl create configmap aihc-config -n argo \\
              --from-literal=ak="your-ak" \\
              --from-literal=sk="your-sk" \\
              --from-literal=resource-pool-id="your-pool-id" \\
              --from-literal=queue-id="your-queue-id"

            # 2. 提交模板
            kubectl apply -f argo/training-job-template.yaml

            # 3. 创建训练任务
            argo submit -n argo --from workflowtemplate/aihc-training-job \\
              --parameter job-name="my-pytorch-training" \\
              --parameter command="python train.py --lr 0.001 --epochs 100" \\
              --parameter replicas="4" \\
              --parameter-file config.json
        """
        yours = {"your-ak": AK, "your-sk": SK, "your-pool-id": SERVERLESS, "your-queue-id": "q-1"}
        guide(re.sub("|".join(yours), lambda found: yours[found[0]], flow))
        guide("argo wait -n argo @latest")
        job = aihc.job("my-pytorch-training")
        assert (job.body["command"], job.body["jobSpec"]["replicas"]) == ("python train.py --lr 0.001 --epochs 100", 4)
        status = guide("""
            # 4. 查看任务状态
            argo list -n argo
            argo get -n argo @latest
            argo logs -n argo @latest
        """)
        assert job.job_id in status
        assert "resource-pool-id: aihc-serverless" in guide("kubectl get configmap aihc-config -n argo -o yaml")
