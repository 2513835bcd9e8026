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
    from muster.cli.cluster import down, env, rotate_key, serve, status, up, version

    return {
        "up": up,
        "server": serve,
        "down": down,
        "status": status,
        "env": env,
        "rotate-key": rotate_key,
        "version": version,
    }


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


def _load_templates() -> _Commands:
    from muster.cli.templates import templates_app

    return {"templates": templates_app}


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


def _load_debug() -> _Commands:
    from muster.cli.debug import debug

    return {"debug": debug}


def _load_wait() -> _Commands:
    from muster.cli.wait import wait

    return {"wait": wait}


def _load_top() -> _Commands:
    from muster.cli.top import top

    return {"top": top}


def _load_metrics() -> _Commands:
    from muster.cli.metrics import metrics

    return {"metrics": metrics}


def _load_operator() -> _Commands:
    from muster.cli.operator import operator_app

    return {"operator": operator_app}


def _load_deploy() -> _Commands:
    from muster.cli.deploy import deploy

    return {"deploy": deploy}


def _load_platform_workflows() -> _Commands:
    from muster.cli.platform_workflows import workflows_app

    return {"workflows": workflows_app}


def _load_platform_pipelines() -> _Commands:
    from muster.cli.platform_pipelines import experiments_app, pipelines_app, recurring_app

    return {"pipelines": pipelines_app, "experiments": experiments_app, "recurring": recurring_app}


def _load_platform_runs() -> _Commands:
    from muster.cli.platform_runs import runs_app

    return {"runs": runs_app}


def _load_platform_webhooks() -> _Commands:
    from muster.cli.platform_webhooks import webhooks_app

    return {"webhooks": webhooks_app}


def _load_platform_clusters() -> _Commands:
    from muster.cli.platform_clusters import clusters_app, storage_app

    return {"clusters": clusters_app, "storage": storage_app}


def _load_platform_volumes() -> _Commands:
    from muster.cli.platform_volumes import volumes_app

    return {"volumes": volumes_app}


def _load_platform_modules() -> _Commands:
    from muster.cli.platform_modules import categories_app, modules_app, reviews_app

    return {"modules": modules_app, "reviews": reviews_app, "categories": categories_app}


def _load_platform_users() -> _Commands:
    from muster.cli.platform_users import teams_app, tokens_app, users_app

    return {"users": users_app, "teams": teams_app, "tokens": tokens_app}


def _load_platform_login() -> _Commands:
    from muster.cli.platform import login, logout, openapi

    return {"login": login, "logout": logout, "openapi": openapi}


def _load_platform_archive() -> _Commands:
    from muster.cli.platform_archive import export_archive, import_archive

    return {"export": export_archive, "import": import_archive}


def _load_dispatch() -> _Commands:
    from muster.cli.dispatch import dispatch_app

    return {"dispatch": dispatch_app}


def _load_platform_workspaces() -> _Commands:
    from muster.cli.platform_workspaces import notebooks_app, tensorboards_app

    return {"notebooks": notebooks_app, "tensorboards": tensorboards_app}


def _load_doctor() -> _Commands:
    from muster.cli.doctor import doctor

    return {"doctor": doctor}


class Entry(NamedTuple):
    load: Callable[[], _Commands]
    summary: str


