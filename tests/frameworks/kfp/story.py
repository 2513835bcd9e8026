"""What users of Kubeflow Pipelines do with kfp.Client, as one script. Run as `story.py PART URL TOKEN FOLDER`."""

# kfp reads annotations as they are, so `from __future__ import annotations` cannot be used.

import json
import sys
import time
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

import kfp_server_api  # noqa: E402
from kfp import Client, compiler, dsl  # noqa: E402


@dsl.container_component
def greet(who: str, greeting: dsl.OutputPath(str)):
    return dsl.ContainerSpec(
        image="alpine",
        command=["sh", "-ec", 'mkdir -p $(dirname "$1"); echo -n "hello $0" > "$1"; echo said it'],
        args=[who, greeting],
    )


@dsl.container_component
def wait():
    return dsl.ContainerSpec(image="alpine", command=["sleep", "600"])


@dsl.component
def add(a: int, b: int) -> int:
    return a + b


@dsl.component
def fail():
    raise SystemExit("as it should")


@dsl.pipeline(name="hello")
def hello(who: str = "you"):
    greet(who=who)


@dsl.pipeline(name="waiting")
def waiting():
    wait()


@dsl.pipeline(name="inner")
def inner(n: int) -> int:
    return add(a=n, b=1).output


@dsl.pipeline(name="sums")
def sums(n: int = 2):
    goodbye = greet(who="at the end")
    with dsl.ExitHandler(goodbye), dsl.ParallelFor([1, 2, 3]) as item:
        found = add(a=item, b=n)
        with dsl.If(found.output > 3):
            inner(n=found.output)


def quick(client: Client, folder: Path) -> None:
    """Everything that needs no Python environment in a Pod."""
    experiment = client.create_experiment("first", description="of the story")
    assert client.create_experiment("first").experiment_id == experiment.experiment_id
    assert client.get_experiment(experiment_name="Default").display_name == "Default"
    package = str(folder / "hello.yaml")
    compiler.Compiler().compile(hello, package)
    pipeline = client.upload_pipeline(package, pipeline_name="hello", description="says it")
    assert client.get_pipeline_id("hello") == pipeline.pipeline_id
    version = client.upload_pipeline_version(package, "v2", pipeline_id=pipeline.pipeline_id)
    found = client.list_pipeline_versions(pipeline.pipeline_id, sort_by="created_at desc").pipeline_versions
    assert [each.display_name for each in found] == ["v2", "hello"]
    made = client.create_run_from_pipeline_func(hello, arguments={"who": "ann"}, experiment_name="first")
    done = made.wait_for_run_completion(timeout=120)
    assert (done.state, done.error) == ("SUCCEEDED", None), done
    assert {"root", "greet"} == {each.display_name for each in done.run_details.task_details}
    reference = {"pipeline_id": pipeline.pipeline_id, "version_id": version.pipeline_version_id}
    try:
        client.run_pipeline(experiment.experiment_id, "wrong", params={"whom": "x"}, **reference)
        raise AssertionError("a wrong parameter was taken")
    except kfp_server_api.ApiException as error:
        assert error.status == 400
        assert 'no parameter "whom"' in json.loads(error.body)["message"]
    long = client.create_run_from_pipeline_func(waiting, experiment_name="first")
    while client.get_run(long.run_id).state != "RUNNING":
        time.sleep(0.1)
    client.terminate_run(long.run_id)
    ended = client.wait_for_run_completion(long.run_id, 60)
    assert ended.state == "FAILED"
    assert "canceled" in ended.error.message
    client.runs.run_service_retry_run(long.run_id)
    assert client.get_run(long.run_id).state == "RUNNING"
    client.terminate_run(long.run_id)
    client.wait_for_run_completion(long.run_id, 60)
    client.delete_run(long.run_id)
    recurring = client.create_recurring_run(
        experiment.experiment_id,
        "often",
        interval_second=2,
        max_concurrency=2,
        params={"who": "[[Index]]"},
        **reference,
    )
    only = {"operation": 1, "key": "recurring_run_id", "stringValue": recurring.recurring_run_id}
    text = json.dumps({"predicates": [only]})
    while (client.list_runs(experiment_id=experiment.experiment_id, filter=text).total_size or 0) < 2:
        time.sleep(0.2)
    client.disable_recurring_run(recurring.recurring_run_id)
    assert client.get_recurring_run(recurring.recurring_run_id).status == "DISABLED"
    played = client.list_runs(experiment_id=experiment.experiment_id, filter=text, sort_by="created_at").runs
    assert [each.display_name for each in played[:2]] == ["often-1", "often-2"]
    for each in played:
        assert client.wait_for_run_completion(each.run_id, 60).state == "SUCCEEDED"
    client.delete_recurring_run(recurring.recurring_run_id)
    client.archive_run(made.run_id)
    archived = json.dumps({"predicates": [{"operation": "EQUALS", "key": "storage_state", "stringValue": "ARCHIVED"}]})
    assert [each.run_id for each in client.list_runs(filter=archived).runs] == [made.run_id]
    client.unarchive_run(made.run_id)
    try:
        client.delete_pipeline(pipeline.pipeline_id)
        raise AssertionError("a pipeline with versions was deleted")
    except kfp_server_api.ApiException as error:
        assert error.status == 400
    for each in client.list_pipeline_versions(pipeline.pipeline_id).pipeline_versions:
        client.delete_pipeline_version(pipeline.pipeline_id, each.pipeline_version_id)
    client.delete_pipeline(pipeline.pipeline_id)
    client.archive_experiment(experiment.experiment_id)
    assert client.get_run(made.run_id).storage_state == "ARCHIVED"


def lightweight(client: Client, folder: Path) -> None:
    """Python components, with a loop, a condition, a nested pipeline and an exit handler."""
    done = client.create_run_from_pipeline_func(sums, arguments={"n": 2}).wait_for_run_completion(timeout=300)
    assert done.state == "SUCCEEDED", done.error
    tasks = [each.display_name for each in done.run_details.task_details]
    assert tasks.count("greet") == 1
    assert tasks.count("inner") == 2
    assert sorted({each.state for each in done.run_details.task_details}) == ["SKIPPED", "SUCCEEDED"]


if __name__ == "__main__":
    part, url, token, place = sys.argv[1:]
    {"quick": quick, "lightweight": lightweight}[part](Client(host=url, existing_token=token), Path(place))
    print("the story is told")
