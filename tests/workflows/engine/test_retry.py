from __future__ import annotations

from datetime import timedelta

import pytest

from muster.workflows.model import Launch, Outcome
from tests.workflows.engine.simulation import START, Simulation, by_node, failed, run_to_end

FLAKY = """
entrypoint: main
templates:
- name: main
  retryStrategy: {limit: 2}
  container: {image: busybox, args: ["{{retries}} {{lastRetry.exitCode}} {{lastRetry.status}} {{pod.name}}"]}
"""


def test_attempts_until_one_succeeds() -> None:
    seen: list[str] = []
    pods: list[str] = []

    def answer(launch: Launch) -> Outcome:
        seen.append(launch.template["container"]["args"][0])
        pods.append(launch.pod_name)
        return failed("Error (exit code 3)", 3) if len(seen) < 3 else Outcome("Succeeded", exit_code=0)

    sim = run_to_end(FLAKY, answer)
    assert sim.phase == "Succeeded"
    assert seen == [f"0 0  {pods[0]}", f"1 3 Failed {pods[1]}", f"2 3 Failed {pods[2]}"]
    assert sim.node("wf")["type"] == "Retry"
    assert sim.node("wf")["outputs"] == {"exitCode": "0"}
    assert sim.node("wf")["children"] == [sim.node(f"wf({i})")["id"] for i in range(3)]
    assert sim.node("wf(0)")["nodeFlag"] == {"retried": True}
    assert sim.node("wf(0)")["phase"] == "Failed"
    assert sim.node("wf")["progress"] == "1/3"


def test_no_more_attempts_than_the_limit() -> None:
    sim = run_to_end(FLAKY, lambda launch: failed())
    assert sim.phase == "Failed"
    assert sim.message == sim.node("wf")["message"] == "No more retries left"
    assert len(sim.launched) == 3


def test_errors_are_not_retried_unless_asked_for() -> None:
    sim = run_to_end(FLAKY, lambda launch: Outcome("Error", "no image"))
    assert (sim.phase, sim.message, len(sim.launched)) == ("Error", "no image", 1)
    sim = run_to_end(FLAKY.replace("{limit: 2}", "{limit: 2, retryPolicy: Always}"), lambda launch: Outcome("Error"))
    assert (sim.phase, len(sim.launched)) == ("Error", 3)


def test_an_expression_decides() -> None:
    text = FLAKY.replace("{limit: 2}", '{limit: 9, expression: "asInt(lastRetry.exitCode) < 3"}')
    codes = iter([1, 2, 3])
    sim = run_to_end(text, lambda launch: failed(exit_code=next(codes)))
    assert sim.message == "retryStrategy.expression evaluated to false"
    assert len(sim.launched) == 3


def test_a_strategy_that_makes_no_sense_is_an_error() -> None:
    sim = run_to_end(FLAKY.replace("limit: 2", "limit: 9, expression: lastRetry."), lambda launch: failed())
    assert sim.phase == "Error"
    assert "lastRetry." in sim.message


def test_backing_off_takes_time() -> None:
    text = FLAKY.replace("limit: 2", "limit: 2, backoff: {duration: 1m, factor: 2}")
    sim = Simulation(text, lambda launch: failed())
    sim.step()
    sim.round()
    assert sim.node("wf")["message"] == "Backoff for 1 minute 0 seconds"
    assert sim.wake == START + timedelta(seconds=61)
    assert len(sim.launched) == 1
    sim.step()
    assert len(sim.launched) == 1
    sim.finish()
    assert len(sim.launched) == 3
    assert sim.view.now >= START + timedelta(minutes=3)
    assert sim.message == "No more retries left"


def test_an_attempt_ends_with_the_time_for_all() -> None:
    text = FLAKY.replace("limit: 2", "limit: 9, backoff: {duration: 5s, maxDuration: 1m}")
    deadlines: list[int | None] = []

    def answer(launch: Launch) -> Outcome:
        deadlines.append(launch.template.get("activeDeadlineSeconds"))
        return failed()

    sim = run_to_end(text, answer)
    assert deadlines[0] is None
    assert deadlines[1] is not None
    assert deadlines[1] <= 55
    assert sim.message in ("Backoff would exceed max duration limit", "Max duration limit exceeded")


def test_whole_templates_are_retried() -> None:
    text = """
entrypoint: main
templates:
- name: main
  steps: [[{name: s, template: inner}]]
- name: inner
  retryStrategy: {limit: 1}
  steps: [[{name: x, template: say}], [{name: y, template: say}]]
- {name: say, container: {image: busybox}}
"""
    sim = run_to_end(text, by_node({"y": [failed(), Outcome("Succeeded")]}))
    assert sim.phase == "Succeeded"
    assert sim.names()["wf[0].s(0)[1].y"] == "Failed"
    assert sim.names()["wf[0].s(1)[1].y"] == "Succeeded"
    assert sim.node("s(1)")["type"] == "Steps"
    assert sim.node("wf[0].s(1)[0].x")["boundaryID"] == sim.node("s(1)")["id"]
    assert sim.node("s")["templateName"] == "inner"


def test_the_strategy_of_the_workflow_is_that_of_all_templates() -> None:
    text = """
entrypoint: main
retryStrategy: {limit: 1}
templates:
- {name: main, container: {image: busybox}}
"""
    assert run_to_end(text, by_node({"wf(0)": failed()})).phase == "Succeeded"


def test_the_result_of_the_last_attempt_is_what_others_see() -> None:
    text = """
entrypoint: main
templates:
- name: main
  steps:
  - - {name: a, template: flaky}
  - - {name: b, template: say, arguments: {parameters: [{name: m, value: "{{steps.a.outputs.result}}"}]}}
- {name: flaky, retryStrategy: {limit: 1}, script: {image: busybox, command: [sh], source: x}}
- {name: say, inputs: {parameters: [{name: m}]}, container: {image: busybox, args: ["{{inputs.parameters.m}}"]}}
"""
    seen: dict[str, object] = {}

    def answer(launch: Launch) -> Outcome:
        name = launch.node["displayName"]
        if name == "b":
            seen["b"] = launch.template["container"]["args"]
        if name == "a(0)":
            seen["wanted"] = launch.wants_result
            return failed()
        return Outcome("Succeeded", outputs={"result": "yes"})

    assert run_to_end(text, answer).phase == "Succeeded"
    assert seen == {"wanted": True, "b": ["yes"]}


def test_what_is_asked_for_and_cannot_be_done_is_said() -> None:
    sim = run_to_end(FLAKY.replace("limit: 2", "limit: 2, affinity: {nodeAntiAffinity: {}}"))
    assert [(n.type, n.reason) for n in sim.news if n.type == "Warning"] == [("Warning", "RetryAffinity")]


@pytest.mark.parametrize("limit", [1, 3])
def test_attempts_need_room_like_anybody(limit: int) -> None:
    text = f"""
entrypoint: main
parallelism: {limit}
templates:
- name: main
  steps: [[{{name: a, template: flaky, withSequence: {{count: 4}}}}]]
- {{name: flaky, retryStrategy: {{limit: 1}}, container: {{image: busybox}}}}
"""
    sim = Simulation(text, by_node({f"a({i}:{i})(0)": failed() for i in range(4)}))
    sim.step()
    most = 0
    while not sim.run.finished:
        most = max(most, len(sim.open))
        sim.round()
    assert (sim.phase, most, len(sim.launched)) == ("Succeeded", limit, 8)
