"""Workflows that try to take all of the server's time or memory end with an error that names the budget."""

from __future__ import annotations

import asyncio
import resource
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from muster.kube.budgets import Budgets
from muster.kube.objects import Key, Object, status_of
from muster.workflows.kinds import WORKFLOW
from tests.workflows.controlled_cluster import Stage, stage, task

BUDGETS = Budgets(workflow_nodes=2000, workflow_status_megabytes=8, workflow_step_seconds=1, workflow_seconds=2)
MOST_MEGABYTES = 400
MOST_TICKS = 150
"""Ticks of a thread, 10 ms each on an idle machine, in which the event loop does nothing."""
SLOW = "all(1..1900, all(1..20, # > 0))"
"""About a quarter of a second."""

NODES, STATUS = "budgets.workflowNodes", "budgets.workflowStatusMegabytes"
STEP, TOTAL, DEPTH = "budgets.workflowStepSeconds", "budgets.workflowSeconds", "budgets.workflowDepth"
TIME = (STEP, TOTAL)
ANY = (NODES, STATUS, *TIME)


def steps(*groups: Any, name: str = "main", **more: Any) -> Object:
    return {"name": name, "steps": [group if isinstance(group, list) else [group] for group in groups], **more}


def call(template: str = "task", name: str = "a", **more: Any) -> Object:
    return {"name": name, "template": template, **more}


def argument(value: str, name: str = "x") -> Object:
    return {"parameters": [{"name": name, "value": value}]}


TAKES_X: Object = {"parameters": [{"name": "x", "value": ""}]}
WITH_X = task(inputs=TAKES_X)
TWICE = [call("main", "a"), call("main", "b")]
NO_PLUGIN: Object = {"name": "main", "plugin": {"x": {}}, "retryStrategy": {"retryPolicy": "Always"}}


def dag(*tasks: Object, **more: Any) -> Object:
    return {"name": "main", "dag": {"tasks": list(tasks)}, **more}


def numbered(count: int, step: Object) -> list[Object]:
    return [{**step, "name": f"a{number}"} for number in range(count)]


def different(count: int, text: str, **more: Any) -> list[Object]:
    """Steps whose expressions differ, so that no cache helps."""
    arguments = [argument(text.replace("1..1900", f"1..{1900 + number}")) for number in range(count)]
    return [call(name=f"a{number}", arguments=given, **more) for number, given in enumerate(arguments)]


def attack(name: str, budget: str | tuple[str, ...], *templates: Object, **spec: Any) -> Any:
    budgets = (budget,) if isinstance(budget, str) else budget
    return pytest.param(budgets, templates, spec, id=name)


