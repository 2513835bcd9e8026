"""`muster debug`: which Pod is meant, and a shell in a node that failed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from muster.cli.debug import NodePod, choose_pod, pods_of_workflow_node
from muster.cli.errors import CommandError
from muster.platform.users.credentials import local_token, platform_folder
from muster.server.pidfile import running_server
from tests.cli.commands import Muster
from tests.platform.graphs.samples import graph, node
from tests.server.platform.served import Client


def _workflow(**nodes: dict[str, Any]) -> dict[str, Any]:
    made = {name: {"id": name, "name": f"w.{name}", "displayName": name, **more} for name, more in nodes.items()}
    return {"metadata": {"name": "w", "namespace": "n"}, "status": {"nodes": made}}


def _pod(phase: str, started: str = "1", **more: Any) -> dict[str, Any]:
    return {"type": "Pod", "phase": phase, "startedAt": started, "templateName": "work", **more}


def test_the_pods_of_a_node_are_those_of_its_attempts() -> None:
    retry = {"type": "Retry", "phase": "Failed", "children": ["fit(0)", "fit(1)"]}
    found = pods_of_workflow_node(
        _workflow(
            **{"fit": retry, "fit(0)": _pod("Failed", "1"), "fit(1)": _pod("Error", "2"), "other": _pod("Failed")}
        ),
        "fit",
        "n",
    )
    assert [(each.namespace, each.state) for each in found] == [("n", "Error"), ("n", "Failed")]
    assert len(pods_of_workflow_node(_workflow(a=_pod("Failed"), b=_pod("Failed")), "work", "n")) == 2
    with pytest.raises(CommandError, match='has no node "x"; its nodes: a, b'):
        pods_of_workflow_node(_workflow(a=_pod("Failed"), b=_pod("Failed")), "x", "n")


@pytest.mark.parametrize(
    ("states", "wanted", "chosen"),
    [
        (["Running", "Failed", "Failed"], "", "p1"),
        (["Succeeded", "Running"], "", "p1"),
        (["Error", "Running"], "", "p0"),
        (["Error", "Running"], "p1", "p1"),
    ],
)
def test_the_newest_pod_that_failed_is_meant(states: list[str], wanted: str, chosen: str) -> None:
    pods = [NodePod(f"p{number}", "n", state) for number, state in enumerate(states)]
    assert choose_pod(pods, wanted, "it").name == chosen


@pytest.mark.parametrize(
    ("states", "wanted", "message"),
    [
        ([], "", "it has no Pod that failed or runs: none"),
        (["Succeeded"], "", r"it has no Pod that failed or runs: p0 \(Succeeded\)"),
        (["Failed"], "p9", 'it has no Pod "p9"; it has p0'),
    ],
)
def test_a_node_without_such_a_pod(states: list[str], wanted: str, message: str) -> None:
    pods = [NodePod(f"p{number}", "n", state) for number, state in enumerate(states)]
    with pytest.raises(CommandError, match=message):
        choose_pod(pods, wanted, "it")


_WORKFLOW = """
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {name: broken}
spec:
  entrypoint: main
  templates:
  - name: main
    steps: [[{name: fit, template: fit}]]
  - name: fit
    inputs: {artifacts: [{name: in, path: /tmp/in.txt, raw: {data: given}}]}
    container:
      image: busybox
      env: [{name: RATE, value: "0.1"}]
      command: [sh, -c, "echo half > /tmp/checkpoint; echo no data >&2; exit 3"]
"""


@pytest.mark.slow
@pytest.mark.smoke
def test_a_failed_node_is_entered_changed_and_retried(
    muster: Muster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "data"
    place.mkdir()
    muster("up", "-d").ok()

    muster.file("broken.yaml", _WORKFLOW)
    muster("submit", "broken.yaml", "--wait")
    looked = muster("debug", "workflow/broken", "fit", "--", "sh", "-c", "cat /tmp/in.txt /tmp/checkpoint; echo $RATE")
    assert looked.ok().out == "givenhalf\n0.1\n"
    assert muster("debug", "@latest", "fit", "--", "sh", "-c", "exit 4").code == 4

    muster("storage", "create", "data", str(place)).ok()
    script = f"echo tried >> /tmp/notes; cat {place}/wanted"
    document = graph(node("say", command=script, storage=[{"root": "data"}]))
    (tmp_path / "graph.json").write_text(json.dumps(document))
    muster("workflows", "create", "greet", "-f", str(tmp_path / "graph.json")).ok()
    run = muster("runs", "create", "greet", "--wait").out.strip()
    assert muster("debug", run, "say", "--", "cat", "/tmp/notes").ok().out == "tried\n"
    muster("debug", run, "say", "--", "sh", "-c", f"echo fixed > {place}/wanted").ok()
    muster("runs", "retry", run, "--wait").ok()
    assert muster("runs", "logs", run, "say").ok().out == "fixed\n"
    refused = muster("debug", run, "say", "--", "true")
    assert (refused.code, "has no Pod that failed or runs" in refused.err) == (1, True)

    # A member has no rights to Pods of runs in the cluster, and enters their own run through the platform.
    server = running_server(muster.home)
    assert server is not None
    monkeypatch.setenv("MUSTER_URL", server.web)
    monkeypatch.setenv("MUSTER_TOKEN", asyncio.run(member_token(server.web, muster.home)))
    (tmp_path / "graph.json").write_text(json.dumps(graph(node("say", command="echo mine > /tmp/notes; exit 1"))))
    muster("workflows", "create", "own", "-f", str(tmp_path / "graph.json")).ok()
    run = muster("runs", "create", "own", "--wait").out.strip()
    looked = muster("debug", run, "say", "--", "sh", "-c", "cat /tmp/notes; cat", input="more\n")
    assert looked.ok().out == "mine\nmore\n"
    assert muster("debug", run, "say", "--", "sh", "-c", "exit 4").code == 4
    refused = muster("debug", run, "say", "--container", "no", "--", "true")
    assert (refused.code, "choose one of: [main]" in refused.err) == (1, True), refused


async def member_token(url: str, home: Path) -> str:
    admin, browser = Client(url, local_token(platform_folder(home))), Client(url)
    account = {"name": "ann", "password": "correct horse battery"}
    await admin.post("users", account)
    await browser.post("session", account)
    return str((await browser.post("tokens", {"name": "script"}))["secret"])
