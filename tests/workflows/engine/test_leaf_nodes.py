from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from muster.workflows.model import Launch, Outcome
from tests.workflows.engine.simulation import START, Simulation, by_node, run_to_end

ONE = "entrypoint: main\ntemplates:\n- name: main\n"
CONTAINER = "  container: {image: busybox}\n"


def launched(text: str) -> Launch:
    sim = Simulation(text)
    sim.step()
    (launch,) = sim.open.values()
    return launch


@pytest.mark.parametrize(
    ("template", "kind", "node_type", "wants_result"),
    [
        ("container: {image: busybox}", "pod", "Pod", False),
        ("script: {image: busybox, command: [sh], source: x}", "pod", "Pod", False),
        ("containerSet: {containers: [{name: main}]}", "pod", "Pod", False),
        ("data: {source: {}, transformation: []}", "pod", "Pod", True),
        ("resource: {action: get, manifest: x}", "resource", "Pod", False),
        ("http: {url: 'http://x'}", "http", "HTTP", True),
    ],
)
def test_what_is_done_outside(template: str, kind: str, node_type: str, wants_result: bool) -> None:
    launch = launched(f"{ONE}  {template}")
    assert (launch.kind, launch.node["type"], launch.node["phase"]) == (kind, node_type, "Pending")
    assert launch.pod_name == "wf"
    assert launch.wants_result is wants_result


def test_what_has_been_seen_of_a_pod() -> None:
    sim = Simulation(ONE + CONTAINER)
    sim.step()
    sim.step({"wf": Outcome("Pending", "ImagePullBackOff")})
    assert (sim.node("wf")["phase"], sim.node("wf")["message"]) == ("Pending", "ImagePullBackOff")
    sim.step({"wf": Outcome("Running", host="node-1", progress="1/4")})
    node = sim.node("wf")
    assert (node["phase"], node["hostNodeName"], node["progress"]) == ("Running", "node-1", "1/4")
    assert "message" not in node
    assert sim.run.status["conditions"] == [{"type": "PodRunning", "status": "True"}]
    sim.step({"wf": Outcome("Succeeded", exit_code=0, finished="2026-01-01T00:00:07Z", durations={"cpu": 3})})
    node = sim.node("wf")
    assert (node["phase"], node["finishedAt"], node["progress"]) == ("Succeeded", "2026-01-01T00:00:07Z", "4/4")
    assert (node["outputs"], node["resourcesDuration"]) == ({"exitCode": "0"}, {"cpu": 3})
    assert sim.run.status["resourcesDuration"] == {"cpu": 3}
    assert sim.run.status["conditions"] == [
        {"type": "PodRunning", "status": "False"},
        {"type": "Completed", "status": "True"},
    ]


def test_nothing_is_changed_by_what_is_known_already() -> None:
    sim = Simulation(ONE + CONTAINER)
    sim.step()
    sim.step({"wf": Outcome("Running")})
    actions = sim.step({"wf": Outcome("Running"), "nobody": Outcome("Failed")})
    assert (actions.changed, actions.status) == (set(), None)


def test_a_node_that_was_handed_out_is_never_touched() -> None:
    sim = Simulation(ONE + CONTAINER)
    sim.step()
    before = sim.run.nodes["wf"]
    kept = dict(before)
    sim.step({"wf": Outcome("Running")})
    assert before == kept
    assert sim.run.nodes["wf"] is not before


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("", None),
        ("activeDeadlineSeconds: 30", 30),
        ('activeDeadlineSeconds: "{{workflow.parameters.t}}"', 7),
        ("timeout: 1m", 60),
        ("timeout: 10s\n  activeDeadlineSeconds: 30", 10),
    ],
)
def test_how_long_a_pod_may_take(fields: str, expected: int | None) -> None:
    text = f"arguments: {{parameters: [{{name: t, value: '7'}}]}}\n{ONE}{CONTAINER}  {fields}"
    deadline: Any = launched(text).template.get("activeDeadlineSeconds")
    assert (None if deadline is None else int(deadline)) == expected


def test_a_time_that_is_none_is_an_error() -> None:
    sim = run_to_end(f"{ONE}{CONTAINER}  timeout: soon")
    assert sim.phase == "Error"
    assert "(timeout)" in sim.message


def test_a_pod_that_does_not_begin_in_its_time_is_given_up() -> None:
    sim = Simulation(f"{ONE}{CONTAINER}  timeout: 10s")
    sim.step()
    assert sim.wake == START + timedelta(seconds=10)
    sim.view.now += timedelta(seconds=10)
    sim.step()
    assert (sim.phase, sim.message) == ("Failed", "timeout")
    assert sim.stopped == {"wf": False}


def test_what_is_no_pod_is_ended_by_the_engine() -> None:
    sim = Simulation(f"{ONE}  resource: {{action: create, manifest: x}}\n  activeDeadlineSeconds: 10")
    sim.step()
    sim.step({"wf": Outcome("Running")})
    sim.view.now += timedelta(seconds=10)
    sim.step()
    assert sim.stopped == {"wf": False}
    sim.step({"wf": Outcome("Failed", "gone")})
    assert (sim.phase, sim.message) == ("Failed", "Step exceeded its deadline")


