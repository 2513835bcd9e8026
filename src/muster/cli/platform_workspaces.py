"""`muster notebooks` and `muster tensorboards`."""

from __future__ import annotations

import webbrowser
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from muster.cli.errors import CommandError
from muster.cli.output import echo
from muster.cli.platform import (
    JsonOption,
    LimitOption,
    SearchOption,
    command_group,
    connect_platform,
    format_time,
    given_options,
    parse_pairs,
    print_json,
    print_records,
)
from muster.platform.records.workspaces import Notebook, TensorBoard

if TYPE_CHECKING:
    from muster.sdk import Muster

notebooks_app = command_group("Manage notebook servers.")
tensorboards_app = command_group("Manage TensorBoards.")

W = TypeVar("W", Notebook, TensorBoard)

_Notebook = Annotated[str, typer.Argument(metavar="[NAMESPACE/]NAME", help="The notebook.")]
_Board = Annotated[str, typer.Argument(metavar="[NAMESPACE/]NAME", help="The TensorBoard.")]
_Strings = list[str] | None
_Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it runs, and show the progress.")]
_Browser = Annotated[bool, typer.Option("--browser/--no-browser", help="Open it in a browser, or only print the link.")]


@notebooks_app.command("images")
def list_images(as_json: JsonOption = False) -> None:
    """List the images that a new notebook can have."""
    with connect_platform() as muster:
        found = muster.notebooks.images()
    rows = [(each.name, "yes" if each.ready else "no", ", ".join(each.contents), each.image) for each in found]
    print_records(found, ["NAME", "READY", "CONTENTS", "IMAGE"], rows, as_json)


@notebooks_app.command("list")
def list_notebooks(q: SearchOption = "", most: LimitOption = 100, as_json: JsonOption = False) -> None:
    """List notebooks, the newest first."""
    with connect_platform() as muster:
        found = list(muster.notebooks.list(q=q, most=most))
    rows = [
        (each.name, each.state, each.image_name or each.image, _size(each), each.owner_name or "", each.namespace,
         format_time(each.last_activity), _reason(each))
        for each in found
    ]  # fmt: skip
    headers = ["NAME", "STATE", "IMAGE", "RESOURCES", "OWNER", "NAMESPACE", "LAST ACTIVITY", "REASON"]
    print_records(found, headers, rows, as_json)


@notebooks_app.command("create")
def create_notebook(
    name: Annotated[str, typer.Argument(help="The name of the notebook.")],
    image: Annotated[
        str | None, typer.Option("--image", help="A name of `muster notebooks images`, or any image.")
    ] = None,
    team: Annotated[str | None, typer.Option("--team", help="Share it with this team.")] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", help="The virtual cluster that it runs on.")] = None,
    skus: Annotated[int | None, typer.Option("--skus", help="The number of its SKUs.")] = None,
    cpu: Annotated[str | None, typer.Option("--cpu", help="CPUs, without a virtual cluster.")] = None,
    memory: Annotated[str | None, typer.Option("--memory", help="Memory, without a virtual cluster.")] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", help="GPUs, without a virtual cluster.")] = None,
    home_size: Annotated[str | None, typer.Option("--home-size", help="The size of the home volume.")] = None,
    home_claim: Annotated[str | None, typer.Option("--home-claim", help="An existing volume for the home.")] = None,
    home: Annotated[bool | None, typer.Option("--home/--no-home", help="Whether files in its home are kept.")] = None,
    mount: Annotated[
        _Strings,
        typer.Option("--mount", metavar="ROOT[=PATH]", help="Mount a storage root; may be repeated."),
    ] = None,
    volume: Annotated[
        _Strings, typer.Option("--volume", metavar="CLAIM[=PATH]", help="Mount a volume; may be repeated.")
    ] = None,
    env: Annotated[_Strings, typer.Option("--env", metavar="NAME=VALUE", help="A variable; may be repeated.")] = None,
    idle: Annotated[
        float | None, typer.Option("--cull-idle-minutes", help="Stop it after this many minutes without use; 0: never.")
    ] = None,
    wait: _Wait = True,
) -> None:
    """Create a notebook. Its home folder is a volume, which stays when the notebook is deleted."""
    mounts = [_mount("root", each) for each in mount or ()] + [_mount("claim", each) for each in volume or ()]
    more = given_options(
        image=image,
        team=team,
        cluster=cluster,
        skus=skus,
        cpu=cpu,
        memory=memory,
        gpus=gpus,
        home=home,
        home_size=home_size,
        home_claim=home_claim,
        mounts=mounts or None,
        env=dict(parse_pairs("--env", env)) or None,
        cull_idle_minutes=idle,
    )
    with connect_platform() as muster:
        made = muster.notebooks.create(name, **more)
        echo(f"notebook {made.namespace}/{made.name} created")
        if wait:
            _follow(muster, made)


