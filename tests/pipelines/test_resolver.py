"""What the tasks of a pipeline do on the engine: decided from typed values, and the same after every restart."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from muster.pipelines.compile import to_workflow
from muster.pipelines.inputs import InputResolver, TaskState
from muster.pipelines.resolver import node_outputs, resolver_for
from muster.pipelines.spec import parse_pipeline
from muster.pipelines.status import TaskDetail, task_details
from muster.pipelines.task import TaskInputs
from muster.workflows.lang.limits import BudgetExceeded
from muster.workflows.model import Launch, Outcome, Outputs
from muster.workflows.operations.retry import retry
from tests.workflows.engine.simulation import FakeView, Simulation

Body = Callable[[dict[str, Any]], Any]
"""A component: takes its parameters, and returns its outputs by name."""


class Demo:
    """Builds a pipeline whose components are functions, and runs it."""

    def __init__(self, **parameters: dict[str, Any]) -> None:
        self.bodies: dict[str, Body] = {}
        self.spec: dict[str, Any] = {
            "pipelineInfo": {"name": "demo"},
            "schemaVersion": "2.1.0",
            "components": {},
            "deploymentSpec": {"executors": {}},
            "root": {"dag": {"tasks": {}}, "inputDefinitions": {"parameters": parameters}},
        }
        self.platform: dict[str, Any] = {}
        self.ran: list[tuple[str, dict[str, Any]]] = []
        self.view = FakeView()

    def component(self, name: str, body: Body, inputs: dict[str, str], outputs: dict[str, str] | None = None) -> None:
        definitions = {}
        for key, kind in inputs.items():
            optional = kind.endswith("?")
            definitions[key] = {"parameterType": kind.rstrip("?"), **({"isOptional": True} if optional else {})}
        self.bodies[f"comp-{name}"] = body
        self.spec["components"][f"comp-{name}"] = {
            "executorLabel": f"exec-{name}",
            "inputDefinitions": {"parameters": definitions},
            "outputDefinitions": {"parameters": {k: {"parameterType": v} for k, v in (outputs or {}).items()}},
        }
        container = {"image": "python:3.11", "command": ["run", "{{$}}"]}
        self.spec["deploymentSpec"]["executors"][f"exec-{name}"] = {"container": container}

    def dag(self, name: str, tasks: dict[str, Any], inputs: dict[str, str], **outputs: dict[str, Any]) -> None:
        self.spec["components"][f"comp-{name}"] = {
            "dag": {"tasks": tasks, "outputs": {"parameters": outputs}},
            "inputDefinitions": {"parameters": {k: {"parameterType": v} for k, v in inputs.items()}},
            "outputDefinitions": {"parameters": {key: {"parameterType": "STRING"} for key in outputs}},
        }

    def run(
        self,
        parameters: dict[str, Any] | None = None,
        *,
        reload: bool = True,
        answer: Callable[[Launch], Outcome] | None = None,
    ) -> Simulation:
        pipeline = parse_pipeline({"pipeline_spec": self.spec, "platform_spec": self.platform})
        workflow = to_workflow(
            pipeline, run_id="r1", display_name="run", parameters=parameters or {}, namespace="n", name="wf"
        )
        workflow["metadata"] |= {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
        answer = answer or self.answer
        return Simulation(workflow, answer, view=self.view, reload=reload, resolver_for=resolver_for).finish()

    def answer(self, launch: Launch) -> Outcome:
        """Does what the container of a component would do."""
        given = json.loads(launch.template["container"]["command"][1])
        values = given["inputs"]["parameterValues"]
        self.ran.append((launch.node["name"].removeprefix("wf."), values))
        try:
            found = self.bodies[launch.template["name"]](values)
        except RuntimeError as error:
            return Outcome("Failed", str(error), exit_code=1)
        written = {"parameterValues": found if isinstance(found, dict) else {"Output": found}}
        parameters = [{"name": "kfp-output-file", "value": json.dumps(written)}]
        return Outcome("Succeeded", exit_code=0, outputs=Outputs(parameters=parameters))

    def values(self, task: str) -> list[dict[str, Any]]:
        return [values for name, values in self.ran if name == task]


def task(component: str, *after: str, **inputs: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"componentRef": {"name": f"comp-{component}"}, "inputs": {"parameters": inputs}}
    return {**found, "dependentTasks": list(after)} if after else found


def output(producer: str, key: str = "Output") -> dict[str, Any]:
    return {"taskOutputParameter": {"producerTask": producer, "outputParameterKey": key}}


def constant(value: Any) -> dict[str, Any]:
    return {"runtimeValue": {"constant": value}}


def given(name: str, selector: str = "") -> dict[str, Any]:
    return {"componentInputParameter": name, **({"parameterExpressionSelector": selector} if selector else {})}


def from_task(producer: str, key: str = "Output") -> dict[str, Any]:
    return {"valueFromParameter": {"producerSubtask": producer, "outputParameterKey": key}}


def fails(values: dict[str, Any]) -> Any:
    raise RuntimeError("it broke")


def adder() -> Demo:
    demo = Demo(a={"parameterType": "NUMBER_INTEGER"}, b={"parameterType": "NUMBER_INTEGER", "defaultValue": 2.0})
    demo.component(
        "add",
        lambda v: v["x"] + v["y"],
        {"x": "NUMBER_INTEGER", "y": "NUMBER_INTEGER"},
        {"Output": "NUMBER_INTEGER"},
    )
    demo.component("show", lambda v: {}, {"text": "STRING"})
    return demo


def test_values_keep_their_types_from_task_to_task() -> None:
    demo = adder()
    demo.spec["root"]["dag"]["tasks"] = {
        "first": task("add", x=given("a"), y=given("b")),
        "second": task("add", x=output("first"), y=constant(10.0)),
        "show": task("show", text=output("second")),
    }
    simulation = demo.run({"a": 1})
    assert simulation.phase == "Succeeded", simulation.message
    assert demo.ran == [("first", {"x": 1, "y": 2}), ("second", {"x": 3, "y": 10}), ("show", {"text": "13"})]
    assert simulation.node("second").get("outputs", {}).get("parameters", [])[0] == {"name": "Output", "value": "13"}
    assert node_outputs(simulation.node("second")).parameters == {"Output": 13}


def test_an_unset_optional_input_is_absent_and_text_in_constants_is_filled_in() -> None:
    demo = Demo(who={"parameterType": "STRING"}, maybe={"parameterType": "STRING", "isOptional": True})
    demo.component("say", lambda v: {}, {"text": "STRING", "more": "STRUCT?"})
    text = "hello {{$.inputs.parameters['pipelinechannel--who']}} {{jinja}}"
    demo.spec["root"]["dag"]["tasks"] = {
        "say": task("say", text=constant(text), more=given("maybe"), **{"pipelinechannel--who": given("who")})
    }
    assert demo.run({"who": 'a "{{$}}"'}).phase == "Succeeded"
    assert demo.values("say") == [{"text": 'hello a "{{$}}" {{jinja}}', "pipelinechannel--who": 'a "{{$}}"'}]


@pytest.mark.parametrize(("flip", "taken"), [("heads", "yes"), ("tails", "no")])
def test_one_of_takes_the_branch_that_ran(flip: str, taken: str) -> None:
    demo = Demo(flip={"parameterType": "STRING"})
    demo.component("echo", lambda v: v["text"], {"text": "STRING"}, {"Output": "STRING"})
    channel = {"pipelinechannel--flip": given("pipelinechannel--flip")}
    for name, text in (("if", "yes"), ("else", "no")):
        tasks = {"echo": task("echo", text=constant(text))}
        demo.dag(name, tasks, {"pipelinechannel--flip": "STRING"}, out=from_task("echo"))
    when = "inputs.parameter_values['pipelinechannel--flip'] == 'heads'"
    demo.dag(
        "branches",
        {
            "if": {**task("if", **channel), "triggerPolicy": {"condition": when}},
            "else": {**task("else", **channel), "triggerPolicy": {"condition": f"!({when})"}},
        },
        {"pipelinechannel--flip": "STRING"},
        out={
            "valueFromOneof": {
                "parameterSelectors": [
                    {"producerSubtask": "if", "outputParameterKey": "out"},
                    {"producerSubtask": "else", "outputParameterKey": "out"},
                ]
            }
        },
    )
    demo.spec["root"]["dag"]["tasks"] = {
        "branches": task("branches", **{"pipelinechannel--flip": given("flip")}),
        "show": task("echo", text=output("branches", "out")),
    }
    simulation = demo.run({"flip": flip})
    assert simulation.phase == "Succeeded", simulation.message
    assert demo.values("show") == [{"text": taken}]
    skipped = simulation.names()[f"wf.branches.{'else' if flip == 'heads' else 'if'}"]
    assert skipped == "Skipped"


def loop(component: str, over: dict[str, Any], item: str, limit: Any = 0, **inputs: Any) -> dict[str, Any]:
    found = {**task(component, **inputs), "parameterIterator": {"itemInput": item, "items": over}}
    return {**found, "iteratorPolicy": {"parallelismLimit": limit}} if limit else found


def test_a_loop_collects_its_outputs_in_order() -> None:
    demo = Demo(items={"parameterType": "LIST"})
    demo.component("name", lambda v: f"<{v['text']}>", {"text": "STRING"}, {"Output": "STRING"})
    demo.component("join", lambda v: {}, {"all": "LIST"})
    inner = {"name": task("name", text=given("item", 'parseJson(string_value)["n"]'))}
    demo.dag("loop", inner, {"item": "STRING", "items": "LIST"}, out=from_task("name"))
    demo.spec["root"]["dag"]["tasks"] = {
        "loop": loop("loop", {"inputParameter": "items"}, "item", items=given("items")),
        "join": task("join", all=output("loop", "out")),
    }
    simulation = demo.run({"items": [{"n": "a"}, {"n": "b"}, {"n": "c"}]})
    assert simulation.phase == "Succeeded", simulation.message
    assert demo.values("join") == [{"all": ["<a>", "<b>", "<c>"]}]
    assert demo.run({"items": []}).phase == "Succeeded"
    assert demo.values("join")[-1] == {"all": []}


def test_nested_loops_collect_lists_of_lists() -> None:
    demo = Demo()
    demo.component("pair", lambda v: f"{v['a']}{v['b']}", {"a": "STRING", "b": "NUMBER_INTEGER"}, {"Output": "STRING"})
    demo.component("join", lambda v: {}, {"all": "LIST"})
    demo.dag("inner", {"pair": task("pair", a=given("a"), b=given("b"))}, {"a": "STRING", "b": "NUMBER_INTEGER"},
             out=from_task("pair"))  # fmt: skip
    tasks = {"inner": loop("inner", {"raw": "[1, 2]"}, "b", a=given("a"))}
    demo.dag("outer", tasks, {"a": "STRING"}, out=from_task("inner", "out"))
    demo.spec["root"]["dag"]["tasks"] = {
        "outer": loop("outer", {"raw": '["x", "y"]'}, "a"),
        "join": task("join", all=output("outer", "out")),
    }
    assert demo.run().phase == "Succeeded"
    assert demo.values("join") == [{"all": [["x1", "x2"], ["y1", "y2"]]}]


def test_a_loop_runs_as_many_iterations_at_a_time_as_it_may() -> None:
    demo = Demo()
    demo.component("one", lambda v: {}, {"n": "NUMBER_INTEGER"})
    demo.dag("loop", {"one": task("one", n=given("n"))}, {"n": "NUMBER_INTEGER"})
    demo.spec["root"]["dag"]["tasks"] = {
        "few": loop("loop", {"raw": "[1, 2, 3, 4, 5]"}, "n", 2),
        "many": loop("loop", {"raw": "[1, 2, 3]"}, "n"),
    }

    class Counting(Simulation):
        most = 0

        def round(self) -> None:
            running = [launch.node["name"] for launch in self.open.values()]
            self.most = max(self.most, sum(name.startswith("wf.few(") for name in running))
            super().round()

    pipeline = parse_pipeline(demo.spec)
    workflow = to_workflow(pipeline, run_id="r", display_name="r", parameters={}, namespace="n", name="wf")
    counting = Counting(workflow, demo.answer, resolver_for=resolver_for, reload=True)
    counting.finish()
    assert (counting.phase, counting.most, len(demo.ran)) == ("Succeeded", 2, 8)


def test_more_iterations_than_kubeflow_can_run() -> None:
    demo = Demo()
    demo.component("one", lambda v: v["n"], {"n": "NUMBER_INTEGER"}, {"Output": "NUMBER_INTEGER"})
    demo.component("sum", lambda v: {}, {"all": "LIST"})
    demo.dag("loop", {"one": task("one", n=given("n"))}, {"n": "NUMBER_INTEGER"}, out=from_task("one"))
    demo.spec["root"]["dag"]["tasks"] = {
        "loop": loop("loop", {"raw": json.dumps(list(range(600)))}, "n"),
        "sum": task("sum", all=output("loop", "out")),
    }
    simulation = demo.run(reload=False)
    assert simulation.phase == "Succeeded", simulation.message
    assert demo.values("sum") == [{"all": list(range(600))}]


def exit_pipeline() -> Demo:
    demo = Demo()
    demo.component("fail", fails, {})
    demo.component("never", lambda v: {}, {})
    demo.component("report", lambda v: {}, {"status": "TASK_FINAL_STATUS"})
    demo.dag("body", {"fail": task("fail"), "never": task("never", "fail")}, {})
    demo.spec["root"]["dag"]["tasks"] = {
        "body": task("body"),
        "report": {
            **task("report", "body", status={"taskFinalStatus": {"producerTask": "body"}}),
            "triggerPolicy": {"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"},
        },
    }
    return demo


def test_an_exit_task_runs_after_a_failure_and_knows_it() -> None:
    demo = exit_pipeline()
    simulation = demo.run()
    assert (simulation.phase, simulation.names()["wf.body.never"]) == ("Failed", "Omitted")
    (values,) = demo.values("report")
    assert values["status"] == {
        "state": "FAILED",
        "pipelineTaskName": "body",
        "pipelineJobResourceName": "wf",
        "error": {"message": "task fail failed: it broke"},
    }


def test_a_retry_of_the_run_keeps_what_succeeded() -> None:
    demo = exit_pipeline()
    simulation = demo.run()
    demo.bodies["comp-fail"] = lambda values: {}
    stored = {**simulation.workflow, "status": {**simulation.run.status, "nodes": simulation.stored}}
    again = retry(stored)
    simulation.workflow, simulation.stored = again.workflow, dict(again.workflow["status"]["nodes"])
    simulation.restart()
    ran = len(demo.ran)
    simulation.finish()
    assert simulation.phase == "Succeeded", simulation.message
    assert [name for name, _ in demo.ran[ran:]] == ["body.fail", "body.never"]


def test_a_task_is_retried_as_its_policy_says() -> None:
    demo = Demo()
    tries: list[int] = []

    def flaky(values: dict[str, Any]) -> Any:
        tries.append(1)
        if len(tries) < 3:
            raise RuntimeError("not yet")
        return "done"

    demo.component("flaky", flaky, {}, {"Output": "STRING"})
    demo.component("show", lambda v: {}, {"text": "STRING"})
    policy = {"maxRetryCount": 3, "backoffDuration": "0s", "backoffFactor": 2, "backoffMaxDuration": "3600s"}
    demo.spec["root"]["dag"]["tasks"] = {
        "flaky": {**task("flaky"), "retryPolicy": policy},
        "show": task("show", text=output("flaky")),
    }
    simulation = demo.run()
    assert (simulation.phase, demo.values("show")) == ("Succeeded", [{"text": "done"}]), simulation.message
    detail = {each.display_name: each for each in details(simulation)}["flaky"]
    assert (detail.state, len(detail.attempts)) == ("SUCCEEDED", 3)


def test_a_cached_task_does_not_run_again_and_its_consumers_are_found_as_well() -> None:
    demo = adder()
    cached = {"cachingOptions": {"enableCache": True}}
    demo.spec["root"]["dag"]["tasks"] = {
        "first": {**task("add", x=given("a"), y=given("b")), **cached},
        "second": {**task("add", x=output("first"), y=constant(1)), **cached},
        "show": task("show", text=output("second")),
    }
    assert demo.run({"a": 1}).phase == "Succeeded"
    simulation = demo.run({"a": 1})
    assert [name for name, _ in demo.ran] == ["first", "second", "show", "show"]
    assert [(d.display_name, d.cached, d.pod_name != "") for d in details(simulation) if d.kind == "container"] == [
        ("first", True, False),
        ("second", True, False),
        ("show", False, True),
    ]
    demo.spec["deploymentSpec"]["executors"]["exec-add"]["container"]["image"] = "python:3.12"
    demo.run({"a": 1})
    assert [name for name, _ in demo.ran][4:] == ["first", "second", "show"]


def test_a_cache_key_of_the_user_stands_for_the_inputs() -> None:
    demo = adder()
    options = {"cachingOptions": {"enableCache": True, "cacheKey": "mine"}}
    demo.spec["root"]["dag"]["tasks"] = {"first": {**task("add", x=given("a"), y=given("b")), **options}}
    demo.run({"a": 1})
    simulation = demo.run({"a": 100})
    assert [name for name, _ in demo.ran] == ["first"]
    assert node_outputs(simulation.node("first")).parameters == {"Output": 3}


def importing(**fields: Any) -> Demo:
    demo = Demo(uri={"parameterType": "STRING"})
    demo.component("read", lambda v: {}, {})
    demo.spec["components"]["comp-read"]["inputDefinitions"]["artifacts"] = {"data": {"artifactType": {}}}
    demo.spec["components"]["comp-import"] = {
        "executorLabel": "exec-import",
        "inputDefinitions": {"parameters": {"uri": {"parameterType": "STRING"}}},
        "outputDefinitions": {"artifacts": {"artifact": {"artifactType": {"schemaTitle": "system.Dataset"}}}},
    }
    demo.spec["deploymentSpec"]["executors"]["exec-import"] = {
        "importer": {
            "artifactUri": {"runtimeParameter": "uri"},
            "typeSchema": {"schemaTitle": "system.Dataset"},
            "metadata": {"from": "{{$.inputs.parameters['uri']}}"},
            **fields,
        }
    }
    read = task("read")
    read["inputs"]["artifacts"] = {"data": artifact_from("import", "artifact")}
    demo.spec["root"]["dag"]["tasks"] = {"import": task("import", uri=given("uri")), "read": read}
    return demo


def test_an_importer_runs_nothing() -> None:
    simulation = importing().run({"uri": "gs://bucket/data"})
    assert simulation.phase == "Succeeded", simulation.message
    assert simulation.launched == ["wf.read"]
    (artifact,) = node_outputs(simulation.node("import")).artifacts["artifact"]
    assert (artifact.uri, artifact.metadata) == ("gs://bucket/data", {"from": "gs://bucket/data"})


def test_constants_of_before_kfp_2_are_read_as_well() -> None:
    """`constantValue` has the kind of the value, and 64-bit numbers are text in JSON."""
    found = importing(artifactUri={"constantValue": {"stringValue": "gs://bucket/old"}}).run({"uri": "x"})
    assert [each.uri for each in node_outputs(found.node("import")).artifacts["artifact"]] == ["gs://bucket/old"]
    demo = adder()
    old = {"runtimeValue": {"constantValue": {"intValue": "-3"}}}
    demo.spec["root"]["dag"]["tasks"] = {"first": task("add", x=old, y=constant(10.0))}
    assert demo.run({"a": 1}).phase == "Succeeded"
    assert demo.ran == [("first", {"x": -3, "y": 10})]


def test_an_importer_to_the_workspace_copies_in_a_pod() -> None:
    demo = importing(downloadToWorkspace=True)
    refused = demo.run({"uri": "gs://bucket/data"})
    assert "download_to_workspace needs a workspace" in str(refused.node("import").get("message"))
    demo.platform = {"platforms": {"kubernetes": {"pipelineConfig": {"workspace": {"size": "1Gi"}}}}}
    commands: list[list[str]] = []

    def answer(launch: Launch) -> Outcome:
        commands.append(launch.template["container"]["command"])
        return Outcome("Succeeded", exit_code=0)

    simulation = demo.run({"uri": "gs://bucket/data"}, answer=answer)
    assert simulation.phase == "Succeeded", simulation.message
    assert commands[0][3:] == ["/gcs/bucket/data", "/kfp-workspace/.artifacts/gcs/bucket/data"]
    (artifact,) = node_outputs(simulation.node("import")).artifacts["artifact"]
    assert (artifact.uri, artifact.metadata["_kfp_workspace"]) == ("gs://bucket/data", True)


def test_a_value_of_the_wrong_type_fails_the_task_with_a_reason() -> None:
    demo = Demo()
    demo.component("text", lambda v: "seven", {}, {"Output": "STRING"})
    demo.component("take", lambda v: {}, {"n": "NUMBER_INTEGER"})
    demo.spec["root"]["dag"]["tasks"] = {"text": task("text"), "take": task("take", n=output("text"))}
    simulation = demo.run()
    assert simulation.phase == "Failed"
    assert 'expected an integer, got "seven"' in str(simulation.node("take").get("message"))


def test_a_missing_output_fails_the_task() -> None:
    demo = Demo()
    demo.component("lazy", lambda v: {}, {}, {"Output": "STRING"})
    demo.spec["root"]["dag"]["tasks"] = {"lazy": task("lazy")}
    simulation = demo.run()
    assert (simulation.phase, simulation.node("lazy")["phase"]) == ("Failed", "Failed")
    assert 'did not write its output parameter "Output"' in str(simulation.node("lazy").get("message"))


def test_details_have_one_entry_for_every_task_and_iteration() -> None:
    demo = Demo()
    demo.component("one", lambda v: v["n"], {"n": "NUMBER_INTEGER"}, {"Output": "NUMBER_INTEGER"})
    demo.dag("loop", {"one": task("one", n=given("n"))}, {"n": "NUMBER_INTEGER"}, out=from_task("one"))
    demo.spec["root"]["dag"]["tasks"] = {"loop": loop("loop", {"raw": "[7, 8]"}, "n")}
    found = details(demo.run(), demo)
    names = {each.task_id: each.node_name for each in found}
    assert [(d.display_name, d.kind, d.iteration, names.get(d.parent_task_id, "")) for d in found] == [
        ("root", "root", None, ""),
        ("loop", "loop", None, "wf"),
        ("loop", "dag", 0, "wf.loop"),
        ("one", "container", None, "wf.loop(0)"),
        ("loop", "dag", 1, "wf.loop"),
        ("one", "container", None, "wf.loop(1)"),
    ]
    assert {d.state for d in found} == {"SUCCEEDED"}
    assert found[1].outputs.parameters == {"out": [7, 8]}
    assert found[3].inputs.parameters == {"n": 7}


def details(simulation: Simulation, demo: Demo | None = None) -> list[TaskDetail]:
    workflow = {**simulation.workflow, "status": {**simulation.run.status, "nodes": simulation.run.nodes}}
    return task_details(workflow, parse_pipeline(demo.spec) if demo is not None else None)


def artifact_from(producer: str, key: str) -> dict[str, Any]:
    return {"taskOutputArtifact": {"producerTask": producer, "outputArtifactKey": key}}


def test_a_loop_over_artifacts_and_the_list_that_it_collects() -> None:
    demo = Demo()
    listed = {"artifactType": {"schemaTitle": "system.Dataset"}, "isArtifactList": True}
    single = {"artifactType": {"schemaTitle": "system.Dataset"}}
    demo.component("import", lambda v: {}, {"n": "STRING"})
    demo.component("copy", lambda v: {}, {})
    demo.component("join", lambda v: {}, {})
    components = demo.spec["components"]
    components["comp-import"]["outputDefinitions"] = {"artifacts": {"data": single}}
    components["comp-copy"] |= {
        "inputDefinitions": {"artifacts": {"one": single}},
        "outputDefinitions": {"artifacts": {"copied": single}},
    }
    components["comp-join"]["inputDefinitions"] = {"artifacts": {"all": listed}}
    collected = {"artifactSelectors": [{"producerSubtask": "import", "outputArtifactKey": "data"}]}
    demo.dag("first", {"import": task("import", n=given("n"))}, {"n": "STRING"})
    components["comp-first"]["dag"]["outputs"] = {"artifacts": {"all": collected}}
    components["comp-first"]["outputDefinitions"] = {"artifacts": {"all": listed}}
    inner = {"componentRef": {"name": "comp-copy"}, "inputs": {"artifacts": {"one": {"componentInputArtifact": "one"}}}}
    components["comp-second"] = {
        "dag": {
            "tasks": {"copy": inner},
            "outputs": {
                "artifacts": {
                    "all": {"artifactSelectors": [{"producerSubtask": "copy", "outputArtifactKey": "copied"}]}
                }
            },
        },
        "inputDefinitions": {"artifacts": {"one": single, "each": listed}},
        "outputDefinitions": {"artifacts": {"all": listed}},
    }
    demo.spec["root"]["dag"]["tasks"] = {
        "first": loop("first", {"raw": '["a", "b", "c"]'}, "n"),
        "second": {
            "componentRef": {"name": "comp-second"},
            "inputs": {"artifacts": {"each": artifact_from("first", "all")}},
            "artifactIterator": {"itemInput": "one", "items": {"inputArtifact": "each"}},
        },
        "join": {
            "componentRef": {"name": "comp-join"},
            "inputs": {"artifacts": {"all": artifact_from("second", "all")}},
        },
    }
    simulation = demo.run()
    assert simulation.phase == "Succeeded", simulation.message
    found = {each.node_name: each for each in details(simulation, demo)}
    made = [found[f"wf.first({n}).import"].outputs.artifacts["data"] for n in range(3)]
    assert [found[f"wf.second({n}).copy"].inputs.artifacts["one"] for n in range(3)] == made
    assert len({each.uri for each in found["wf.join"].inputs.artifacts["all"]}) == 3
    assert found["wf.second"].outputs.artifacts["all"] == found["wf.join"].inputs.artifacts["all"]


def test_a_claim_is_made_without_a_container() -> None:
    demo = Demo()
    inputs = {"access_modes": "LIST", "size": "STRING", "pvc_name_suffix": "STRING?", "storage_class_name": "STRING?"}
    demo.component("createpvc", lambda v: {}, inputs, {"name": "STRING"})
    demo.component("deletepvc", lambda v: {}, {"pvc_name": "STRING"})
    for name in ("createpvc", "deletepvc"):
        demo.spec["deploymentSpec"]["executors"][f"exec-{name}"] = {"container": {"image": f"argostub/{name}"}}
    demo.spec["root"]["dag"]["tasks"] = {
        "create": task(
            "createpvc",
            access_modes=constant(["ReadWriteOnce"]),
            size=constant("5Gi"),
            pvc_name_suffix=constant("-work"),
            storage_class_name=constant("standard"),
        ),
        "delete": task("deletepvc", pvc_name=output("create", "name")),
    }
    manifests: list[tuple[str, dict[str, Any]]] = []

    def answer(launch: Launch) -> Outcome:
        resource = launch.template["resource"]
        manifests.append((resource["action"], json.loads(resource["manifest"])))
        return Outcome("Succeeded")

    simulation = demo.run(answer=answer)
    assert simulation.phase == "Succeeded", simulation.message
    (create, made), (delete, removed) = manifests
    assert (create, delete) == ("create", "delete")
    assert made["metadata"]["name"] == removed["metadata"]["name"]
    assert made["metadata"]["name"].endswith("-work")
    assert made["spec"] == {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}


def test_a_retry_runs_every_failed_task_again_also_one_that_others_ran_after() -> None:
    demo = exit_pipeline()
    demo.component("other", fails, {})
    demo.spec["root"]["dag"]["tasks"]["other"] = task("other")
    simulation = demo.run()
    demo.bodies["comp-fail"] = demo.bodies["comp-other"] = lambda values: {}
    stored = {**simulation.workflow, "status": {**simulation.run.status, "nodes": simulation.stored}}
    again = retry(stored)
    simulation.workflow, simulation.stored = again.workflow, dict(again.workflow["status"]["nodes"])
    simulation.restart()
    ran = len(demo.ran)
    simulation.finish()
    assert simulation.phase == "Succeeded", simulation.message
    assert sorted(name for name, _ in demo.ran[ran:]) == ["body.fail", "body.never", "other"]


def test_a_stopped_run_starts_nothing_more() -> None:
    demo = adder()
    demo.spec["root"]["dag"]["tasks"] = {
        "first": task("add", x=given("a"), y=given("b")),
        "second": task("add", x=output("first"), y=constant(1)),
    }
    pipeline = parse_pipeline(demo.spec)
    workflow = to_workflow(pipeline, run_id="r", display_name="r", parameters={"a": 1}, namespace="n", name="wf")
    simulation = Simulation(workflow, demo.answer, resolver_for=resolver_for)
    simulation.step()
    simulation.workflow = {**simulation.workflow, "spec": {**simulation.workflow["spec"], "shutdown": "Terminate"}}
    simulation.run.update(simulation.workflow)
    simulation.finish()
    assert (simulation.phase, [name for name, _ in demo.ran]) == ("Failed", [])
    assert "wf.second" not in simulation.names()


def test_reserved_labels_are_refused() -> None:
    demo = adder()
    demo.spec["root"]["dag"]["tasks"] = {"first": task("add", x=given("a"), y=given("b"))}
    config = {"exec-add": {"podMetadata": {"labels": {"muster.dev/run": "another"}}}}
    platform = {"platforms": {"kubernetes": {"deploymentSpec": {"executors": config}}}}
    pipeline = parse_pipeline({"pipeline_spec": demo.spec, "platform_spec": platform})
    workflow = to_workflow(pipeline, run_id="r", display_name="r", parameters={"a": 1}, namespace="n", name="wf")
    simulation = Simulation(workflow, demo.answer, resolver_for=resolver_for).finish()
    assert "muster.dev/run is reserved for the server" in str(simulation.node("first").get("message"))


@pytest.mark.parametrize(
    "written",
    [
        {"pvcNameParameter": {"runtimeValue": {"constant": "volume"}}},
        {"pvcNameParameter": {"componentInputParameter": "name"}, "componentInputParameter": "name"},
        {"componentInputParameter": "name"},
    ],
)
def test_a_setting_names_its_source_as_any_sdk_writes_it(written: dict[str, Any]) -> None:
    resolver = InputResolver(TaskInputs({"name": "volume"}), lambda _: TaskState("COMPLETE"), {})
    found = resolver.platform({"pvcMount": [{**written, "mountPath": "/data"}]}, TaskInputs())
    [(_, value)] = [pair for pair in found["pvcMount"][0].items() if pair[0] != "mountPath"]
    assert value == {"constant": "volume"}


def test_a_loop_of_too_many_items_ends_the_run_before_they_are_expanded() -> None:
    demo = Demo()
    demo.component("one", lambda v: {}, {"n": "NUMBER_INTEGER"})
    demo.dag("loop", {"one": task("one", n=given("n"))}, {"n": "NUMBER_INTEGER"})
    demo.spec["root"]["dag"]["tasks"] = {"loop": loop("loop", {"raw": json.dumps([0] * 30_000)}, "n")}
    with pytest.raises(BudgetExceeded, match="a loop of 30000 items"):
        demo.run(reload=False)


def test_a_nested_pipeline_is_retried_as_a_whole() -> None:
    demo = Demo()
    tries: list[int] = []

    def flaky(values: dict[str, Any]) -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise RuntimeError("not yet")
        return "done"

    demo.component("first", lambda v: "x", {}, {"Output": "STRING"})
    demo.component("flaky", flaky, {"text": "STRING"}, {"Output": "STRING"})
    demo.component("show", lambda v: {}, {"text": "STRING"})
    inner = {"first": task("first"), "flaky": task("flaky", text=output("first"))}
    demo.dag("nested", inner, {}, out=from_task("flaky"))
    demo.spec["root"]["dag"]["tasks"] = {
        "nested": {**task("nested"), "retryPolicy": {"maxRetryCount": 2}},
        "show": task("show", text=output("nested", "out")),
    }
    simulation = demo.run()
    assert simulation.phase == "Succeeded", simulation.message
    assert [name for name, _ in demo.ran] == [
        "nested(0).first",
        "nested(0).flaky",
        "nested(1).first",
        "nested(1).flaky",
        "show",
    ]
    assert demo.values("show") == [{"text": "done"}]
    found = details(simulation, demo)
    names = {each.task_id: each.node_name for each in found}
    shown = {(d.node_name, d.kind, names.get(d.parent_task_id, "")) for d in found if "flaky" not in d.node_name}
    assert shown == {
        ("wf", "root", ""),
        ("wf.nested", "dag", "wf"),
        ("wf.nested(0).first", "container", "wf.nested"),
        ("wf.nested(1).first", "container", "wf.nested"),
        ("wf.show", "container", "wf"),
    }


def test_a_workflow_whose_pipeline_was_changed_says_so() -> None:
    demo = adder()
    demo.spec["root"]["dag"]["tasks"] = {"first": task("add", x=given("a"), y=given("b"))}
    pipeline = parse_pipeline(demo.spec)
    workflow = to_workflow(pipeline, run_id="r", display_name="r", parameters={"a": 1}, namespace="n", name="wf")
    workflow["spec"]["arguments"]["parameters"][0]["value"] = "not JSON"
    simulation = Simulation(workflow, demo.answer, resolver_for=resolver_for).finish()
    assert (simulation.phase, demo.ran) == ("Failed", [])
    assert "the argument kubeflow-pipeline is not JSON" in str(simulation.node("first").get("message"))


def test_a_workflow_whose_templates_are_not_those_of_its_pipeline_ends() -> None:
    demo = adder()
    demo.spec["root"]["dag"]["tasks"] = {"first": task("add", x=given("a"), y=given("b"))}
    pipeline = parse_pipeline(demo.spec)
    made = to_workflow(pipeline, run_id="r", display_name="r", parameters={"a": 1}, namespace="n", name="wf")
    inputs = {"parameters": [{"name": "kfp-inputs"}]}
    for name, message in (
        ("other", 'the pipeline has no component "other"'),
        ("comp-add", "a container of the pipeline is a DAG"),
        ("root", 'the pipeline has no task "x" here'),
    ):
        dag = {"name": name, "inputs": inputs, "dag": {"tasks": [{"name": "x", "template": "leaf"}]}}
        leaf = {"name": "leaf", "container": {"image": "i", "command": ["c"]}}
        workflow = {**made, "spec": {**made["spec"], "entrypoint": name, "templates": [dag, leaf]}}
        simulation = Simulation(workflow, demo.answer, resolver_for=resolver_for).finish()
        assert (simulation.phase in ("Failed", "Error"), demo.ran) == (True, [])
        assert message in str(simulation.node("x").get("message"))


@pytest.mark.parametrize(
    "written",
    [
        '{"parameterValues": [], "artifacts": 3}',
        '{"artifacts": {"a": 3, "b": {"artifacts": {}}, "c": {"artifacts": [1]}}}',
        "[",
        '"x"',
    ],
)
def test_nodes_that_a_user_has_written_say_nothing(written: str) -> None:
    node: Any = {"outputs": {"parameters": [{"name": "kfp-outputs", "value": written}]}}
    assert not node_outputs(node).parameters


def test_a_loop_need_not_have_the_items_of_the_loops_in_it() -> None:
    """kfp 2.17 asks for them if an f-string contains items of several loops."""
    demo = Demo()
    demo.component("say", lambda v: {}, {"text": "STRING"})
    names = {"pipelinechannel--a": "NUMBER_INTEGER", "pipelinechannel--b": "STRING"}
    text = constant("{{$.inputs.parameters['pipelinechannel--a']}}{{$.inputs.parameters['pipelinechannel--b']}}")
    channels = {name: given(name) for name in names}
    demo.dag("inner", {"say": task("say", text=text, **channels)}, names)
    inner = loop(
        "inner", {"raw": '["x", "y"]'}, "pipelinechannel--b", **{"pipelinechannel--a": channels["pipelinechannel--a"]}
    )
    demo.dag("outer", {"inner": inner}, names)
    outer = loop("outer", {"raw": "[1]"}, "pipelinechannel--a", **{"pipelinechannel--b": given("b")})
    demo.spec["root"]["dag"]["tasks"] = {"outer": outer}
    simulation = demo.run()
    assert simulation.phase == "Succeeded", simulation.message
    assert sorted(values["text"] for _, values in demo.ran) == ["1x", "1y"]
