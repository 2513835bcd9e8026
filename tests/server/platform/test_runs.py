"""Runs over HTTP on a complete Muster, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import update

from muster.kube.builtin import POD, SECRET
from muster.kube.encryption import KEY_FILE, KeyRing
from muster.platform.database.database import Database
from muster.platform.database.tables import runs
from muster.workflows.kinds import WORKFLOW
from tests.platform.graphs.samples import SEED_LOG, graph, node, seed_example
from tests.server.platform.served import Client
from tests.server.platform.whole import Whole, ended, events, eventually, states, stored, until, whole_muster


@pytest.fixture
async def muster(tmp_path: Path, database_url: str) -> AsyncIterator[Whole]:
    async with whole_muster(tmp_path / "home", database_url) as running:
        yield running


async def log(client: Client, run: str, name: str, query: str = "") -> str:
    return str(await client.get(f"runs/{run}/nodes/{name}/log{query}"))


async def test_the_example_prints_its_five_lines(muster: Whole) -> None:
    admin = muster.admin
    await stored(admin, "参数类型说明", seed_example())
    run = await admin.post("runs", {"workflow": "参数类型说明", "name": "first"})
    assert run["state"] == "waiting"
    done = await ended(admin, run["id"])
    assert (done["state"], done["done"], states(done)) == ("succeeded", 2, {"step1": "succeeded", "step2": "succeeded"})
    assert (await log(admin, run["id"], "step2")).splitlines() == SEED_LOG

    shown = await admin.get(f"runs/{run['id']}/nodes/step2")
    assert {i["name"]: (i["type"], i["value"], i["origin"]) for i in shown["inputs"]} == {
        "step1param1": ("text", "outpraram1", "step1.output_param1"),
        "step1param2": ("file", "/tmp/outpraram2.txt", "step1.output_param2"),
        "step1param3": ("file", "/tmp/outpraram3", "step1.output_param3"),
    }
    assert shown["command"].startswith("echo $step1param1")
    assert (shown["working_dir"], shown["resources"]) == ("/tmp/workflow_space", {"cpu": "100m", "memory": "1000M"})
    assert [(a["number"], a["state"], a["exit_code"]) for a in shown["attempt_list"]] == [(1, "succeeded", "0")]
    first = await admin.get(f"runs/{run['id']}/nodes/step1")
    assert [(o["name"], o["value"], o["ready"]) for o in first["outputs"]] == [
        ("output_param1", "outpraram1", True),
        ("output_param2", "/tmp/outpraram2.txt", True),
        ("output_param3", "/tmp/outpraram3", True),
    ]
    assert await admin.get(f"runs/{run['id']}/nodes/step1/outputs/output_param1") == "outpraram1"
    file = await admin("GET", f"runs/{run['id']}/nodes/step1/outputs/output_param2")
    assert file.ok().strip() in SEED_LOG, "the file itself, not an archive"
    assert file.headers["Content-Disposition"] == 'attachment; filename="outpraram2.txt"'
    (pod,) = await admin.get(f"runs/{run['id']}/nodes/step2/pods")
    assert (pod["phase"], {c["name"]: c["exit_code"] for c in pod["containers"]}["main"]) == ("Succeeded", 0)
    happened = await admin.get(f"runs/{run['id']}/nodes/step2/events")
    assert "Scheduled" in [event["reason"] for event in happened]


async def test_values_are_checked_and_reach_the_nodes(muster: Whole) -> None:
    admin = muster.admin
    document = graph(
        node(
            "say",
            command='echo "$who $AI_HUB_WORKFLOW_RUN_ID"',
            inputs=[{"name": "who", "from": {"parameter": "name"}}],
        ),
        parameters=[{"name": "name", "required": True}, {"name": "more", "default": "x"}],
    )
    await stored(admin, "greet", document)
    refused = (await admin("POST", "runs", {"workflow": "greet", "parameters": {"nmae": "Ann"}})).refused(422)
    assert {error["field"] for error in refused["errors"]} == {"parameters.nmae", "parameters.name"}
    assert (await admin("POST", "runs", {"workflow": "nobody"})).refused(404)
    run = await admin.post("runs", {"workflow": "greet", "parameters": {"name": "Ann"}})
    assert run["name"] == "greet v1"
    await ended(admin, run["id"])
    assert await log(admin, run["id"], "say") == f"Ann {run['id']}\n"
    copy = await admin.post(f"runs/{run['id']}/copy", {"parameters": {"name": "Bob"}, "name": "again"})
    await ended(admin, copy["id"])
    assert await log(admin, copy["id"], "say") == f"Bob {copy['id']}\n"
    assert (await admin.get(f"runs/{copy['id']}"))["copied_from"] == run["id"]
    assert [r["name"] for r in (await admin.get("runs?workflow=greet&state=succeeded&sort=name"))["items"]] == [
        "again",
        "greet v1",
    ]
    assert (await admin.get("runs?q=again&limit=1"))["total"] == 1
    assert (await admin.get("runs?owner=nobody"))["total"] == 0
    assert (await admin.get("runs/states"))["succeeded"] == 2


async def test_a_retry_does_not_repeat_succeeded_nodes(muster: Whole, tmp_path: Path) -> None:
    admin, place = muster.admin, tmp_path / "shared"
    place.mkdir()
    await admin.post("storage", {"name": "shared", "path": str(place)})
    mounted = [{"root": "shared"}]
    document = graph(
        node("a", command=f"echo a >> {place}/ran", storage=mounted),
        node("b", command=f"echo b >> {place}/ran; echo trying; cat {place}/wanted", storage=mounted),
        node("c", command="echo c"),
        edges="a>b b>c",
    )
    await stored(admin, "flaky", document)
    run = await admin.post("runs", {"workflow": "flaky"})
    failed = await ended(admin, run["id"])
    assert (failed["state"], states(failed)) == ("failed", {"a": "succeeded", "b": "failed", "c": "skipped"})
    assert failed["message"].startswith("b: ")
    assert "Conflict" not in (await admin("POST", f"runs/{run['id']}/stop")).refused(409)["detail"]

    (place / "wanted").write_text("now\n")
    again = await admin.post(f"runs/{run['id']}/retry")
    assert again["state"] != "failed"
    done = await ended(admin, run["id"])
    assert (done["state"], done["retries"]) == ("succeeded", 1)
    assert (place / "ran").read_text() == "a\nb\nb\n"
    shown = await admin.get(f"runs/{run['id']}/nodes/b")
    assert [(a["number"], a["state"]) for a in shown["attempt_list"]] == [(1, "failed"), (2, "succeeded")]
    assert (await log(admin, run["id"], "b", "?attempt=1")).splitlines()[0] == "trying"
    assert "now" not in await log(admin, run["id"], "b", "?attempt=1")
    assert await log(admin, run["id"], "b") == "trying\nnow\n"
    assert [n["attempts"] for n in done["node_states"]] == [1, 2, 1]
    (await admin("POST", f"runs/{run['id']}/retry")).refused(409)


async def test_a_retry_of_a_loop_repeats_only_the_items_that_failed(muster: Whole, tmp_path: Path) -> None:
    admin, place = muster.admin, tmp_path / "shared"
    place.mkdir()
    await admin.post("storage", {"name": "shared", "path": str(place)})
    command = f'echo "$item" >> {place}/ran; [ "$item" != bad ] || cat {place}/wanted && echo "$item" > /tmp/o'
    outputs = [{"name": "o", "path": "/tmp/o"}]
    document = graph(
        node("try", command=command, storage=[{"root": "shared"}], loop={"items": ["a", "bad", "c"]}, outputs=outputs),
        node("say", command='echo "$all"', inputs=[{"name": "all", "from": {"node": "try", "output": "o"}}]),
        edges="try>say",
    )
    await stored(admin, "flaky loop", document)
    run = await admin.post("runs", {"workflow": "flaky loop"})
    failed = await ended(admin, run["id"])
    items = {"try(0:a)": "succeeded", "try(1:bad)": "failed", "try(2:c)": "succeeded"}
    assert items.items() <= states(failed).items()

    (place / "wanted").write_text("now\n")
    await admin.post(f"runs/{run['id']}/retry")
    done = await ended(admin, run["id"])
    assert done["state"] == "succeeded"
    assert sorted((place / "ran").read_text().split()) == ["a", "bad", "bad", "c"]
    attempts = {n["name"]: n["attempts"] for n in done["node_states"] if n["name"] in items}
    assert attempts == {"try(0:a)": 1, "try(1:bad)": 2, "try(2:c)": 1}
    assert json.loads(await log(admin, run["id"], "say")) == ["a", "bad", "c"]


async def test_a_retry_that_was_not_recorded_is_recorded_when_repeated(
    muster: Whole, tmp_path: Path, database_url: str
) -> None:
    """As after kill -9 between the write to the cluster and the write to the database."""
    admin, place = muster.admin, tmp_path / "shared"
    place.mkdir()
    await admin.post("storage", {"name": "shared", "path": str(place)})
    gate = f"until test -e {place}/go; do sleep 0.05; done"
    await stored(admin, "gate", graph(node("a", command=gate, storage=[{"root": "shared"}])))
    run = (await admin.post("runs", {"workflow": "gate"}))["id"]
    await until(admin, run, lambda shown: states(shown)["a"] == "running")
    database = await Database.open(database_url, keys=KeyRing.load(muster.home / KEY_FILE))
    forgotten = update(runs).where(runs.c.id == run).values(state="stopped")

    async def asked_again() -> bool:
        """May fail if a status update of the running node is recorded in between."""
        await database.write(lambda connection: connection.execute(forgotten))
        return "cannot be retried now" in (await admin("POST", f"runs/{run}/retry")).refused(409)["detail"]

    await eventually(asked_again)
    assert (await admin.get(f"runs/{run}"))["state"] == "running"
    database.close()
    (place / "go").touch()
    assert (await ended(admin, run))["state"] == "succeeded"


async def test_a_members_manifest_cannot_reach_objects_of_others(muster: Whole) -> None:
    """The token of another user's run is in a Secret of another namespace."""
    admin, bob = muster.admin, await muster.member("bob")
    await stored(admin, "mine", graph(node("a")))
    run = await admin.post("runs", {"workflow": "mine"})
    await ended(admin, run["id"])
    grab = {"name": "T", "valueFrom": {"secretKeyRef": {"name": f"run-{run['id']}", "key": "AI_HUB_TOKEN"}}}
    manifest = orjson.dumps(
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Workflow",
            "metadata": {"generateName": "grab-"},
            "spec": {
                "entrypoint": "a",
                "templates": [
                    {"name": "a", "container": {"image": "x", "command": ["sh", "-c", "echo $T"], "env": [grab]}}
                ],
            },
        }
    ).decode()
    document = {"format": 1, "type": "yaml", "manifest": manifest}
    new = {"name": "grab", "version": {"document": document}}
    told = (await bob("POST", "workflows", new)).refused(422)["errors"][0]["message"]
    assert f'the Secret "run-{run["id"]}" is neither in your namespace nor shared with you' in told
    found = await bob.post("graphs/check", {"document": document})
    assert [problem["code"] for problem in found["problems"]] == ["manifest.confined"]

    await admin.post("workflows", new)
    told = (await bob("POST", "runs", {"workflow": "grab"})).refused(422)["errors"][0]["message"]
    assert "is neither in your namespace nor shared" in told, (
        "an admin's version has the rights of the user who runs it"
    )


