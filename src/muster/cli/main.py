"""The `muster` command: which word is served by which module. A module is imported when its word is typed."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Annotated, Any, NamedTuple, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_command

from muster import __version__
from muster.cli.errors import CommandError, CommandExit


class Entry(NamedTuple):
    module: str
    function: str
    summary: str


COMMANDS = {
    "run": Entry("run", "run", "Run what files describe and end as it ends."),
    "up": Entry("cluster", "up", "Start the cluster in a box."),
    "down": Entry("cluster", "down", "Stop the cluster in a box."),
    "status": Entry("cluster", "status", "Show where the cluster in a box is."),
    "submit": Entry("workflow_commands", "submit", "Start workflows from files or from a template."),
    "lint": Entry("lint", "lint", "Check workflows for mistakes."),
    "list": Entry("workflow_commands", "list_workflows", "List workflows, those that run first."),
    "stop": Entry("workflow_commands", "stop", "Stop workflows; their exit handlers still run."),
    "terminate": Entry("workflow_commands", "terminate", "End workflows at once, without their exit handlers."),
    "suspend": Entry("workflow_commands", "suspend", "Keep workflows from beginning anything new."),
    "resume": Entry("workflow_commands", "resume", "Let workflows, and steps that wait for somebody, go on."),
    "retry": Entry(
        "workflow_commands",
        "retry",
        "Let failed workflows go on from where they failed; what succeeded is not run again.",
    ),
    "resubmit": Entry("workflow_commands", "resubmit", "Start workflows again, as new ones."),
    "apply": Entry("apply", "apply", "Create or change objects to be as files say."),
    "create": Entry("apply", "create", "Create objects from files, or namespaces by their names."),
    "get": Entry("get", "get", "Show objects, one line each or whole; of a workflow, its tree."),
    "describe": Entry("describe", "describe", "Show objects in detail, with their events and why they wait or failed."),
    "logs": Entry("logs", "logs", "Print what containers wrote."),
    "events": Entry("events", "events", "Show what happened, in order."),
    "exec": Entry("exec", "exec_", "Run a command in a container."),
    "wait": Entry("wait", "wait", "Wait until objects are as they should be."),
    "delete": Entry("apply", "delete", "Delete objects."),
    "top": Entry("top", "top", "Show what nodes or Pods use."),
    "operator": Entry("operator", "operator_app", "Look after training jobs on a Kubernetes cluster."),
    "workflows": Entry("platform_workflows", "workflows_app", "The platform's workflows and their versions."),
    "runs": Entry("platform_runs", "runs_app", "Runs of the platform's workflows."),
    "clusters": Entry("platform_clusters", "clusters_app", "Virtual clusters: SKUs, totals, and who uses them."),
    "storage": Entry("platform_clusters", "storage_app", "Storage roots that nodes may mount."),
    "modules": Entry("platform_modules", "modules_app", "Modules that are built from repositories."),
    "reviews": Entry("platform_modules", "reviews_app", "Reviews, by which modules are published."),
    "categories": Entry("platform_modules", "categories_app", "Categories of modules, for admins."),
    "users": Entry("platform_users", "users_app", "Accounts, and who changed what."),
    "teams": Entry("platform_users", "teams_app", "Teams and who is in them."),
    "tokens": Entry("platform_users", "tokens_app", "API tokens, for scripts."),
    "login": Entry(
        "platform_login",
        "login",
        "Choose the platform that workflows, modules, runs, users ... are on, and who you are there.",
    ),
    "logout": Entry("platform_login", "logout", "Forget that platform; the commands are for the one in the box again."),
    "openapi": Entry("platform_login", "openapi", "Print the OpenAPI document of the platform's API."),
    "env": Entry("cluster", "env", "Print the settings with which kubectl, argo and Hera find the cluster."),
    "doctor": Entry("doctor", "doctor", "Show what this machine can do, and what to install for the rest."),
    "version": Entry("cluster", "version", "Print the version of the command and of the cluster."),
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
        module = import_module(f"muster.cli.{entry.module}")
        served = getattr(module, entry.function)
        if isinstance(served, typer.Typer):  # a word with verbs of its own
            group = get_command(served)
            group.name = cmd_name
            return group
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        settings = getattr(module, "CONTEXT_SETTINGS", None)
        single.command(cmd_name, context_settings=settings)(served)
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
