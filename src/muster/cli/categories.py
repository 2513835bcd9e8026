"""`muster categories ...`: how modules are grouped."""

from __future__ import annotations

from typing import Annotated

import typer

from muster.cli.failures import Failure
from muster.cli.output import say
from muster.cli.platform import platform
from muster.cli.users import Json, Search, show

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, no_args_is_help=True, help="Categories of modules, for admins."
)

_Category = Annotated[str, typer.Argument(metavar="CATEGORY", help="Its name or id.")]


@app.command("list")
def list_categories(q: Search = "", as_json: Json = False) -> None:
    """List the categories."""
    with platform() as muster:
        found = list(muster.categories.list(q=q))
    show(found, ["NAME", "MODULES", "DESCRIPTION"], [(c.name, c.modules, c.description) for c in found], as_json)


@app.command("create")
def create_category(
    name: Annotated[str, typer.Argument(help="The name of the category.")],
    description: Annotated[str, typer.Option("--description", help="What is in it.")] = "",
) -> None:
    """Create a category."""
    with platform() as muster:
        muster.categories.create(name, description)
    say(f"{name} is there")


@app.command("edit")
def edit_category(
    category: _Category,
    name: Annotated[str | None, typer.Option("--name", help="Its new name.")] = None,
    description: Annotated[str | None, typer.Option("--description", help="What is in it.")] = None,
) -> None:
    """Change a category."""
    changes = {key: value for key, value in (("name", name), ("description", description)) if value is not None}
    if not changes:
        raise Failure("say what to change: --name or --description")
    with platform() as muster:
        say(f"{muster.categories.edit(category, **changes).name} is changed")


@app.command("delete")
def delete_category(category: _Category) -> None:
    """Delete a category that no module is in."""
    with platform() as muster:
        muster.categories.delete(category)
    say(f"{category} is deleted")
