"""`muster modules`, `categories` and `reviews`: modules built from git repositories, and their publication."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from muster.cli.errors import CommandError, CommandExit
from muster.cli.output import echo, warn
from muster.cli.platform_login import connect_platform
from muster.cli.platform_users import JsonOption, LimitOption, SearchOption, format_time, print_json, print_records
from muster.sdk import Muster

# Merged from modules: `muster modules ...`: reusable units that are built from git repositories.


modules_app = typer.Typer(
    add_completion=False, rich_markup_mode=None, no_args_is_help=True, help="Modules that are built from repositories."
)

_Module = Annotated[str, typer.Argument(metavar="MODULE", help="Its name or id.")]
_One = Annotated[
    str, typer.Argument(metavar="MODULE[@VERSION]", help="A version is its number or id; the newest if left out.")
]
_Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Show the log of the build, and wait for its end.")]
_Description = Annotated[str | None, typer.Option("--description", help="What it does.")]
_Team = Annotated[str | None, typer.Option("--team", help="The team whose leader may review it.")]
_Dockerfile = Annotated[str | None, typer.Option("--dockerfile", help="Its path in the repository.")]
_BuildDir = Annotated[str | None, typer.Option("--build-dir", help="The folder that the image is built from.")]
_Readme = Annotated[str | None, typer.Option("--readme", help="The path of its description, in Markdown.")]
_Env = Annotated[list[str] | None, typer.Option("--env", help="NAME=VALUE; as often as needed.")]
_Input = Annotated[list[str] | None, typer.Option("--input", help="NAME or NAME=DESCRIPTION; as often as needed.")]
_Output = Annotated[
    list[str] | None,
    typer.Option("--output", help="NAME=PATH for a text, NAME=file:PATH for a file or folder; as often as needed."),
]


@modules_app.command("list")
def list_modules(
    q: SearchOption = "",
    category: Annotated[str, typer.Option("--category", help="Only those of this category.")] = "",
    owner: Annotated[str, typer.Option("--owner", help="Only those of this user.")] = "",
    state: Annotated[str, typer.Option("--state", help='Such as published, private or "in review".')] = "",
    mine: Annotated[bool, typer.Option("--mine", help="Only my own.")] = False,
    usable: Annotated[bool, typer.Option("--usable", help="Only those that I may use in a workflow.")] = False,
    most: LimitOption = 100,
    as_json: JsonOption = False,
) -> None:
    """List modules, the one that changed last first."""
    with connect_platform() as muster:
        found = list(
            muster.modules.list(q=q, category=category, owner=owner, state=state, mine=mine, usable=usable, most=most)
        )
    rows = [(m.name, m.versions, m.state, m.category_name, m.owner_name, format_time(m.updated)) for m in found]
    print_records(found, ["NAME", "VERSION", "STATE", "CATEGORY", "OWNER", "UPDATED"], rows, as_json)


@modules_app.command("versions")
def list_versions(module: _Module, as_json: JsonOption = False) -> None:
    """List the versions of a module, the newest first."""
    with connect_platform() as muster:
        found = list(muster.modules.versions(module))
    rows = [
        (v.number, v.state, v.git_ref, v.git_commit[:12], v.author_name, format_time(v.created), v.reason)
        for v in found
    ]
    print_records(found, ["NUMBER", "STATE", "BRANCH", "COMMIT", "AUTHOR", "CREATED", "REASON"], rows, as_json)


@modules_app.command("get")
def get_module(one: _One, as_json: JsonOption = False) -> None:
    """Show a version: what it takes and gives, and where it comes from."""
    module, version = _split(one)
    with connect_platform() as muster:
        found = muster.modules.version(module, version)
    if as_json:
        print_json(asdict(found))
        return
    lines = [
        f"Module:    {module} {found.number} ({found.state})",
        f"Source:    {found.git_url} {found.git_ref} {found.git_commit}".rstrip(),
        f"Build:     {found.dockerfile} in {found.build_dir}",
        f"Runs as:   {found.runs_as or '-'} {' '.join(found.entrypoint)}".rstrip(),
        *(f"Reason:    {found.reason}" for _ in range(1) if found.reason),
        *(f"Input:     --{i.name}  {i.description}".rstrip() for i in found.inputs),
        *(f"Output:    {o.name} ({o.type}) {o.path}  {o.description}".rstrip() for o in found.outputs),
        *(f"Variable:  {v.name}" for v in found.env),
    ]
    echo("\n".join(lines))


@modules_app.command("readme")
def print_readme(one: _One) -> None:
    """Print what its author wrote about it."""
    module, version = _split(one)
    with connect_platform() as muster:
        echo(muster.modules.version(module, version).readme.removesuffix("\n"))


@modules_app.command("create")
def create_module(
    name: Annotated[str, typer.Argument(help="Lower-case letters, digits and -.")],
    category: Annotated[str, typer.Option("--category", help="An admin makes them: muster categories.")],
    git_url: Annotated[str, typer.Option("--git-url", help="The repository.")],
    git_ref: Annotated[str, typer.Option("--git-ref", help="A branch, tag or commit.")] = "main",
    description: _Description = None,
    team: _Team = None,
    dockerfile: _Dockerfile = None,
    build_dir: _BuildDir = None,
    readme_path: _Readme = None,
    env: _Env = None,
    inputs: _Input = None,
    outputs: _Output = None,
    wait: _Wait = True,
) -> None:
    """Create a module, and build its first version."""
    fields = _fields(description, team, dockerfile, build_dir, readme_path, env, inputs, outputs)
    with connect_platform() as muster:
        muster.modules.create(name, category=category, git_url=git_url, git_ref=git_ref, **fields)
        _follow(muster, name, wait)


@modules_app.command("edit")
def edit_module(
    module: _Module,
    category: Annotated[str | None, typer.Option("--category", help="Put it into this category.")] = None,
    git_url: Annotated[str | None, typer.Option("--git-url", help="The repository.")] = None,
    git_ref: Annotated[str | None, typer.Option("--git-ref", help="A branch, tag or commit.")] = None,
    description: _Description = None,
    team: _Team = None,
    dockerfile: _Dockerfile = None,
    build_dir: _BuildDir = None,
    readme_path: _Readme = None,
    env: _Env = None,
    inputs: _Input = None,
    outputs: _Output = None,
    wait: _Wait = True,
) -> None:
    """Change a module. Unless it is about its description, category or team, a new version is built."""
    fields = _fields(description, team, dockerfile, build_dir, readme_path, env, inputs, outputs)
    places = {"category": category, "git_url": git_url, "git_ref": git_ref}
    fields |= {name: value for name, value in places.items() if value is not None}
    if not fields:
        raise CommandError("say what to change, as in --git-ref v2")
    with connect_platform() as muster:
        before = muster.modules.get(module)
        after = muster.modules.edit(module, **fields)
        if after.versions == before.versions:
            echo(f"{after.name} is changed" if after.revision != before.revision else f"{after.name} was so already")
        else:
            _follow(muster, module, wait)


@modules_app.command("build")
def build_module(module: _Module, wait: _Wait = True) -> None:
    """Build a new version of what the branch or tag is by now."""
    with connect_platform() as muster:
        muster.modules.build(module)
        _follow(muster, module, wait)


@modules_app.command("retry")
def retry_build(one: _One, wait: _Wait = True) -> None:
    """Try a build that failed once more."""
    module, version = _split(one)
    with connect_platform() as muster:
        again = muster.modules.retry(module, version)
        _follow(muster, module, wait, str(again.number))


@modules_app.command("stop")
def stop_build(one: _One) -> None:
    """Stop a build."""
    module, version = _split(one)
    with connect_platform() as muster:
        stopped = muster.modules.stop(module, version)
    echo(f"{module}@{stopped.number} is not built any more")


@modules_app.command("log")
def build_log(
    one: _One, follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more, until it is over.")] = False
) -> None:
    """Print the log of a build."""
    module, version = _split(one)
    with connect_platform() as muster:
        if follow:
            for text in muster.modules.follow_log(module, version):
                echo(text.removesuffix("\n"))
        else:
            echo(muster.modules.log(module, version).removesuffix("\n"))


@modules_app.command("review")
def ask_review(
    one: _One, message: Annotated[str, typer.Option("--message", "-m", help="For whoever decides.")] = ""
) -> None:
    """Ask for a review, by which a version is published."""
    module, version = _split(one)
    with connect_platform() as muster:
        review = muster.modules.ask_review(module, version, message)
    echo(f"{review.module_name}@{review.number} is in review: {review.id}")


@modules_app.command("deprecate")
def deprecate_module(one: _One) -> None:
    """Keep other workflows from using a published version."""
    module, version = _split(one)
    with connect_platform() as muster:
        echo(f"{module}@{muster.modules.deprecate(module, version).number} is deprecated")


@modules_app.command("restore")
def restore_module(one: _One) -> None:
    """Publish a deprecated version again."""
    module, version = _split(one)
    with connect_platform() as muster:
        echo(f"{module}@{muster.modules.restore(module, version).number} is published")


@modules_app.command("delete")
def delete_module(module: _Module) -> None:
    """Delete a module with all its versions, unless a workflow uses one."""
    with connect_platform() as muster:
        muster.modules.delete(module)
    echo(f"{module} is deleted")


def _split(one: str) -> tuple[str, str]:
    module, _, version = one.partition("@")
    return module, version or "latest"


def _follow(muster: Muster, module: str, wait: bool, version: str = "latest") -> None:
    begun = muster.modules.version(module, version)
    if not wait:
        echo(f"{module}@{begun.number} is being built; see `muster modules log -f {module}@{begun.number}`")
        return
    for text in muster.modules.follow_log(module, str(begun.number)):
        warn(text.removesuffix("\n"))
    ended = muster.modules.version(module, str(begun.number))
    if ended.state == "build failed":
        warn(f"{module}@{ended.number}: {ended.reason}")
        raise CommandExit(1)
    echo(f"{module}@{ended.number} is {ended.state}")


def _fields(
    description: str | None, team: str | None, dockerfile: str | None, build_dir: str | None, readme_path: str | None,
    env: list[str] | None, inputs: list[str] | None, outputs: list[str] | None,
) -> dict[str, Any]:  # fmt: skip
    """What was said, as the API takes it."""
    plain = {
        "description": description, "team": team, "dockerfile": dockerfile, "build_dir": build_dir,
        "readme_path": readme_path,
    }  # fmt: skip
    fields: dict[str, Any] = {name: value for name, value in plain.items() if value is not None}
    if env:
        fields["env"] = [{"name": name, "value": value} for name, value in _pairs("--env", env)]
    if inputs:
        named = (given.partition("=") for given in inputs)
        fields["inputs"] = [{"name": name, "description": description} for name, _, description in named]
    if outputs:
        fields["outputs"] = [
            {"name": name, "path": place.removeprefix("file:"), "type": "file" if place.startswith("file:") else "text"}
            for name, place in _pairs("--output", outputs)
        ]
    return fields


def _pairs(option: str, written: list[str]) -> list[tuple[str, str]]:
    pairs = [(name, value) for name, separator, value in (one.partition("=") for one in written) if separator]
    if len(pairs) != len(written):
        raise CommandError(f"{option} is written NAME=VALUE")
    return pairs


# Merged from categories: `muster categories ...`: how modules are grouped.


categories_app = typer.Typer(
    add_completion=False, rich_markup_mode=None, no_args_is_help=True, help="Categories of modules, for admins."
)

_Category = Annotated[str, typer.Argument(metavar="CATEGORY", help="Its name or id.")]


@categories_app.command("list")
def list_categories(q: SearchOption = "", as_json: JsonOption = False) -> None:
    """List the categories."""
    with connect_platform() as muster:
        found = list(muster.categories.list(q=q))
    print_records(
        found, ["NAME", "MODULES", "DESCRIPTION"], [(c.name, c.modules, c.description) for c in found], as_json
    )


@categories_app.command("create")
def create_category(
    name: Annotated[str, typer.Argument(help="The name of the category.")],
    description: Annotated[str, typer.Option("--description", help="What is in it.")] = "",
) -> None:
    """Create a category."""
    with connect_platform() as muster:
        muster.categories.create(name, description)
    echo(f"{name} is there")


@categories_app.command("edit")
def edit_category(
    category: _Category,
    name: Annotated[str | None, typer.Option("--name", help="Its new name.")] = None,
    description: Annotated[str | None, typer.Option("--description", help="What is in it.")] = None,
) -> None:
    """Change a category."""
    changes = {key: value for key, value in (("name", name), ("description", description)) if value is not None}
    if not changes:
        raise CommandError("say what to change: --name or --description")
    with connect_platform() as muster:
        echo(f"{muster.categories.edit(category, **changes).name} is changed")


@categories_app.command("delete")
def delete_category(category: _Category) -> None:
    """Delete a category that no module is in."""
    with connect_platform() as muster:
        muster.categories.delete(category)
    echo(f"{category} is deleted")


# Merged from reviews: `muster reviews ...`: what waits for somebody to decide, and what was decided.


reviews_app = typer.Typer(
    add_completion=False, rich_markup_mode=None, no_args_is_help=True, help="Reviews, by which modules are published."
)

_Review = Annotated[str, typer.Argument(metavar="REVIEW", help="Its id.")]


@reviews_app.command("list")
def list_reviews(
    q: SearchOption = "",
    state: Annotated[str, typer.Option("--state", help="open, approved, rejected or withdrawn.")] = "",
    module: Annotated[str, typer.Option("--module", help="Only those of this module.")] = "",
    author: Annotated[str, typer.Option("--author", help="Only those that this user asked for.")] = "",
    mine: Annotated[bool, typer.Option("--mine", help="Only those that I asked for.")] = False,
    most: LimitOption = 100,
    as_json: JsonOption = False,
) -> None:
    """List reviews, the newest first: one's own, those of a team one leads, all for an admin."""
    with connect_platform() as muster:
        found = list(muster.reviews.list(q=q, state=state, module=module, author=author, mine=mine, most=most))
    rows = [
        (
            r.id,
            r.module_name,
            r.number,
            r.author_name,
            r.state,
            r.decided_by_name or "",
            format_time(r.created),
            r.reason,
        )
        for r in found
    ]
    print_records(
        found, ["ID", "MODULE", "VERSION", "AUTHOR", "STATE", "DECIDED BY", "CREATED", "REASON"], rows, as_json
    )


@reviews_app.command("approve")
def approve_review(
    review: _Review, reason: Annotated[str, typer.Option("--reason", "-m", help="What is to be said to it.")] = ""
) -> None:
    """Publish a module."""
    with connect_platform() as muster:
        done = muster.reviews.approve(review, reason)
    echo(f"{done.module_name}@{done.number} is published")


@reviews_app.command("reject")
def reject_review(
    review: _Review, reason: Annotated[str, typer.Option("--reason", "-m", help="What the author is to mend.")]
) -> None:
    """Do not publish a module, and say why."""
    with connect_platform() as muster:
        done = muster.reviews.reject(review, reason)
    echo(f"{done.module_name}@{done.number} is rejected")


@reviews_app.command("withdraw")
def withdraw_review(review: _Review) -> None:
    """Take back what one asked for."""
    with connect_platform() as muster:
        done = muster.reviews.withdraw(review)
    echo(f"{done.module_name}@{done.number} is private again")
