"""Webhooks as they are stored: their form, who has which, which messages a run's end makes, and when they are tried
again; on SQLite and on PostgreSQL."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import replace
from datetime import timedelta

import orjson
import pytest
from sqlalchemy import Connection, func, select, update

from muster.platform.database.database import Database
from muster.platform.database.queries import PageRequest
from muster.platform.database.tables import memberships, now, users, webhook_deliveries, webhooks
from muster.platform.errors import ForbiddenProblem, InvalidProblem, NotFoundProblem
from muster.platform.messages import field_error
from muster.platform.permissions import SYSTEM, Actor
from muster.platform.records.runs import Run
from muster.platform.runs.runs import get_run, store_end, store_status
from muster.platform.users.teams import create_team
from muster.platform.webhooks.deliveries import (
    KEPT,
    find_due,
    list_deliveries,
    redeliver,
    send_test,
    store_result,
    wait_before,
)
from muster.platform.webhooks.signature import sign, signing_key
from muster.platform.webhooks.webhooks import (
    WebhookFields,
    create_webhook,
    delete_webhook,
    edit_webhook,
    find_target,
    get_webhook,
    list_webhooks,
    shown_address,
    url_problem,
)
from tests.platform.runs.test_runs_persist import begun, look, new_actor, with_workflow

URL = "https://hooks.example/services/T0/token"
SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()


@pytest.mark.parametrize(
    ("url", "code"),
    [
        (URL, ""),
        ("http://10.0.0.1:8080", ""),
        ("https://[2001:db8::1]/x", ""),
        ("", "webhook.url"),
        ("hooks.example/x", "webhook.url"),
        ("ftp://hooks.example", "webhook.url"),
        ("file:///etc/passwd", "webhook.url"),
        ("https://", "webhook.url"),
        ("https://host:99999/", "webhook.url"),
        ("https://host:0/", "webhook.url"),
        ("https://ho st/", "webhook.url"),
        ("https://host/\r\nX: y", "webhook.url"),
        ("https://[1/", "webhook.url"),
        ("https://user:password@host/", "webhook.credentials"),
        ("https://host/" + "a" * 2000, "webhook.url"),
    ],
)
def test_the_form_of_a_url(url: str, code: str) -> None:
    problem = url_problem(url)
    assert (problem.code if problem else "") == code


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (URL, "https://hooks.example/…"),
        ("http://h:8080", "http://h:8080"),
        ("http://h/", "http://h"),
        ("http://h/?token=1", "http://h/…"),
    ],
)
def test_only_the_host_of_a_url_is_shown(url: str, shown: str) -> None:
    assert shown_address(url) == shown


def test_the_signature_is_that_of_standard_webhooks() -> None:
    # The example of the specification's own libraries.
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    assert (
        sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, '{"test": 2432232314}')
        == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    )
    text = "any text that is long enough"
    expected = base64.b64encode(hmac.digest(text.encode(), b"i.1.b", hashlib.sha256)).decode()
    assert sign(text, "i", 1, "b") == f"v1,{expected}"
    assert signing_key("whsec_no base64") == b"whsec_no base64"


def test_the_waits_between_attempts() -> None:
    waits = [wait_before(attempt) for attempt in range(1, 10)]
    assert waits[:3] == [timedelta(seconds=10), timedelta(minutes=1), timedelta(minutes=5)]
    assert waits[7:] == [None, None], "then it gives up"
    real = [wait for wait in waits if wait is not None]
    assert real == sorted(real)


async def test_who_has_which_webhook_and_what_is_shown_of_it(database: Database) -> None:
    def story(connection: Connection) -> None:
        ann, bob = new_actor(connection, "ann"), new_actor(connection, "bob")
        team = create_team(connection, SYSTEM, "vision").id
        connection.execute(memberships.insert().values(team_id=team, user_id=ann.id, role="member", created=now()))
        ann = replace(ann, teams={team: "member"})
        own = create_webhook(connection, ann, WebhookFields("chat", URL, SECRET))
        shared = create_webhook(connection, ann, WebhookFields("team chat", URL, None, team="vision"))
        assert (own.address, own.has_secret, shared.has_secret) == ("https://hooks.example/…", True, False)
        assert "token" not in str(own) and SECRET not in str(own)
        stored = connection.execute(select(webhooks)).all()
        assert "token" not in str(stored) and SECRET not in str(stored), "they are encrypted"
        assert find_target(connection, own.id) == (URL, SECRET)

        with pytest.raises(NotFoundProblem):
            get_webhook(connection, bob, own.id)
        with pytest.raises(ForbiddenProblem):
            create_webhook(connection, bob, WebhookFields("mine", URL, team="vision"))
        member = replace(bob, teams={team: "member"})
        assert [each.name for each in list_webhooks(connection, member, PageRequest()).items] == ["team chat"]
        with pytest.raises(ForbiddenProblem):
            edit_webhook(connection, member, shared.id, {"enabled": False})
        leader = replace(bob, teams={team: "leader"})
        assert not edit_webhook(connection, leader, shared.id, {"enabled": False}).enabled
        gone = replace(ann, teams={})
        assert [each.name for each in list_webhooks(connection, gone, PageRequest()).items] == ["chat"]
        with pytest.raises(NotFoundProblem):
            edit_webhook(connection, gone, shared.id, {"enabled": True})
        assert [each.name for each in list_webhooks(connection, ann, PageRequest(), team="vision").items] == [
            "team chat"
        ]
        assert [each.name for each in list_webhooks(connection, ann, PageRequest(), mine=True).items] == ["chat"]

        # A secret is not signed with for a receiver that whoever changed the URL has chosen.
        with pytest.raises(InvalidProblem) as caught:
            edit_webhook(connection, ann, own.id, {"url": "https://other.example/"})
        assert caught.value.errors[0].code == "webhook.secret-again"
        edited = edit_webhook(connection, ann, own.id, {"url": "https://other.example/", "secret": ""})
        assert (edited.address, edited.has_secret, edited.revision) == ("https://other.example", False, 2)
        assert find_target(connection, own.id) == ("https://other.example/", "")
        faults: list[dict[str, object]] = [
            {"name": ""},
            {"states": []},
            {"secret": "short"},
            {"workflow": "nothing"},
            {"url": "x"},
        ]
        for wrong in faults:
            with pytest.raises(InvalidProblem):
                edit_webhook(connection, ann, own.id, wrong)
        delete_webhook(connection, ann, own.id)
        assert connection.execute(select(func.count()).select_from(webhooks)).scalar_one() == 1

    await database.write(story)


def _sent(connection: Connection, webhook: str) -> list[tuple[str, str]]:
    query = select(webhook_deliveries.c.run_name, webhook_deliveries.c.run_state).order_by(webhook_deliveries.c.id)
    return [(row.run_name, row.run_state) for row in connection.execute(query.where(_of(webhook)))]


def _of(webhook: str):  # type: ignore[no-untyped-def]
    return webhook_deliveries.c.webhook_id == webhook


async def test_which_ends_of_runs_make_a_message(database: Database) -> None:
    def story(connection: Connection) -> None:
        ann, bob = new_actor(connection, "ann"), new_actor(connection, "bob")
        team = create_team(connection, SYSTEM, "vision").id
        for each in (ann, bob):
            row = {"team_id": team, "user_id": each.id, "role": "member", "created": now()}
            connection.execute(memberships.insert().values(**row))
        ann, bob = (replace(each, teams={team: "member"}) for each in (ann, bob))
        with_workflow(connection, ann)
        with_workflow(connection, ann, "other")
        everything = create_webhook(connection, ann, WebhookFields("all", URL)).id
        failures = create_webhook(connection, ann, WebhookFields("failures", URL, states=["failed"])).id
        one = create_webhook(connection, ann, WebhookFields("one", URL, workflow="other")).id
        off = create_webhook(connection, ann, WebhookFields("off", URL, enabled=False)).id
        shared = create_webhook(connection, bob, WebhookFields("team", URL, team="vision")).id

        def end(actor: Actor, name: str, state: str, **more: object) -> Run:
            run = begun(connection, actor, name=name, **more)  # type: ignore[arg-type]
            store_status(connection, {run.id: look("running")})
            store_status(connection, {run.id: look(state, version="2")})
            return run

        good = end(ann, "good", "succeeded", tags=["data=june"])
        end(ann, "bad", "failed", workflow="other")
        end(ann, "shared", "stopped", team="vision")
        end(bob, "of bob", "succeeded")
        assert _sent(connection, everything) == [("good", "succeeded"), ("bad", "failed"), ("shared", "stopped")]
        assert _sent(connection, failures) == [("bad", "failed")]
        assert _sent(connection, one) == [("bad", "failed")]
        assert _sent(connection, off) == []
        assert _sent(connection, shared) == [("shared", "stopped")]

        (body,) = connection.execute(
            select(webhook_deliveries.c.body).where(_of(everything), webhook_deliveries.c.run_id == good.id)
        ).scalars()
        message = orjson.loads(body)
        assert (message["type"], message["run"]["state"], message["run"]["tags"]) == (
            "run.ended",
            "succeeded",
            ["data=june"],
        )
        assert "parameters" not in message["run"], "they are not for all users"

        # The same status again is the same end; a retry ends once more, even if nothing was seen of it in between.
        before = len(_sent(connection, everything))
        store_status(connection, {good.id: look("succeeded", version="3")})
        assert len(_sent(connection, everything)) == before
        store_status(connection, {good.id: look("failed", version="4", round=1)})
        assert _sent(connection, everything)[before:] == [("good", "failed")]
        # A run that ends without a Workflow.
        lost = begun(connection, ann, name="lost")
        store_end(connection, lost.id, "failed", "gone")
        assert store_end(connection, lost.id, "failed", "gone") is None
        assert _sent(connection, everything)[before + 1 :] == [("lost", "failed")]

        # A user who has left the team or is disabled gets nothing more.
        connection.execute(memberships.delete().where(memberships.c.user_id == bob.id))
        end(ann, "shared again", "failed", team="vision")
        assert _sent(connection, shared) == [("shared", "stopped")]
        connection.execute(update(users).where(users.c.id == ann.id).values(disabled=True))
        count = len(_sent(connection, everything))
        end(ann, "disabled", "failed")
        assert len(_sent(connection, everything)) == count
        assert get_run(connection, ann, good.id).state == "failed"

    await database.write(story)


async def test_a_message_waits_longer_after_each_attempt_and_is_logged(database: Database) -> None:
    def story(connection: Connection) -> None:
        ann = new_actor(connection, "ann")
        with_workflow(connection, ann)
        hook = create_webhook(connection, ann, WebhookFields("all", URL, SECRET)).id
        for name in ("first", "second"):
            store_end(connection, begun(connection, ann, name=name).id, "failed")
        at = now()
        problem = field_error("", "webhook.status", status=500)
        (due,) = find_due(connection, at, 10)
        assert (due.attempts, due.target) == (0, (URL, SECRET)), "one message of a webhook at a time, the oldest"
        for attempt in range(1, 8):
            store_result(connection, due, 500, problem, at)
            entry = list_deliveries(connection, ann, hook, PageRequest(sort="created")).items[0]
            assert (entry.state, entry.attempts, entry.status) == ("pending", attempt, 500)
            assert entry.due == at + (wait_before(attempt) or timedelta())
            assert entry.error == "the receiver responded with status 500"
            due = replace(due, attempts=attempt)
        store_result(connection, due, 500, problem, at)
        entry = list_deliveries(connection, ann, hook, PageRequest(sort="created")).items[0]
        assert (entry.state, entry.attempts, entry.due) == ("failed", 8, None)

        (other,) = find_due(connection, at, 10)
        assert other.id != due.id, "a message that waits does not hold up the next one"
        store_result(connection, other, 204, None, at)
        assert find_due(connection, at, 10) == []
        again = redeliver(connection, ann, hook, due.id)
        assert (again.id, again.state, again.attempts) == (due.id, "pending", 0)

        test = send_test(connection, ann, hook)
        store_result(connection, replace(due, id=test.id, event="test", attempts=0), 500, problem, at)
        newest = list_deliveries(connection, ann, hook, PageRequest()).items[0]
        assert (newest.event, newest.state) == ("test", "failed"), "a test is tried once"

        for _ in range(KEPT + 5):
            made = send_test(connection, ann, hook)
            store_result(connection, replace(due, id=made.id, event="test"), 200, None, at)
        send_test(connection, ann, hook)
        listed = list_deliveries(connection, ann, hook, PageRequest()).total
        assert listed == KEPT + 2, "the log is short; what waits stays"
        assert due.id in [each.id for each in find_due(connection, now(), 10)]

    await database.write(story)