COMMANDS = {
    "run": Entry(_load_run, "Apply files, show their progress, and exit with their result."),
    "up": Entry(_load_cluster, "Start the embedded cluster and the platform."),
    "server": Entry(_load_cluster, "Serve the platform, on the embedded cluster or on a Kubernetes cluster."),
    "down": Entry(_load_cluster, "Stop the embedded cluster; running Pods keep running."),
    "status": Entry(_load_cluster, "Show the addresses and the data directory of the embedded cluster."),
    "submit": Entry(_load_workflow_commands, "Submit workflows from files or from a template."),
    "lint": Entry(_load_lint, "Check workflows and templates for mistakes."),
    "list": Entry(_load_workflow_commands, "List workflows, running ones first."),
    "stop": Entry(_load_workflow_commands, "Stop workflows; their exit handlers still run."),
    "terminate": Entry(_load_workflow_commands, "Stop workflows immediately, without their exit handlers."),
    "suspend": Entry(_load_workflow_commands, "Suspend workflows: no new steps start."),
    "resume": Entry(_load_workflow_commands, "Resume suspended workflows and steps."),
    "retry": Entry(_load_workflow_commands, "Retry failed workflows; steps that succeeded do not run again."),
    "resubmit": Entry(_load_workflow_commands, "Submit copies of workflows."),
    "templates": Entry(_load_templates, "Install the WorkflowTemplates that come with Muster."),
    "apply": Entry(_load_apply, "Create or update objects from files."),
    "create": Entry(_load_apply, "Create objects from files, or a namespace by name."),
    "get": Entry(_load_get, "List objects, or print them in full; a workflow is shown as a tree."),
    "describe": Entry(_load_describe, "Show objects in detail, with their events and why they wait or failed."),
    "logs": Entry(_load_logs, "Print the logs of containers."),
    "events": Entry(_load_events, "List events, oldest first."),
    "exec": Entry(_load_exec, "Run a command in a container."),
    "debug": Entry(_load_debug, "Open a shell in a node that failed, as it ended, or in one that runs."),
    "wait": Entry(_load_wait, "Wait for a condition on objects."),
    "delete": Entry(_load_apply, "Delete objects."),
    "top": Entry(_load_top, "Show the resource usage of nodes or Pods."),
    "metrics": Entry(_load_metrics, "Show the losses and other scalars that runs and jobs have written."),
    "operator": Entry(_load_operator, "Run the training controller on a Kubernetes cluster."),
    "deploy": Entry(_load_deploy, "Deploy the platform on a Kubernetes cluster, or update it."),
    "dispatch": Entry(_load_dispatch, "Run the jobs of a Python program on this machine, a cluster, AIHC or timaker."),
    "workflows": Entry(_load_platform_workflows, "Manage the platform's workflows and their versions."),
    "runs": Entry(_load_platform_runs, "Manage runs of the platform's workflows."),
    "webhooks": Entry(_load_platform_webhooks, "Manage webhooks, which tell other programs when a run ends."),
    "notebooks": Entry(_load_platform_workspaces, "Manage notebook servers."),
    "tensorboards": Entry(_load_platform_workspaces, "Manage TensorBoards."),
    "pipelines": Entry(_load_platform_pipelines, "Manage Kubeflow pipelines, their versions and runs."),
    "experiments": Entry(_load_platform_pipelines, "Manage experiments, which group the runs of Kubeflow pipelines."),
    "recurring": Entry(_load_platform_pipelines, "Manage recurring runs of Kubeflow pipelines."),
    "clusters": Entry(_load_platform_clusters, "Manage virtual clusters: SKUs, totals and usage."),
    "storage": Entry(_load_platform_clusters, "Manage the storage roots that nodes may mount."),
    "volumes": Entry(_load_platform_volumes, "Manage volumes, and copy files to and from them."),
    "modules": Entry(_load_platform_modules, "Manage modules, which are built from git repositories."),
    "reviews": Entry(_load_platform_modules, "Manage the reviews that publish modules."),
    "categories": Entry(_load_platform_modules, "Manage the categories of modules (admins only)."),
    "users": Entry(_load_platform_users, "Manage accounts, and show the audit log."),
    "teams": Entry(_load_platform_users, "Manage teams and their members."),
    "tokens": Entry(_load_platform_users, "Manage API tokens for scripts."),
    "login": Entry(
        _load_platform_login,
        "Log in to a platform.",
    ),
    "logout": Entry(_load_platform_login, "Log out of the platform."),
    "export": Entry(_load_platform_archive, "Export workflows, modules and settings of the platform to an archive."),
    "import": Entry(_load_platform_archive, "Import an archive of another platform."),
    "openapi": Entry(_load_platform_login, "Print the OpenAPI document of the platform's API."),
    "env": Entry(_load_cluster, "Print the environment variables that connect kubectl, argo and Hera to the cluster."),
    "rotate-key": Entry(_load_cluster, "Add a new key that encrypts secrets at rest."),
    "doctor": Entry(_load_doctor, "Check what this machine supports, and what to install for the rest."),
    "version": Entry(_load_cluster, "Print the version of the command and of the cluster."),
}


_WITH_VALUE = ("-n", "--namespace", "--kubeconfig", "--context")


class Commands(TyperGroup):
    """The commands of the table as a Typer group."""

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

    `muster run FILE` works on its own. `muster up` starts a cluster that keeps running.
    """


def main() -> NoReturn:
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Runs the command line and returns its exit code."""
    debug = "--debug" in _words_before_dashes(arguments)
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        app(args=convert_boolean_options(move_command_first(arguments)), prog_name="muster")
    except CommandExit as end:
        return end.exit_code
    except SystemExit as end:
        # The parser exits with 2; kubectl, and so this command, exits with 1.
        return 1 if end.code == 2 else int(end.code or 0)
    except CommandError as failure:
        if debug:
            raise
        _print_error(failure.message)
        return failure.exit_code
    except Exception as error:
        if debug:
            raise
        from muster.cli.errors import describe_error

        _print_error(describe_error(error))
        return 1
    return 0


def move_command_first(arguments: Sequence[str]) -> list[str]:
    """Turns `muster -n x get pods` into `muster get -n x pods`: these options belong to each command."""
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


def convert_boolean_options(arguments: Sequence[str]) -> list[str]:
    """Turns kubectl's `--wait=false` into `--no-wait`, and `--wait=true` into `--wait`."""
    ours = _words_before_dashes(arguments)
    written = [re.sub(r"^--([a-z][a-z-]*)=(true|false)$", _to_flag, word) for word in ours]
    return [*written, *arguments[len(ours) :]]


def _to_flag(match: re.Match[str]) -> str:
    return f"--{match[1]}" if match[2] == "true" else f"--no-{match[1]}"


def _words_before_dashes(arguments: Sequence[str]) -> list[str]:
    words = list(arguments)
    return words[: words.index("--")] if "--" in words else words


def _print_error(message: str) -> None:
    from muster.cli.output import warn

    warn(message.removesuffix("\n"))
