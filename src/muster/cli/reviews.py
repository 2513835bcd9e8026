"""`muster reviews ...`: what waits for somebody to decide, and what was decided."""

from __future__ import annotations

from typing import Annotated

import typer

from muster.cli.output import say
from muster.cli.platform import platform
from muster.cli.users import Json, Most, Search, moment, show

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, no_args_is_help=True, help="Reviews, by which modules are published."
)

_Review = Annotated[str, typer.Argument(metavar="REVIEW", help="Its id.")]


@app.command("list")
def list_reviews(
    q: Search = "",
    state: Annotated[str, typer.Option("--state", help="open, approved, rejected or withdrawn.")] = "",
    module: Annotated[str, typer.Option("--module", help="Only those of this module.")] = "",
    author: Annotated[str, typer.Option("--author", help="Only those that this user asked for.")] = "",
    mine: Annotated[bool, typer.Option("--mine", help="Only those that I asked for.")] = False,
    most: Most = 100,
    as_json: Json = False,
) -> None:
    """List reviews, the newest first: one's own, those of a team one leads, all for an admin."""
    with platform() as muster:
        found = list(muster.reviews.list(q=q, state=state, module=module, author=author, mine=mine, most=most))
    rows = [
        (r.id, r.module_name, r.number, r.author_name, r.state, r.decided_by_name or "", moment(r.created), r.reason)
        for r in found
    ]
    show(found, ["ID", "MODULE", "VERSION", "AUTHOR", "STATE", "DECIDED BY", "CREATED", "REASON"], rows, as_json)


@app.command("approve")
def approve(
    review: _Review, reason: Annotated[str, typer.Option("--reason", "-m", help="What is to be said to it.")] = ""
) -> None:
    """Publish a module."""
    with platform() as muster:
        done = muster.reviews.approve(review, reason)
    say(f"{done.module_name}@{done.number} is published")


@app.command("reject")
def reject(
    review: _Review, reason: Annotated[str, typer.Option("--reason", "-m", help="What the author is to mend.")]
) -> None:
    """Do not publish a module, and say why."""
    with platform() as muster:
        done = muster.reviews.reject(review, reason)
    say(f"{done.module_name}@{done.number} is rejected")


@app.command("withdraw")
def withdraw(review: _Review) -> None:
    """Take back what one asked for."""
    with platform() as muster:
        done = muster.reviews.withdraw(review)
    say(f"{done.module_name}@{done.number} is private again")