async def test_attempts_of_a_node_are_counted_and_have_their_own_logs(muster: Whole) -> None:
    admin = muster.admin
    await stored(admin, "thrice", graph(node("a", command="echo {{retries}} $HOSTNAME; exit 1", retries=2)))
    run = await admin.post("runs", {"workflow": "thrice"})
    done = await ended(admin, run["id"])
    assert [n["attempts"] for n in done["node_states"]] == [3]
    shown = await admin.get(f"runs/{run['id']}/nodes/a")
    assert [(a["number"], a["state"], a["exit_code"]) for a in shown["attempt_list"]] == [
        (n, "failed", "1") for n in (1, 2, 3)
    ]
    assert len({await log(admin, run["id"], "a", f"?attempt={n}&times=true") for n in (1, 2, 3)}) == 3
    (await admin("GET", f"runs/{run['id']}/nodes/a/log?attempt=4")).refused(422)


async def test_stop_and_delete_leave_nothing_behind(muster: Whole) -> None:
    admin = muster.admin
    await stored(admin, "long", graph(node("a", command="echo begun; sleep 600"), node("b"), edges="a>b"))
    run = await admin.post("runs", {"workflow": "long"})
    await until(admin, run["id"], lambda r: states(r)["a"] == "running")
    await admin.post(f"runs/{run['id']}/stop")
    stopped = await ended(admin, run["id"])
    assert (stopped["state"], states(stopped)) == ("stopped", {"a": "stopped", "b": "skipped"})
    assert stopped["message"] == f"Stopped by {stopped['owner_name']}"
    (await admin("DELETE", f"runs/{run['id']}")).ok()
    (await admin("GET", f"runs/{run['id']}")).refused(404)

    async def nothing_left() -> bool:
        return not (await muster.cluster.list(WORKFLOW)).items and not (await muster.cluster.list(POD)).items

    await eventually(nothing_left)
    assert not [
        s for s in (await muster.cluster.list(SECRET, "default")).items if s["metadata"]["name"].startswith("run-")
    ]