ATTACKS = [
    attack("a steps template that calls itself twice", NODES, steps(TWICE)),
    attack("a dag template that calls itself three times", NODES, dag(*numbered(3, call("main")))),
    attack("a template that calls itself once, for ever", DEPTH, steps(call("main"))),
    attack(
        "two templates that call each other for ever",
        DEPTH,
        steps(call("other")),
        {"name": "other", "dag": {"tasks": [call("main")]}},
    ),
    attack(
        "a template that calls itself from its exit hook",
        DEPTH,
        steps(call("main"), [call("main", "b", onExit="main"), call("main", "c")]),
    ),
    attack(
        "a template that calls itself in a loop", NODES, steps(call("main", withSequence={"count": "50"})),
    ),
    attack(
        "a loop inside of a loop inside of a loop",
        ANY,
        steps(call("two", withSequence={"count": "100"})),
        steps(call("three", withSequence={"count": "100"}), name="two"),
        steps(call(withSequence={"count": "100"}), name="three"),
        task(),
    ),
    attack("a sequence of a million items", NODES, steps(call(withSequence={"count": "999999"})), task()),
    attack(
        "a sequence whose numbers are formatted with a huge width",
        ANY,
        steps(call(withSequence={"count": "1900", "format": "%0999999999d" * 9})),
        task(),
    ),
    attack("a list of items that an expression makes", NODES, steps(call(withParam="{{=toJson(1..90000)}}")), task()),
    attack(
        "items whose texts are long, which become names of nodes",
        (STATUS, *TIME),
        steps(call(withParam="{{=toJson(map(1..900, sprig.repeat(1000, 'x')))}}", arguments=argument("{{item}}" * 20))),
        WITH_X,
    ),
    attack(
        "a chain of thousands of steps that are all skipped",
        NODES,
        steps(*([each] for each in numbered(3000, call(when="1 == 2")))),
        task(),
    ),
    attack("retries without a limit of what fails at once", (NODES, *TIME), NO_PLUGIN),
    attack("hundreds of slow expressions in arguments", TIME, steps(different(200, f"{{{{={SLOW}}}}}")), WITH_X),
    attack("hundreds of slow conditions", TIME, steps(numbered(200, call(when=f"{{{{={SLOW}}}}} == 1"))), task()),
    attack(
        "a slow expression for each item of a loop",
        TIME,
        steps(call(withSequence={"count": "1000"}, arguments=argument(f"{{{{=string(item) + string({SLOW})}}}}"))),
        WITH_X,
    ),
    attack(
        "a slow expression in each template that a recursion calls",
        TIME,
        steps(call("main", arguments=argument(f"{{{{={SLOW}}}}}")), inputs=TAKES_X),
    ),
    attack(
        "a slow expression in the workflow's own arguments, evaluated when it is loaded",
        TIME,
        task("main"),
        arguments={"parameters": [{"name": f"p{n}", "value": f"{{{{={SLOW}}}}}"} for n in range(100)]},
    ),
    attack(
        "slow expressions in labels of the workflow",
        TIME,
        task("main"),
        workflowMetadata={"labelsFrom": {f"l{n}": {"expression": f"string({SLOW})"} for n in range(100)}},
    ),
    attack(
        "slow expressions in retry strategies",
        TIME,
        {**NO_PLUGIN, "retryStrategy": {"retryPolicy": "Always", "expression": SLOW}},
    ),
    attack(
        "slow expressions in hooks",
        TIME,
        steps(*numbered(100, call(hooks={"h": {"template": "task", "expression": f"not ({SLOW})"}}, when="1 == 2"))),
        task(),
    ),
    attack(
        "regular expressions over long texts",
        TIME,
        steps(different(200, "{{=len(1..1900) + len(sprig.regexReplaceAll('a|b', sprig.repeat(90000, 'ab'), 'c'))}}")),
        WITH_X,
    ),
    attack(
        "JSON paths into long lists",
        TIME,
        steps(different(200, "{{=len(1..1900) + len(toJson(jsonpath(toJson(1..20000), '$[*]')))}}")),
        WITH_X,
    ),
    attack(
        "sorting long lists",
        TIME,
        steps(different(200, "{{=len(1..1900) + len(sort(map(1..20000, string(#))))}}")),
        WITH_X,
    ),
    attack(
        "a long list in a 'when'",
        TIME,
        steps(numbered(60, call(when="1 in (" + ",".join(["2"] * 2500) + ")"))),
        task(),
    ),
    attack(
        "a long string for each item of a loop",
        (STATUS, *TIME),
        steps(call(withSequence={"count": "1900"}, arguments=argument("{{=sprig.repeat(500000, 'a')}}"))),
        WITH_X,
    ),
    attack(
        "a text that doubles at each level of a recursion",
        (STATUS, *TIME),
        steps(call("main", arguments=argument("{{inputs.parameters.x}}{{inputs.parameters.x}}a")), inputs=TAKES_X),
    ),
    attack(
        "a large template that is filled in for each item of a loop",
        STATUS,
        steps(call(withSequence={"count": "1900"}, arguments=argument("{{item}}"))),
        {
            "name": "task",
            "inputs": TAKES_X,
            "script": {"image": "busybox", "command": ["sh"], "source": "{{inputs.parameters.x}}" + "a" * 200_000},
        },
    ),
    attack(
        "each of a thousand tasks depends on each of a thousand items",
        (STATUS, *TIME),
        dag(call(withSequence={"count": "640"}, when="1 == 2"), *(
            {**each, "depends": "a"} for each in numbered(640, call(when="1 == 2"))
        )),
        task(),
    ),
]  # fmt: skip


class Heartbeat:
    """Counts how long the event loop does nothing, in ticks of a thread: both suffer if the machine is busy."""

    def __init__(self) -> None:
        self.longest = self.beats = 0
        self._ticks = self._last = 0
        self._over = threading.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        thread = threading.Thread(target=self._tick)
        beat = asyncio.create_task(self._beat())
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            beat.cancel()
            await asyncio.to_thread(thread.join)

    def _tick(self) -> None:
        while not self._over.wait(0.01):
            self._ticks += 1

    async def _beat(self) -> None:
        while True:
            self.longest, self._last = max(self.longest, self._ticks - self._last), self._ticks
            self.beats += 1
            await asyncio.sleep(0.001)


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[tuple[Stage, Heartbeat]]:
    heart = Heartbeat()
    async with stage(tmp_path, BUDGETS) as found, heart.running():
        yield found, heart


async def ended(found: Stage, name: str) -> Object:
    """Returns the status, once the workflow has ended, with the nodes."""
    while True:
        seen = found.cluster.peek(WORKFLOW, Key("default", name))
        if seen is not None and status_of(seen).get("phase") in ("Succeeded", "Failed", "Error"):
            return status_of(found.workflow(name))
        await asyncio.sleep(0.01)


def memory() -> int:
    """The most memory that this process has used, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def messages(status: Object) -> str:
    nodes = (status.get("nodes") or {}).values()
    return "\n".join([str(status.get("message")), *(str(node.get("message")) for node in nodes)])


@pytest.mark.parametrize(("budgets", "templates", "spec"), ATTACKS)
async def test_a_workflow_that_takes_too_much_is_ended(
    watched: tuple[Stage, Heartbeat], budgets: tuple[str, ...], templates: tuple[Object, ...], spec: Object
) -> None:
    found, heart = watched
    before = memory()
    await found.create("hostile", *templates, **spec)
    heart.longest = 0
    status = await ended(found, "hostile")
    assert status["phase"] in ("Failed", "Error")
    assert any(budget in messages(status) for budget in budgets), status["message"]
    assert len(status.get("nodes") or {}) <= BUDGETS.workflow_nodes
    assert memory() - before < MOST_MEGABYTES
    assert heart.longest < MOST_TICKS
    await found.restart()
    await found.create("afterwards", steps(call(when="1 == 2")), task())
    assert (await ended(found, "afterwards"))["phase"] == "Succeeded"
