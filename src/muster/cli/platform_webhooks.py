"""`muster webhooks`: messages to other programs when a run ends."""

from __future__ import annotations

import sys
import time
from typing import Annotated, cast

import typer

from muster.cli.errors import CommandError, CommandExit
from muster.cli.output import echo, warn
from muster.cli.platform import (
    JsonOption,
    LimitOption,
    check_changes,
    command_group,
    connect_platform,
    format_time,
    given_options,
    print_records,
)
from muster.platform.records.webhooks import END_STATES, EndState, WebhookDetail

webhooks_app = command_group("Manage webhooks, which tell other programs when a run ends.")

_Webhook = Annotated[str, typer.Argument(metavar="WEBHOOK", help="The id of the webhook.")]
_States = Annotated[
    list[str] | None,
    typer.Option("--state", help="Only runs that end in this state: succeeded, failed or stopped; may be repeated."),
]
_TEST_SECONDS = 30.0


@webhooks_app.command("list")
def list_webhooks(
    team: Annotated[str, typer.Option("--team", help="Show only webhooks of this team.")] = "",
    mine: Annotated[bool, typer.Option("--mine", help="Show only your own, without those of teams.")] = False,
    most: LimitOption = 100,
    as_json: JsonOption = False,
) -> None:
    """List webhooks."""
    with connect_platform() as muster:
        found = list(muster.webhooks.list(team=team, mine=mine, most=most))
    headers = ["ID", "NAME", "ADDRESS", "RUNS", "WORKFLOW", "STATES", "ENABLED"]
    print_records(found, headers, [_row(each) for each in found], as_json)


@webhooks_app.command("create")
def create_webhook(
    name: Annotated[str, typer.Argument(help="The name of the webhook.")],
    url: Annotated[str, typer.Argument(help="The URL of the receiver. It cannot be read again.")],
    secret: Annotated[
        str, typer.Option("--secret", help="Signs the messages; - reads it from stdin. It cannot be read again.")
    ] = "",
    team: Annotated[str, typer.Option("--team", help="For the runs of this team. Default: your own runs.")] = "",
    workflow: Annotated[str, typer.Option("--workflow", help="Only for runs of this workflow.")] = "",
    states: _States = None,
) -> None:
    """Create a webhook."""
    with connect_platform() as muster:
        made = muster.webhooks.create(
            name,
            url,
            secret=_read_secret(secret),
            team=team,
            workflow=workflow,
            states=cast(list[EndState], states) if states else END_STATES,  # the server refuses others
        )
    echo(made.id)


@webhooks_app.command("edit")
def edit_webhook(
    webhook: _Webhook,
    name: Annotated[str | None, typer.Option("--name", help="Another name.")] = None,
    url: Annotated[str | None, typer.Option("--url", help="Another URL; it needs --secret again.")] = None,
    secret: Annotated[
        str | None, typer.Option("--secret", help='Another secret; - reads it from stdin, "" removes it.')
    ] = None,
    workflow: Annotated[str | None, typer.Option("--workflow", help='Another workflow; "" for all.')] = None,
    states: _States = None,
    enabled: Annotated[bool | None, typer.Option("--enable/--disable", help="Turn it on or off.")] = None,
) -> None:
    """Change a webhook."""
    read = None if secret is None else _read_secret(secret)
    changes = given_options(name=name, url=url, secret=read, workflow=workflow, states=states, enabled=enabled)
    check_changes(changes, "--name, --url, --secret, --workflow, --state, --enable or --disable")
    with connect_platform() as muster:
        found = muster.webhooks.edit(webhook, **changes)
    echo(f"{found.name} changed")


@webhooks_app.command("delete")
def delete_webhook(webhook: _Webhook) -> None:
    """Delete a webhook and its log."""
    with connect_platform() as muster:
        muster.webhooks.delete(webhook)
    echo(f"{webhook} deleted")


@webhooks_app.command("test")
def test_webhook(webhook: _Webhook) -> None:
    """Send a test message, and wait for its result."""
    with connect_platform() as muster:
        sent = muster.webhooks.test(webhook)
        deadline = time.monotonic() + _TEST_SECONDS
        while sent.state == "pending":
            if time.monotonic() > deadline:
                raise CommandError(f"error: {sent.id} was not sent within {_TEST_SECONDS:.0f} s")
            time.sleep(0.2)
            sent = next((each for each in muster.webhooks.deliveries(webhook) if each.id == sent.id), sent)
    if sent.state == "failed":
        warn(f"{sent.id} failed: {sent.error}")
        raise CommandExit(1)
    echo(f"{sent.id} delivered (status {sent.status})")


@webhooks_app.command("log")
def print_deliveries(webhook: _Webhook, most: LimitOption = 50, as_json: JsonOption = False) -> None:
    """List what was sent and what waits to be sent, newest first."""
    with connect_platform() as muster:
        found = list(muster.webhooks.deliveries(webhook, most=most))
    rows = [
        (
            each.id,
            each.run_name or each.event,
            each.run_state,
            each.state,
            each.attempts,
            "" if each.status is None else each.status,
            format_time(each.tried),
            each.error,
        )
        for each in found
    ]
    print_records(found, ["ID", "RUN", "ENDED", "STATE", "ATTEMPTS", "STATUS", "TRIED", "ERROR"], rows, as_json)


@webhooks_app.command("redeliver")
def redeliver(
    webhook: _Webhook, delivery: Annotated[str, typer.Argument(metavar="DELIVERY", help="The id of the message.")]
) -> None:
    """Send a message again, with the same id."""
    with connect_platform() as muster:
        muster.webhooks.redeliver(webhook, delivery)
    echo(f"{delivery} will be sent again")


def _read_secret(secret: str) -> str:
    return sys.stdin.readline().strip() if secret == "-" else secret  # noqa: S105 (it means stdin)


def _row(each: WebhookDetail) -> tuple[object, ...]:
    whose = f"team {each.team_name}" if each.team_name else each.owner_name
    states = ",".join(each.states)
    return (each.id, each.name, each.address, whose, each.workflow_name or "", states, "yes" if each.enabled else "no")