async def test_log_lines_and_states_are_streamed_once(muster: Whole, tmp_path: Path) -> None:
    admin, place = muster.admin, tmp_path / "shared"
    place.mkdir()
    await admin.post("storage", {"name": "shared", "path": str(place)})
    command = f"echo 1; echo 2; until test -e {place}/go; do sleep 0.05; done; echo 3; echo 4"
    await stored(admin, "talk", graph(node("a", command=command, storage=[{"root": "shared"}])))
    run = await admin.post("runs", {"workflow": "talk"})
    path = f"runs/{run['id']}/nodes/a/log/events"
    first = [event async for event in events(admin, path, most=2)]
    assert [event["data"]["text"] for event in first] == ["1", "2"]
    (place / "go").touch()
    rest = [event async for event in _to_end(admin, path, first[-1]["id"])]
    assert [event["data"]["text"] for event in rest] == ["3", "4"]
    await ended(admin, run["id"])
    again = [event["data"]["text"] async for event in _to_end(admin, path, first[0]["id"])]
    assert again == ["2", "3", "4"]
    bunched = [event async for event in _to_end(admin, f"{path}?bunches=true", first[0]["id"])]
    assert {event["event"] for event in bunched} == {"lines"}
    assert "".join(event["data"]["text"] for event in bunched) == "2\n3\n4\n"

    seen = [event async for event in events(admin, f"runs/{run['id']}/events", most=1)]
    assert seen[0]["data"]["state"] == "succeeded"
    other = await admin.post("runs", {"workflow": "talk"})
    watched = []
    async for event in events(admin, "runs/events", seen[0]["id"]):
        watched.append((event["data"]["id"], event["data"]["state"]))
        if event["data"]["state"] == "succeeded":
            break
    assert {run_id for run_id, _ in watched} == {other["id"]}


