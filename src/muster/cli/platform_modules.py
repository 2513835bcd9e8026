"""`muster modules`, `categories` and `reviews`: modules built from git repositories, and their publication."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from muster.cli.errors import CommandExit
from muster.cli.output import echo, warn
from muster.cli.platform import (
    JsonOption,
    LimitOption,
    SearchOption,
    check_changes,
    command_group,
    connect_platform,
    format_time,
    given_options,
    parse_pairs,
    print_json,
    print_records,
    split_version,
)
from muster.sdk import Muster

modules_app = command_group("Manage modules, which are built from git repositories.")

_Module = Annotated[str, typer.Argument(metavar="MODULE", help="The name or id of the module.")]
_One = Annotated[
    str, typer.Argument(metavar="MODULE[@VERSION]", help="A version is a number or id. Default: the newest.")
]
_Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the build, and print its log.")]
_Description = Annotated[str | None, typer.Option("--description", help="What the module does.")]
_Team = Annotated[str | None, typer.Option("--team", help="The team whose leaders may review it.")]
_Dockerfile = Annotated[str | None, typer.Option("--dockerfile", help="The path of the Dockerfile in the repository.")]
_BuildDir = Annotated[str | None, typer.Option("--build-dir", help="The folder to build the image from.")]
_Readme = Annotated[str | None, typer.Option("--readme", help="The path of the README, in Markdown.")]
_Env = Annotated[
    list[str] | None, typer.Option("--env", help="An environment variable, as NAME=VALUE; may be repeated.")
]
_Input = Annotated[
    list[str] | None, typer.Option("--input", help="An input, as NAME or NAME=DESCRIPTION; may be repeated.")
]
_Output = Annotated[
    list[str] | None,
    typer.Option(
        "--output", help="An output: NAME=PATH for text, NAME=file:PATH for a file or folder; may be repeated."
    ),
]


@modules_app.command("list")
def list_modules(
    q: SearchOption = "",
    category: Annotated[str, typer.Option("--category", help="Show only modules of this category.")] = "",
    owner: Annotated[str, typer.Option("--owner", help="Show only modules of this user.")] = "",
    state: Annotated[
        str, typer.Option("--state", help='Show only this state, such as published, private or "in review".')
    ] = "",
    mine: Annotated[bool, typer.Option("--mine", help="Show only your modules.")] = False,
    usable: Annotated[bool, typer.Option("--usable", help="Show only modules that you may use in a workflow.")] = False,
    most: LimitOption = 100,
    as_json: JsonOption = False,
) -> None:
    """List modules, most recently changed first."""
    with connect_platform() as muster:
        found = list(
            muster.modules.list(q=q, category=category, owner=owner, state=state, mine=mine, usable=usable, most=most)
        )
    rows = [(m.name, m.versions, m.state, m.category_name, m.owner_name, format_time(m.updated)) for m in found]
    print_records(found, ["NAME", "VERSION", "STATE", "CATEGORY", "OWNER", "UPDATED"], rows, as_json)


@modules_app.command("versions")
def list_versions(module: _Module, as_json: JsonOption = False) -> None:
    """List the versions of a module, newest first."""
    with connect_platform() as muster:
        found = list(muster.modules.versions(module))
    rows = [
        (v.number, v.state, v.git_ref, v.git_commit[:12], v.author_name, format_time(v.created), v.reason)
        for v in found
    ]
    print_records(found, ["NUMBER", "STATE", "BRANCH", "COMMIT", "AUTHOR", "CREATED", "REASON"], rows, as_json)


@modules_app.command("get")
def get_module(one: _One, as_json: JsonOption = False) -> None:
    """Show a version: inputs, outputs and source."""
    module, version = split_version(one)
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
    """Print the README of a version."""
    module, version = split_version(one)
    with connect_platform() as muster:
        echo(muster.modules.version(module, version).readme.removesuffix("\n"))


@modules_app.command("create")
def create_module(
    name: Annotated[str, typer.Argument(help="The name: lower-case letters, digits and hyphens.")],
    category: Annotated[
        str, typer.Option("--category", help="The category; admins create them with `muster categories`.")
    ],
    git_url: Annotated[str, typer.Option("--git-url", help="The URL of the git repository.")],
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
    """Create a module and build its first version."""
    fields = _module_fields(description, team, dockerfile, build_dir, readme_path, env, inputs, outputs)
    with connect_platform() as muster:
        muster.modules.create(name, category=category, git_url=git_url, git_ref=git_ref, **fields)
        _follow_build(muster, name, wait)


@modules_app.command("edit")
def edit_module(
    module: _Module,
    category: Annotated[str | None, typer.Option("--category", help="Move the module to this category.")] = None,
    git_url: Annotated[str | None, typer.Option("--git-url", help="The URL of the git repository.")] = None,
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
    """Edit a module. Any change except description, category and team builds a new version."""
    fields = _module_fields(description, team, dockerfile, build_dir, readme_path, env, inputs, outputs)
    fields |= given_options(category=category, git_url=git_url, git_ref=git_ref)
    check_changes(fields, "an option such as --git-ref v2")
    with connect_platform() as muster:
        before = muster.modules.get(module)
        after = muster.modules.edit(module, **fields)
        if after.versions == before.versions:
            echo(f"{after.name} updated" if after.revision != before.revision else f"{after.name} unchanged")
        else:
            _follow_build(muster, module, wait)


@modules_app.command("build")
def build_module(module: _Module, wait: _Wait = True) -> None:
    """Build a new version from the current commit of the branch or tag."""
    with connect_platform() as muster:
        muster.modules.build(module)
        _follow_build(muster, module, wait)


@modules_app.command("retry")
def retry_build(one: _One, wait: _Wait = True) -> None:
    """Retry a failed build."""
    module, version = split_version(one)
    with connect_platform() as muster:
        again = muster.modules.retry(module, version)
        _follow_build(muster, module, wait, str(again.number))


@modules_app.command("stop")
def stop_build(one: _One) -> None:
    """Stop a build."""
    module, version = split_version(one)
    with connect_platform() as muster:
        stopped = muster.modules.stop(module, version)
    echo(f"{module}@{stopped.number} stopped")


@modules_app.command("log")
def build_log(
    one: _One,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing until the build ends.")] = False,
) -> None:
    """Print the log of a build."""
    module, version = split_version(one)
    with connect_platform() as muster:
        if follow:
            for text in muster.modules.follow_log(module, version):
                echo(text.removesuffix("\n"))
        else:
            echo(muster.modules.log(module, version).removesuffix("\n"))


@modules_app.command("review")
def ask_review(
    one: _One, message: Annotated[str, typer.Option("--message", "-m", help="A message for the reviewer.")] = ""
) -> None:
    """Request the review that publishes a version."""
    module, version = split_version(one)
    with connect_platform() as muster:
        review = muster.modules.ask_review(module, version, message)
    echo(f"{review.module_name}@{review.number} is in review: {review.id}")


@modules_app.command("deprecate")
def deprecate_module(one: _One) -> None:
    """Deprecate a published version: new workflows cannot use it."""
    module, version = split_version(one)
    with connect_platform() as muster:
        echo(f"{module}@{muster.modules.deprecate(module, version).number} deprecated")


@modules_app.command("restore")
def restore_module(one: _One) -> None:
    """Publish a deprecated version again."""
    module, version = split_version(one)
    with connect_platform() as muster:
        echo(f"{module}@{muster.modules.restore(module, version).number} published")


@modules_app.command("delete")
def delete_module(module: _Module) -> None:
    """Delete a module and its versions, unless a workflow uses one."""
    with connect_platform() as muster:
        muster.modules.delete(module)
    echo(f"{module} deleted")


def _follow_build(muster: Muster, module: str, wait: bool, version: str = "latest") -> None:
    begun = muster.modules.version(module, version)
    if not wait:
        echo(f"{module}@{begun.number} is being built; follow it with `muster modules log -f {module}@{begun.number}`")
        return
    for text in muster.modules.follow_log(module, str(begun.number)):
        warn(text.removesuffix("\n"))
    ended = muster.modules.version(module, str(begun.number))
    if ended.state == "build failed":
        warn(f"{module}@{ended.number}: {ended.reason}")
        raise CommandExit(1)
    echo(f"{module}@{ended.number} is {ended.state}")


def _module_fields(
    description: str | None, team: str | None, dockerfile: str | None, build_dir: str | None, readme_path: str | None,
    env: list[str] | None, inputs: list[str] | None, outputs: list[str] | None,
) -> dict[str, Any]:  # fmt: skip
    """Returns the fields for the API from the options that were given."""
    fields = given_options(
        description=description, team=team, dockerfile=dockerfile, build_dir=build_dir, readme_path=readme_path
    )
    if env:
        fields["env"] = [{"name": name, "value": value} for name, value in parse_pairs("--env", env)]
    if inputs:
        named = (given.partition("=") for given in inputs)
        fields["inputs"] = [{"name": name, "description": description} for name, _, description in named]
    if outputs:
        fields["outputs"] = [
            {"name": name, "path": place.removeprefix("file:"), "type": "file" if place.startswith("file:") else "text"}
            for name, place in parse_pairs("--output", outputs)
        ]
    return fields


categories_app = command_group("Manage the categories of modules (admins only).")

_Category = Annotated[str, typer.Argument(metavar="CATEGORY", help="The name or id of the category.")]


@categories_app.command("list")
def list_categories(q: SearchOption = "", as_json: JsonOption = False) -> None:
    """List categories."""
    with connect_platform() as muster:
        found = list(muster.categories.list(q=q))
    print_records(
        found, ["NAME", "MODULES", "DESCRIPTION"], [(c.name, c.modules, c.description) for c in found], as_json
    )


@categories_app.command("create")
def create_category(
    name: Annotated[str, typer.Argument(help="The name of the category.")],
    description: Annotated[str, typer.Option("--description", help="What the category contains.")] = "",
) -> None:
    """Create a category."""
    with connect_platform() as muster:
        muster.categories.create(name, description)
    echo(f"{name} created")


@categories_app.command("edit")
def edit_category(
    category: _Category,
    name: Annotated[str | None, typer.Option("--name", help="The new name.")] = None,
    description: Annotated[str | None, typer.Option("--description", help="What the category contains.")] = None,
) -> None:
    """Edit a category."""
    changes = given_options(name=name, description=description)
    check_changes(changes, "--name or --description")
    with connect_platform() as muster:
        echo(f"{muster.categories.edit(category, **changes).name} updated")


@categories_app.command("delete")
def delete_category(category: _Category) -> None:
    """Delete an empty category."""
    with connect_platform() as muster:
        muster.categories.delete(category)
    echo(f"{category} deleted")


reviews_app = command_group("Manage the reviews that publish modules.")

_Review = Annotated[str, typer.Argument(metavar="REVIEW", help="The id of the review.")]


@reviews_app.command("list")
def list_reviews(
    q: SearchOption = "",
    state: Annotated[
        str, typer.Option("--state", help="Show only this state: open, approved, rejected or withdrawn.")
    ] = "",
    module: Annotated[str, typer.Option("--module", help="Show only reviews of this module.")] = "",
    author: Annotated[str, typer.Option("--author", help="Show only reviews that this user requested.")] = "",
    mine: Annotated[bool, typer.Option("--mine", help="Show only reviews that you requested.")] = False,
    most: LimitOption = 100,
    as_json: JsonOption = False,
) -> None:
    """List reviews, newest first: yours, those of teams you lead, or all if you are an admin."""
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
    review: _Review, reason: Annotated[str, typer.Option("--reason", "-m", help="A comment for the author.")] = ""
) -> None:
    """Approve a review, which publishes the module."""
    with connect_platform() as muster:
        done = muster.reviews.approve(review, reason)
    echo(f"{done.module_name}@{done.number} published")


@reviews_app.command("reject")
def reject_review(
    review: _Review, reason: Annotated[str, typer.Option("--reason", "-m", help="What the author has to change.")]
) -> None:
    """Reject a review, with a reason."""
    with connect_platform() as muster:
        done = muster.reviews.reject(review, reason)
    echo(f"{done.module_name}@{done.number} rejected")


@reviews_app.command("withdraw")
def withdraw_review(review: _Review) -> None:
    """Withdraw your request for a review."""
    with connect_platform() as muster:
        done = muster.reviews.withdraw(review)
    echo(f"{done.module_name}@{done.number} is private again")
