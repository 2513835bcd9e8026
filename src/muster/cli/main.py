"""The `muster` command: the table of its subcommands.

A subcommand's module is imported only when that subcommand is used. Each loader function below imports one module.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, NamedTuple, NoReturn, TypeAlias

import typer
from typer.core import TyperGroup
from typer.main import get_command

from muster import __version__
from muster.cli.errors import CommandError, CommandExit

_Command: TypeAlias = Callable[..., None] | typer.Typer
_Commands: TypeAlias = Mapping[str, _Command]


def _load_run() -> _Commands:
    from muster.cli.run import run as run_files

    return {"run": run_files}


def _load_cluster() -> _Commands:
    from muster.cli.cluster import down, env, status, up, version

    return {"up": up, "down": down, "status": status, "env": env, "version": version}


def _load_workflow_commands() -> _Commands:
    from muster.cli.workflow_commands import list_workflows, resubmit, resume, retry, stop, submit, suspend, terminate

    return {
        "submit": submit,
        "list": list_workflows,
        "stop": stop,
        "terminate": terminate,
        "suspend": suspend,
        "resume": resume,
        "retry": retry,
        "resubmit": resubmit,
    }


def _load_lint() -> _Commands:
    from muster.cli.lint import lint

    return {"lint": lint}


def _load_apply() -> _Commands:
    from muster.cli.apply import apply, create, delete

    return {"apply": apply, "create": create, "delete": delete}


def _load_get() -> _Commands:
    from muster.cli.get import get

    return {"get": get}


def _load_describe() -> _Commands:
    from muster.cli.describe import describe

    return {"describe": describe}


def _load_logs() -> _Commands:
    from muster.cli.logs import logs

    return {"logs": logs}


def _load_events() -> _Commands:
    from muster.cli.events import events

    return {"events": events}


def _load_exec() -> _Commands:
    from muster.cli.exec import exec_

    return {"exec": exec_}


def _load_wait() -> _Commands:
    from muster.cli.wait import wait

    return {"wait": wait}


def _load_top() -> _Commands:
    from muster.cli.top import top

    return {"top": top}


def _load_operator() -> _Commands:
    from muster.cli.operator import operator_app

    return {"operator": operator_app}


def _load_platform_workflows() -> _Commands:
    from muster.cli.platform_workflows import workflows_app

    return {"workflows": workflows_app}


def _load_platform_runs() -> _Commands:
    from muster.cli.platform_runs import runs_app

    return {"runs": runs_app}


def _load_platform_clusters() -> _Commands:
    from muster.cli.platform_clusters import clusters_app, storage_app

    return {"clusters": clusters_app, "storage": storage_app}


def _load_platform_modules() -> _Commands:
    from muster.cli.platform_modules import categories_app, modules_app, reviews_app

    return {"modules": modules_app, "reviews": reviews_app, "categories": categories_app}


def _load_platform_users() -> _Commands:
    from muster.cli.platform_users import teams_app, tokens_app, users_app

    return {"users": users_app, "teams": teams_app, "tokens": tokens_app}


def _load_platform_login() -> _Commands:
    from muster.cli.platform_login import login, logout, openapi

    return {"login": login, "logout": logout, "openapi": openapi}


def _load_doctor() -> _Commands:
    from muster.cli.doctor import doctor

    return {"doctor": doctor}


class Entry(NamedTuple):
    load: Callable[[], _Commands]
    summary: str


COMMANDS = {
    "run": Entry(_load_run, "Run what files describe and end as it ends."),
    "up": Entry(_load_cluster, "Start the cluster in a box."),
    "down": Entry(_load_cluster, "Stop the cluster in a box."),
    "status": Entry(_load_cluster, "Show where the cluster in a box is."),
    "submit": Entry(_load_workflow_commands, "Start workflows from files or from a template."),
    "lint": Entry(_load_lint, "Check workflows for mistakes."),
    "list": Entry(_load_workflow_commands, "List workflows, those that run first."),
    "stop": Entry(_load_workflow_commands, "Stop workflows; their exit handlers still run."),
    "terminate": Entry(_load_workflow_commands, "End workflows at once, without their exit handlers."),
    "suspend": Entry(_load_workflow_commands, "Keep workflows from beginning anything new."),
    "resume": Entry(_load_workflow_commands, "Let workflows, and steps that wait for somebody, go on."),
    "retry": Entry(
        _load_workflow_commands, "Let failed workflows go on from where they failed; what succeeded is not run again."
    ),
    "resubmit": Entry(_load_workflow_commands, "Start workflows again, as new ones."),
    "apply": Entry(_load_apply, "Create or change objects to be as files say."),
    "create": Entry(_load_apply, "Create objects from files, or namespaces by their names."),
    "get": Entry(_load_get, "Show objects, one line each or whole; of a workflow, its tree."),
    "describe": Entry(_load_describe, "Show objects in detail, with their events and why they wait or failed."),
    "logs": Entry(_load_logs, "Print what containers wrote."),
    "events": Entry(_load_events, "Show what happened, in order."),
    "exec": Entry(_load_exec, "Run a command in a container."),
    "wait": Entry(_load_wait, "Wait until objects are as they should be."),
    "delete": Entry(_load_apply, "Delete objects."),
    "top": Entry(_load_top, "Show what nodes or Pods use."),
    "operator": Entry(_load_operator, "Look after training jobs on a Kubernetes cluster."),
    "workflows": Entry(_load_platform_workflows, "The platform's workflows and their versions."),
    "runs": Entry(_load_platform_runs, "Runs of the platform's workflows."),
    "clusters": Entry(_load_platform_clusters, "Virtual clusters: SKUs, totals, and who uses them."),
    "storage": Entry(_load_platform_clusters, "Storage roots that nodes may mount."),
    "modules": Entry(_load_platform_modules, "Modules that are built from repositories."),
    "reviews": Entry(_load_platform_modules, "Reviews, by which modules are published."),
    "categories": Entry(_load_platform_modules, "Categories of modules, for admins."),
    "users": Entry(_load_platform_users, "Accounts, and who changed what."),
    "teams": Entry(_load_platform_users, "Teams and who is in them."),
    "tokens": Entry(_load_platform_users, "API tokens, for scripts."),
    "login": Entry(
        _load_platform_login,
        "Choose the platform that workflows, modules, runs, users ... are on, and who you are there.",
    ),
    "logout": Entry(_load_platform_login, "Forget that platform; the commands are for the one in the box again."),
    "openapi": Entry(_load_platform_login, "Print the OpenAPI document of the platform's API."),
    "env": Entry(_load_cluster, "Print the settings with which kubectl, argo and Hera find the cluster."),
    "doctor": Entry(_load_doctor, "Show what this machine can do, and what to install for the rest."),
    "version": Entry(_load_cluster, "Print the version of the command and of the cluster."),
}


_WITH_VALUE = ("-n", "--namespace", "--kubeconfig", "--context")


class Commands(TyperGroup):
    """The table above as a command group."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = entry.load()[cmd_name]
        if isinstance(command, typer.Typer):  # a command with subcommands
            group = get_command(command)
            group.name = cmd_name
            return group
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(cmd_name)(command)
        return get_command(single)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and not ctx.resilient_parsing:
            near = get_close_matches(args[0], COMMANDS, n=2)
            hint = f"; did you mean {' or '.join(near)}?" if near else "; `muster --help` lists them all"
            raise CommandError(f'there is no command "{args[0]}"{hint}')
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])