async def _to_end(client: Client, path: str, last: str) -> AsyncIterator[dict[str, Any]]:
    async for event in events(client, path, last):
        if event["event"] == "end":
            return
        yield event


async def test_only_users_with_access_can_read_a_run(muster: Whole) -> None:
    admin = muster.admin
    await admin.post("teams", {"name": "crew"})
    ann, bob, eve = [
        await muster.member(n, t, r)
        for n, t, r in (("ann", "crew", "member"), ("bob", "crew", "leader"), ("eve", "", ""))
    ]
    secret = graph(
        node(
            "a",
            command='echo "key $KEY token $AI_HUB_TOKEN user $AI_HUB_USER_ID"',
            env=[{"name": "KEY", "value": "hunter2!", "secret": True}],
        ),
        parameters=[{"name": "p"}],
    )
    await stored(ann, "hidden", secret, team="crew")
    run = await ann.post("runs", {"workflow": "hidden", "parameters": {"p": "private"}})
    await ended(ann, run["id"])
    owner = (await ann.get(f"runs/{run['id']}"))["owner_id"]
    assert await log(ann, run["id"], "a") == f"key *** token *** user {owner}\n"
    assert "hunter2" not in str(await ann.get(f"runs/{run['id']}/nodes/a"))
    assert (await bob.get(f"runs/{run['id']}"))["may"] == ["inspect", "copy", "stop", "retry"]
    assert (await bob.get(f"runs/{run['id']}"))["parameters"] == {"p": "private"}

    seen = await eve.get(f"runs/{run['id']}")
    assert (seen["state"], seen["parameters"], seen["may"]) == ("succeeded", None, [])
    assert "hunter2" not in str(seen)
    for method, path in (
        ("GET", "/nodes/a"), ("GET", "/nodes/a/log"), ("GET", "/nodes/a/log/events"), ("GET", "/nodes/a/pods"),
        ("GET", "/nodes/a/events"), ("GET", "/nodes/a/outputs/x"), ("POST", "/stop"), ("POST", "/retry"),
        ("DELETE", ""),
    ):  # fmt: skip
        (await eve(method, f"runs/{run['id']}{path}")).refused(403)
    (await eve("POST", f"runs/{run['id']}/copy", {})).refused(403)
    (await bob("DELETE", f"runs/{run['id']}")).refused(403)
    assert "KEY is not for you" in (await eve("POST", "runs", {"workflow": "hidden"})).refused(422)["detail"]
    await stored(ann, "open", graph(node("a")), team="crew")
    mine = await eve.post("runs", {"workflow": "open"})
    assert mine["team_id"] is None, "eve's run does not belong to the team"