@notebooks_app.command("get")
def get_notebook(notebook: _Notebook) -> None:
    """Show a notebook as JSON."""
    from dataclasses import asdict

    with connect_platform() as muster:
        print_json(asdict(_find_notebook(muster, notebook)))


@notebooks_app.command("open")
def open_notebook(notebook: _Notebook, browser: _Browser = True) -> None:
    """Open a notebook in a browser. A stopped one is started."""
    with connect_platform() as muster:
        found = _find_notebook(muster, notebook)
        if found.state == "stopped":
            found = muster.notebooks.start(found.namespace, found.name)
        _follow(muster, found)
        _open(muster, found.uid, browser)


@notebooks_app.command("start")
def start_notebook(notebook: _Notebook, wait: _Wait = True) -> None:
    """Start a stopped notebook."""
    with connect_platform() as muster:
        found = _find_notebook(muster, notebook)
        started = muster.notebooks.start(found.namespace, found.name)
        if wait:
            _follow(muster, started)


@notebooks_app.command("stop")
def stop_notebook(notebook: _Notebook) -> None:
    """Stop a notebook. Files in its volumes stay; its kernels do not."""
    with connect_platform() as muster:
        found = _find_notebook(muster, notebook)
        muster.notebooks.stop(found.namespace, found.name)
    echo(f"notebook {found.namespace}/{found.name} stopped")


@notebooks_app.command("restart")
def restart_notebook(notebook: _Notebook, wait: _Wait = True) -> None:
    """Restart a notebook."""
    with connect_platform() as muster:
        found = _find_notebook(muster, notebook)
        again = muster.notebooks.restart(found.namespace, found.name)
        if wait:
            _follow(muster, again)


@notebooks_app.command("delete")
def delete_notebook(
    notebook: _Notebook,
    home: Annotated[bool, typer.Option("--home", help="Delete the home volume, too, with all files.")] = False,
) -> None:
    """Delete a notebook. Its volumes stay unless --home is given."""
    with connect_platform() as muster:
        found = _find_notebook(muster, notebook)
        muster.notebooks.delete(found.namespace, found.name, home=home)
    kept = f"; its files stay in the volume {found.home}" if found.home and not home else ""
    echo(f"notebook {found.namespace}/{found.name} deleted{kept}")


@tensorboards_app.command("list")
def list_tensorboards(q: SearchOption = "", most: LimitOption = 100, as_json: JsonOption = False) -> None:
    """List TensorBoards, the newest first."""
    with connect_platform() as muster:
        found = list(muster.tensorboards.list(q=q, most=most))
    rows = [
        (each.name, each.state, ", ".join(log.path for log in each.logs), each.owner_name or "", each.namespace,
         _reason(each))
        for each in found
    ]  # fmt: skip
    print_records(found, ["NAME", "STATE", "LOGS", "OWNER", "NAMESPACE", "REASON"], rows, as_json)


@tensorboards_app.command("create")
def create_tensorboard(
    logs: Annotated[
        _Strings,
        typer.Argument(metavar="[NAME=]PATH...", help="pvc://CLAIM/PATH, a folder of a storage root, or an s3:// URL."),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="The name of the TensorBoard.")] = "",
    run: Annotated[_Strings, typer.Option("--run", help="What this run wrote, by id; may be repeated.")] = None,
    job: Annotated[str, typer.Option("--job", metavar="NAMESPACE/KIND/NAME", help="What this job wrote.")] = "",
    notebook: Annotated[
        str, typer.Option("--notebook", metavar="NAMESPACE/NAME[:PATH]", help="A folder of this notebook.")
    ] = "",
    team: Annotated[str, typer.Option("--team", help="Share it with this team.")] = "",
    secret: Annotated[str, typer.Option("--secret", help="A Secret with the variables of an object store.")] = "",
) -> None:
    """Create a TensorBoard on folders, or on what runs, a job or a notebook wrote."""
    place: dict[str, str] | None = None
    if notebook:
        full, _, path = notebook.partition(":")
        namespace, slash, short = full.partition("/")
        if not slash:
            raise CommandError(f'error: --notebook must be NAMESPACE/NAME[:PATH], not "{notebook}"')
        place = {"namespace": namespace, "name": short, **({"path": path} if path else {})}
    with connect_platform() as muster:
        made = muster.tensorboards.create(
            name=name, logs=_named_logs(logs or []), runs=run or [], job=job, notebook=place, team=team,
            credentials=secret,
        )  # fmt: skip
    echo(f"tensorboard {made.namespace}/{made.name} {made.state}")