app = typer.Typer(
    cls=Commands,
    name="muster",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"muster {__version__}")
        raise typer.Exit


@app.callback()
def muster(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version of this command."),
    ] = False,
) -> None:
    """Run machine-learning jobs and workflows, on this machine or on a Kubernetes cluster.

    `muster run FILE` needs nothing else. `muster up` starts a cluster that stays.
    """


def main() -> NoReturn:
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Runs the command line and answers its exit code."""
    debug = "--debug" in _before_dashes(arguments)
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        app(args=booleans_as_flags(command_first(arguments)), prog_name="muster")
    except CommandExit as end:
        return end.exit_code
    except SystemExit as end:
        # 2 is what the parser ends with; kubectl, and so this command, says 1.
        return 1 if end.code == 2 else int(end.code or 0)
    except CommandError as failure:
        if debug:
            raise
        _complain(failure.message)
        return failure.exit_code
    except Exception as error:
        if debug:
            raise
        from muster.cli.errors import describe_error

        _complain(describe_error(error))
        return 1
    return 0


def command_first(arguments: Sequence[str]) -> list[str]:
    """`muster -n x get pods` is `muster get -n x pods`: every command has these options itself."""
    words = list(arguments)
    end = 0
    while end < len(words) and words[end].startswith("-"):
        option, equals, _ = words[end].partition("=")
        if option == "--debug":
            end += 1
        elif option in _WITH_VALUE or (words[end].startswith("-n") and len(words[end]) > 2):
            end += 1 if equals or option not in _WITH_VALUE else 2
        else:
            return words
    return [*words[end : end + 1], *words[:end], *words[end + 1 :]]


def booleans_as_flags(arguments: Sequence[str]) -> list[str]:
    """`--wait=false` is `--no-wait` here and `--wait=true` is `--wait`, as kubectl's users write them."""
    ours = _before_dashes(arguments)
    written = [re.sub(r"^--([a-z][a-z-]*)=(true|false)$", _flag, word) for word in ours]
    return [*written, *arguments[len(ours) :]]


def _flag(match: re.Match[str]) -> str:
    return f"--{match[1]}" if match[2] == "true" else f"--no-{match[1]}"


def _before_dashes(arguments: Sequence[str]) -> list[str]:
    words = list(arguments)
    return words[: words.index("--")] if "--" in words else words


def _complain(message: str) -> None:
    sys.stdout.flush()
    sys.stderr.write(message if message.endswith("\n") else f"{message}\n")