async def test_the_token_of_a_run_is_limited_to_it_and_ends_with_it(muster: Whole, tmp_path: Path) -> None:
    admin, place = muster.admin, tmp_path / "shared"
    place.mkdir()
    await admin.post("storage", {"name": "shared", "path": str(place)})
    command = (
        f"printf %s $AI_HUB_TOKEN > {place}/new; mv {place}/new {place}/token; "
        f"until test -e {place}/go; do sleep 0.05; done"
    )
    await stored(admin, "wait", graph(node("a", command=command, storage=[{"root": "shared"}])))
    run, other = [await admin.post("runs", {"workflow": "wait"}) for _ in range(2)]

    async def has_token() -> bool:
        return (place / "token").exists()

    await eventually(has_token)
    await until(admin, run["id"], lambda r: states(r)["a"] == "running")
    tokens = [Client(muster.url, (place / "token").read_text())]
    own = [r["id"] for r in (await tokens[0].get("runs"))["items"]]
    assert own in ([run["id"]], [other["id"]])
    stranger = other["id"] if own == [run["id"]] else run["id"]
    (await tokens[0]("GET", f"runs/{stranger}")).refused(404)
    (await tokens[0]("GET", f"runs/{stranger}/nodes/a/log")).refused(404)
    (await tokens[0]("POST", "runs", {"workflow": "wait"})).refused(403)
    (place / "go").touch()
    await ended(admin, run["id"])
    await ended(admin, other["id"])
    (await tokens[0]("GET", f"runs/{own[0]}")).refused(401)


async def test_a_virtual_cluster_is_limited_to_its_capacity(muster: Whole, tmp_path: Path) -> None:
    admin, place = muster.admin, tmp_path / "shared"
    place.mkdir()
    await admin.post("storage", {"name": "shared", "path": str(place)})
    made = await admin.post("clusters", {"name": "small", "sku": {"cpu": "10m", "memory": "10M"}, "total": 2})
    assert (made["sku"], made["used"]) == ({"cpu": "10m", "memory": "10M"}, 0)
    command = f"until test -e {place}/go; do sleep 0.05; done"
    for name, skus in (("two", 2), ("three", 3)):
        task = {"type": "compute", "cluster": "small", "skus": skus}
        await stored(admin, name, graph(node("a", command=command, task=task, storage=[{"root": "shared"}])))
    refused = (await admin("POST", "runs", {"workflow": "three"})).refused(422)
    assert "needs 3 SKUs" in refused["errors"][0]["message"]
    first = await admin.post("runs", {"workflow": "two"})
    await until(admin, first["id"], lambda r: r["state"] == "running")
    second = await admin.post("runs", {"workflow": "two"})
    waiting = await until(admin, second["id"], lambda r: "SKU" in r["message"] or "queue" in r["message"].lower())
    assert waiting["state"] == "waiting"

    async def is_full() -> bool:
        usage = await admin.get("clusters/small")
        return usage["used"] == 2 and bool(usage["waiting"])

    await eventually(is_full)
    usage = await admin.get("clusters/small")
    assert [(use["run_id"], use["skus"]) for use in usage["uses"]] == [(first["id"], 2)]
    assert [use["run_id"] for use in usage["waiting"]] == [second["id"]]
    (place / "go").touch()
    assert (await ended(admin, second["id"]))["state"] == "succeeded"


