"""Hera works unchanged: workflows written in Python are submitted and read over Argo Server's API."""

# Annotations must not be postponed here: Hera reads those of its scripts.

import json
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from muster.workflows.bundled import bundle_files
from tests.cli.commands import Muster
from tests.workflows.bundled.cooker_backend import serve_cooker

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # warnings of Hera's own imports
    hera = pytest.importorskip("hera.workflows", reason="Hera is not installed: pip install hera")

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings from the libraries that Hera uses


@hera.script(image="python:3.11")  # type: ignore[untyped-decorator]
def prepare() -> None:
    import json

    print(json.dumps([1, 2, 3]))


@hera.script(image="python:3.11")  # type: ignore[untyped-decorator]
def train(size: int) -> None:
    print(f"trained on {size}")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("hera")
    command = Muster(folder / "home", folder)
    command("up", "-d").ok()
    told = command("env").ok().out.replace("'", "")
    settings = dict(line.removeprefix("export ").split("=", 1) for line in told.splitlines())
    with hera.WorkflowsService(
        host=f"https://{settings['ARGO_SERVER']}",
        token=settings["ARGO_TOKEN"],
        verify_ssl=str(command.home / "identity" / "ca.crt"),
        namespace="default",
    ) as made:
        yield made
    command("down").ok()


def pipeline(service: Any, **more: Any) -> Any:
    with (
        hera.Workflow(entrypoint="main", namespace="default", workflows_service=service, **more) as workflow,
        hera.DAG(name="main"),
    ):
        first = prepare(name="sizes")
        second = train(name="fit", arguments={"size": "{{item}}"}, with_param=first.result)
        first >> second
    return workflow


def test_create_wait_and_read(service: Any) -> None:
    workflow = pipeline(service, generate_name="hera-")
    assert workflow.lint() is not None
    workflow.create()
    done = workflow.wait(poll_interval=1)
    assert done.status.phase == "Succeeded"
    fits = [node for node in done.status.nodes.values() if (node.display_name or "").startswith("fit(")]
    assert len(fits) == 3
    name = done.metadata.name
    assert service.get_workflow(name).metadata.name == name
    assert name in [one.metadata.name for one in service.list_workflows().items]
    assert service.workflow_logs(name, grep="trained on 2", container="main") is not None
    service.delete_workflow(name)
    with pytest.raises(Exception, match="not found"):
        service.get_workflow(name)


def test_templates_and_resubmission(service: Any) -> None:
    with hera.WorkflowTemplate(
        name="kept", entrypoint="say", namespace="default", workflows_service=service
    ) as template:
        hera.Container(
            name="say",
            image="busybox",
            command=["echo", "{{inputs.parameters.text}}"],
            inputs=hera.Parameter(name="text", value="hi"),
        )
    template.create()
    assert [one.metadata.name for one in service.list_workflow_templates().items] == ["kept"]
    with hera.Workflow(
        generate_name="from-kept-", namespace="default", workflows_service=service,
        workflow_template_ref=hera.models.WorkflowTemplateRef(name="kept"),
    ) as workflow:  # fmt: skip
        pass
    workflow.create(wait=True, poll_interval=1)
    name = workflow.name
    assert service.get_workflow(name).status.phase == "Succeeded"
    again = service.resubmit_workflow(name, hera.models.WorkflowResubmitRequest(name=name))
    assert again.metadata.name != name
    service.delete_workflow_template("kept")


def test_errors_are_raised_in_python(service: Any) -> None:
    with hera.Workflow(
        generate_name="bad-", entrypoint="nowhere", namespace="default", workflows_service=service
    ) as bad:
        hera.Container(name="main", image="busybox", command=["true"])
    with pytest.raises(Exception, match="nowhere"):
        bad.create()
    info = service.get_info()
    assert info is not None
    assert service.get_version().version.startswith("v4.0.7")


def test_a_training_job_through_a_bundled_template(service: Any) -> None:
    (file,) = (path for path in bundle_files("mlp-cooker") if path.stem == "mlp-cooker-training-job")
    template = hera.WorkflowTemplate.from_file(file)
    template.namespace, template.workflows_service = "default", service
    template.create()
    task = {"name": "from-hera", "jobType": "PyTorchJob", "command": 'echo "$HOME"', "jobSpec": {"replicas": 2}}
    with (
        serve_cooker() as backend,
        hera.Workflow(
            generate_name="cooker-", entrypoint="main", namespace="default", workflows_service=service
        ) as workflow,
    ):
        with hera.Steps(name="main"):
            hera.Step(
                name="train",
                template_ref=hera.models.TemplateRef(name=template.name, template="create-training-job"),
                arguments={"mlp-cooker-api": backend.address, "task-params": json.dumps(task), "wait": "true"},
            )
        workflow.create()
        assert workflow.wait(poll_interval=1).status.phase == "Succeeded"
        assert [job.task for job in backend.jobs.values()] == [task]