SET = """
entrypoint: main
templates:
- name: main
  containerSet:
    containers: [{name: a}, {name: b}, {name: c, dependencies: [a, b]}]
"""


def test_containers_of_a_set_have_nodes_of_their_own() -> None:
    sim = Simulation(SET)
    sim.step()
    ids = {n["displayName"]: n["id"] for n in sim.run.nodes.values()}
    assert sim.node("wf")["children"] == [ids["a"], ids["b"]]
    assert sim.node("a")["children"] == sim.node("b")["children"] == [ids["c"]]
    assert {n["type"] for n in sim.run.nodes.values()} == {"Pod", "Container"}
    assert sim.node("a")["boundaryID"] == "wf"
    containers = {"a": Outcome("Succeeded"), "b": Outcome("Failed", "b: Error (exit code 1)"), "c": Outcome("Pending")}
    sim.step({"wf": Outcome("Running", containers=containers)})
    assert sim.phases() == {"wf": "Running", "a": "Succeeded", "b": "Failed", "c": "Pending"}
    sim.step({"wf": Outcome("Failed", "b failed", containers=containers)})
    assert sim.phases() == {"wf": "Failed", "a": "Succeeded", "b": "Failed", "c": "Failed"}


def test_arrows_go_on_from_the_last_container() -> None:
    text = SET.replace("name: main\n", "name: set\n").replace("entrypoint: main", "entrypoint: outer") + (
        "- {name: outer, steps: [[{name: s, template: set}], [{name: t, template: set}]]}\n"
    )
    sim = run_to_end(text)
    assert sim.node("wf[0].s.c")["children"] == [sim.node("[1]")["id"]]
    assert sim.node("wf")["outboundNodes"] == [sim.node("wf[1].t.c")["id"]] * 2


def test_plugins_are_refused_by_name() -> None:
    sim = run_to_end(f"{ONE}  plugin: {{hello: {{}}}}")
    assert sim.phase == "Error"
    assert "plugin templates (hello)" in sim.message


DAEMON = """
entrypoint: main
templates:
- name: main
  steps:
  - - {name: db, template: db}
  - - {name: use, template: use, arguments: {parameters: [{name: ip, value: "{{steps.db.ip}}"}]}}
- {name: db, daemon: true, container: {image: db}}
- {name: use, inputs: {parameters: [{name: ip}]}, container: {image: busybox, args: ["{{inputs.parameters.ip}}"]}}
"""


def test_those_who_need_a_daemon_wait_until_it_is_ready() -> None:
    sim = Simulation(DAEMON)
    sim.step()
    db = sim.node("db")["id"]
    assert "taskResultSynced" not in sim.node("db")
    sim.step({db: Outcome("Running")})
    assert sim.launched == ["wf[0].db"]
    sim.step({db: Outcome("Running", ready=True, address="10.1.2.3")})
    assert (sim.node("db")["daemoned"], sim.node("db")["podIP"]) == (True, "10.1.2.3")
    use = sim.open[sim.node("use")["id"]]
    assert use.template["container"]["args"] == ["10.1.2.3"]
    sim.step({use.node["id"]: Outcome("Succeeded")})
    assert sim.stopped == {db: False}
    assert sim.run.launch(db).pod_name.startswith("wf-db-")
    assert sim.node("db")["phase"] == "Succeeded"
    assert "daemoned" not in sim.node("db")
    assert sim.phase == "Succeeded"


def test_a_daemon_that_ends_before_it_is_ready_has_failed() -> None:
    sim = run_to_end(DAEMON, by_node({"db": Outcome("Succeeded")}))
    assert sim.node("db")["phase"] == "Failed"
    assert sim.phase == "Failed"


def test_a_daemon_that_dies_is_tried_again_without_disturbing_others() -> None:
    sim = Simulation(DAEMON.replace("daemon: true,", "daemon: true, retryStrategy: {limit: 3},"))
    sim.step()
    ready = Outcome("Running", ready=True, address="10.0.0.1")
    sim.step({sim.node("db(0)")["id"]: ready})
    assert sim.node("db")["daemoned"] is True
    sim.step({sim.node("db(0)")["id"]: Outcome("Failed", "died")})
    assert sim.node("db(1)")["phase"] == "Pending"
    sim.step({sim.node("db(1)")["id"]: ready})
    sim.step({sim.node("use")["id"]: Outcome("Succeeded")})
    assert sim.phase == "Succeeded"
    assert (sim.node("db")["phase"], sim.node("db(1)")["phase"]) == ("Succeeded", "Succeeded")


def test_volumes_of_the_workflow_may_take_from_steps() -> None:
    text = """
entrypoint: main
volumes:
- {name: plain, emptyDir: {}}
- {name: made, persistentVolumeClaim: {claimName: "{{steps.make.outputs.result}}"}}
templates:
- name: main
  steps: [[{name: make, template: make}], [{name: use, template: use}]]
- {name: make, container: {image: busybox}}
- {name: use, container: {image: busybox}}
"""
    sim = Simulation(text, by_node({"make": Outcome("Succeeded", outputs={"result": "claim-1"})}))
    sim.step()
    sim.round()
    (use,) = sim.open.values()
    assert use.template["volumes"] == [{"name": "made", "persistentVolumeClaim": {"claimName": "claim-1"}}]