async def test_an_output_that_is_too_long_fails_the_node_and_names_it(muster: Whole) -> None:
    admin = muster.admin
    long = node("a", command="head -c 1000 /dev/zero | tr '\\0' x > /tmp/t", outputs=[{"name": "t", "path": "/tmp/t"}])
    await stored(admin, "long", graph(long))
    run = await admin.post("runs", {"workflow": "long"})
    failed = await ended(admin, run["id"])
    assert failed["state"] == "failed"
    assert "output parameter 't'" in failed["message"]
    assert "1000 characters" in failed["message"]


async def test_a_manifest_runs_and_shows_the_nodes_that_it_creates(muster: Whole) -> None:
    admin = muster.admin
    manifest = """\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: a-}
spec:
  entrypoint: main
  templates:
  - name: main
    steps:
    - - {name: one, template: say, arguments: {parameters: [{name: x, value: "1"}]}, withItems: [p, q]}
    - - {name: two, template: say, arguments: {parameters: [{name: x, value: "2"}]}}
  - name: say
    inputs: {parameters: [{name: x}]}
    container: {image: busybox, command: [echo, "{{inputs.parameters.x}}"]}
"""
    await admin.post("workflows", {"name": "steps", "version": {"manifest": manifest}})
    run = await admin.post("runs", {"workflow": "steps"})
    done = await ended(admin, run["id"])
    assert done["state"] == "succeeded"
    assert states(done) == {"[0].one(0:p)": "succeeded", "[0].one(1:q)": "succeeded", "[1].two": "succeeded"}
    assert await log(admin, run["id"], "%5B1%5D.two") == "2\n"
    written = (await admin.get("workflows/steps/versions/1/graph"))["scopes"]
    assert [(n["key"], n["kind"]) for n in written[""]["nodes"]] == [("[0].one", "loop"), ("[1].two", "task")]
    drawn = (await admin.get(f"runs/{run['id']}/graph"))["scopes"]
    assert drawn[""]["edges"] == written[""]["edges"] == [[0, 1]]
    assert [node["key"] for node in drawn[drawn[""]["nodes"][0]["inside"]]["nodes"]] == ["(0:p)", "(1:q)"]


async def test_a_client_that_has_a_run_gets_only_what_changes(muster: Whole) -> None:
    admin = muster.admin
    manifest = """\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: a-}
spec:
  entrypoint: main
  templates:
  - name: main
    dag: {tasks: [{name: a, template: fail}, {name: b, template: fail, depends: a}]}
  - name: fail
    container: {image: busybox, command: ["false"]}
"""
    await admin.post("workflows", {"name": "fails", "version": {"manifest": manifest}})
    run = (await admin.post("runs", {"workflow": "fails"}))["id"]
    assert (await ended(admin, run))["state"] == "failed"
    # Nothing of it is repeated, so it is drawn as its version.
    assert await admin.get(f"runs/{run}/graph") == await admin.get("workflows/fails/versions/1/graph")
    known = await admin.get(f"runs/{run}")

    async def first_event(after: str) -> dict[str, Any]:
        (event,) = [event async for event in events(admin, f"runs/{run}/events?after={after}", most=1)]
        return event

    news = asyncio.create_task(first_event(known["last_event"]))
    await admin.post(f"runs/{run}/retry", {})
    assert (await news)["data"]["state"] in ("waiting", "running")
    # One that the server does not know is as none: the whole run is sent.
    assert (await first_event("unknown"))["data"]["id"] == run
