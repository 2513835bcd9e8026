"""`muster modules ...`: reusable units that are built from git repositories."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from muster.cli.failures import Ended, Failure
from muster.cli.output import say, warn
from muster.cli.platform import platform
from muster.cli.users import Json, Most, Search, moment, say_json, show
from muster.sdk import Muster

app = typer.Typer(
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


@app.command("list")
def list_modules(
    q: Search = "",
    category: Annotated[str, typer.Option("--category", help="Only those of this category.")] = "",
    owner: Annotated[str, typer.Option("--owner", help="Only those of this user.")] = "",
    state: Annotated[str, typer.Option("--state", help='Such as published, private or "in review".')] = "",
    mine: Annotated[bool, typer.Option("--mine", help="Only my own.")] = False,
    usable: Annotated[bool, typer.Option("--usable", help="Only those that I may use in a workflow.")] = False,
    most: Most = 100,
    as_json: Json = False,
) -> None:
    """List modules, the one that changed last first."""
    with platform() as muster:
        found = list(
            muster.modules.list(q=q, category=category, owner=owner, state=state, mine=mine, usable=usable, most=most)
        )
    rows = [(m.name, m.versions, m.state, m.category_name, m.owner_name, moment(m.updated)) for m in found]
    show(found, ["NAME", "VERSION", "STATE", "CATEGORY", "OWNER", "UPDATED"], rows, as_json)


@app.command("versions")
def list_versions(module: _Module, as_json: Json = False) -> None:
    """List the versions of a module, the newest first."""
    with platform() as muster:
        found = list(muster.modules.versions(module))
    rows = [
        (v.number, v.state, v.git_ref, v.git_commit[:12], v.author_name, moment(v.created), v.reason) for v in found
    ]
    show(found, ["NUMBER", "STATE", "BRANCH", "COMMIT", "AUTHOR", "CREATED", "REASON"], rows, as_json)


@app.command("get")
def get_module(one: _One, as_json: Json = False) -> None:
    """Show a version: what it takes and gives, and where it comes from."""
    module, version = _split(one)
    with platform() as muster:
        found = muster.modules.version(module, version)
    if as_json:
        say_json(asdict(found))
        return
    lines = [
        f"Module:    {module} {found.number} ({found.state})",
        f"Source:    {found.git_url} {found.git_ref} {found.git_commit}".rstrip(),
        f"Build:     {found.dockerfile} in {found.build_dir}",
        f"Runs as:   {found.runs_as or '-'} {' '.join(found.entrypoint)}".rstrip(),
        *(f"Reason:    {found.reason}" for _ in range(1) if found.reason),
        *(f"Input:     --{i['name']}  {i['description']}".rstrip() for i in found.inputs),
        *(f"Output:    {o['name']} ({o['type']}) {o['path']}  {o['description']}".rstrip() for o in found.outputs),
        *(f"Variable:  {v['name']}" for v in found.env),
    ]
    say("\n".join(lines))


@app.command("readme")
def readme(one: _One) -> None:
    """Print what its author wrote about it."""
    module, version = _split(one)
    with platform() as muster:
        say(muster.modules.version(module, version).readme.removesuffix("\n"))


@app.command("create")
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
    with platform() as muster:
        muster.modules.create(name, category=category, git_url=git_url, git_ref=git_ref, **fields)
        _follow(muster, name, wait)


@app.command("edit")
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
        raise Failure("say what to change, as in --git-ref v2")
    with platform() as muster:
        before = muster.modules.get(module)
        after = muster.modules.edit(module, **fields)
        if after.versions == before.versions:
            say(f"{after.name} is changed" if after.revision != before.revision else f"{after.name} was so already")
        else:
            _follow(muster, module, wait)


@app.command("build")
def build_module(module: _Module, wait: _Wait = True) -> None:
    """Build a new version of what the branch or tag is by now."""
    with platform() as muster:
        muster.modules.build(module)
        _follow(muster, module, wait)


@app.command("retry")
def retry_build(one: _One, wait: _Wait = True) -> None:
    """Try a build that failed once more."""
    module, version = _split(one)
    with platform() as muster:
        again = muster.modules.retry(module, version)
        _follow(muster, module, wait, str(again.number))


@app.command("stop")
def stop_build(one: _One) -> None:
    """Stop a build."""
    module, version = _split(one)
    with platform() as muster:
        stopped = muster.modules.stop(module, version)
    say(f"{module}@{stopped.number} is not built any more")


@app.command("log")
def build_log(
    one: _One, follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more, until it is over.")] = False
) -> None:
    """Print the log of a build."""
    module, version = _split(one)
    with platform() as muster:
        if follow:
            for text in muster.modules.follow_log(module, version):
                say(text.removesuffix("\n"))
        else:
            say(muster.modules.log(module, version).removesuffix("\n"))


@app.command("review")
def ask_review(
    one: _One, message: Annotated[str, typer.Option("--message", "-m", help="For whoever decides.")] = ""
) -> None:
    """Ask for a review, by which a version is published."""
    module, version = _split(one)
    with platform() as muster:
        review = muster.modules.ask_review(module, version, message)
    say(f"{review.module_name}@{review.number} is in review: {review.id}")


@app.command("deprecate")
def deprecate(one: _One) -> None:
    """Keep other workflows from using a published version."""
    module, version = _split(one)
    with platform() as muster:
        say(f"{module}@{muster.modules.deprecate(module, version).number} is deprecated")


@app.command("restore")
def restore(one: _One) -> None:
    """Publish a deprecated version again."""
    module, version = _split(one)
    with platform() as muster:
        say(f"{module}@{muster.modules.restore(module, version).number} is published")


@app.command("delete")
def delete(module: _Module) -> None:
    """Delete a module with all its versions, unless a workflow uses one."""
    with platform() as muster:
        muster.modules.delete(module)
    say(f"{module} is deleted")


def _split(one: str) -> tuple[str, str]:
    module, _, version = one.partition("@")
    return module, version or "latest"


def _follow(muster: Muster, module: str, wait: bool, version: str = "latest") -> None:
    begun = muster.modules.version(module, version)
    if not wait:
        say(f"{module}@{begun.number} is being built; see `muster modules log -f {module}@{begun.number}`")
        return
    for text in muster.modules.follow_log(module, str(begun.number)):
        warn(text.removesuffix("\n"))
    ended = muster.modules.version(module, str(begun.number))
    if ended.state == "build failed":
        warn(f"{module}@{ended.number}: {ended.reason}")
        raise Ended(1)
    say(f"{module}@{ended.number} is {ended.state}")


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
        raise Failure(f"{option} is written NAME=VALUE")
    return pairs