@tensorboards_app.command("open")
def open_tensorboard(board: _Board, browser: _Browser = True) -> None:
    """Open a TensorBoard in a browser. A stopped one is started."""
    with connect_platform() as muster:
        found = _find_board(muster, board)
        if found.state == "stopped":
            muster.tensorboards.start(found.namespace, found.name)
        _open(muster, found.uid, browser)


@tensorboards_app.command("start")
def start_tensorboard(board: _Board) -> None:
    """Start a stopped TensorBoard."""
    with connect_platform() as muster:
        found = _find_board(muster, board)
        muster.tensorboards.start(found.namespace, found.name)
    echo(f"tensorboard {found.namespace}/{found.name} started")


@tensorboards_app.command("stop")
def stop_tensorboard(board: _Board) -> None:
    """Stop a TensorBoard. The logs stay."""
    with connect_platform() as muster:
        found = _find_board(muster, board)
        muster.tensorboards.stop(found.namespace, found.name)
    echo(f"tensorboard {found.namespace}/{found.name} stopped")


@tensorboards_app.command("delete")
def delete_tensorboard(board: _Board) -> None:
    """Delete a TensorBoard. The logs stay."""
    with connect_platform() as muster:
        found = _find_board(muster, board)
        muster.tensorboards.delete(found.namespace, found.name)
    echo(f"tensorboard {found.namespace}/{found.name} deleted")


def _find_notebook(muster: Muster, word: str) -> Notebook:
    namespace, slash, name = word.rpartition("/")
    if slash:
        return muster.notebooks.get(namespace, name)
    return _only("notebook", word, [each for each in muster.notebooks.list(q=word) if each.name == word])


def _find_board(muster: Muster, word: str) -> TensorBoard:
    namespace, slash, name = word.rpartition("/")
    if slash:
        return muster.tensorboards.get(namespace, name)
    return _only("tensorboard", word, [each for each in muster.tensorboards.list(q=word) if each.name == word])


def _only(kind: str, word: str, found: list[W]) -> W:
    if not found:
        raise CommandError(f'error: there is no {kind} "{word}"; `muster {kind}s list` shows those that you may see')
    if len(found) > 1:
        names = ", ".join(f"{each.namespace}/{each.name}" for each in found)
        raise CommandError(f"error: there are several: {names}; name one with its namespace")
    return found[0]


def _follow(muster: Muster, notebook: Notebook) -> None:
    """Shows what it waits for until it runs. Raises CommandError if it does not."""
    last = notebook
    for last in muster.notebooks.wait(notebook.namespace, notebook.name):
        if last.state == "starting" and (last.progress or last.reason):
            percent = f"{last.progress.fraction:4.0%} " if last.progress else ""
            echo(f"{percent}{last.progress.text if last.progress else last.reason}")
    if last.state != "running":
        raise CommandError(f"error: the notebook is {last.state}{': ' if last.reason else ''}{last.reason}")
    echo(f"notebook {last.namespace}/{last.name} runs; open it with `muster notebooks open {last.name}`")


def _open(muster: Muster, uid: str, browser: bool) -> None:
    url = str(muster.transport.request("POST", f"workspaces/{uid}/open", {})["url"])
    if not browser or not webbrowser.open(url):
        echo(url)


def _mount(kind: str, text: str) -> dict[str, Any]:
    name, _, path = text.partition("=")
    return {kind: name, "path": path}


def _named_logs(given: list[str]) -> dict[str, str]:
    named: dict[str, str] = {}
    for number, text in enumerate(given):
        name, sign, path = text.partition("=")
        named[name if sign else str(number + 1)] = path if sign else text
    return named


def _size(notebook: Notebook) -> str:
    if notebook.cluster:
        return f"{notebook.skus} SKU of {notebook.cluster}"
    return ", ".join(f"{amount} {name.rpartition('/')[2]}" for name, amount in notebook.resources.items())


def _reason(workspace: Notebook | TensorBoard) -> str:
    return workspace.progress.text if workspace.progress else workspace.reason
