"""`muster pipelines`, `muster experiments` and `muster recurring`: Kubeflow Pipelines on the platform."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from muster.cli.errors import CommandError, CommandExit
from muster.cli.output import echo, format_table
from muster.cli.platform import (
    JsonOption,
    LimitOption,
    command_group,
    connect_platform,
    parse_pairs,
    print_json,
    print_rows,
)

pipelines_app = command_group("Manage Kubeflow pipelines, their versions and runs.")
experiments_app = command_group("Manage experiments, which group the runs of Kubeflow pipelines.")
recurring_app = command_group("Manage recurring runs of Kubeflow pipelines.")

_Pipeline = Annotated[str, typer.Argument(metavar="PIPELINE", help="The name or id of the pipeline.")]
_Experiment = Annotated[str, typer.Argument(metavar="EXPERIMENT", help="The name or id of the experiment.")]
_RunId = Annotated[str, typer.Argument(metavar="RUN", help="The id of the run.")]
_RecurringId = Annotated[str, typer.Argument(metavar="ID", help="The id of the recurring run.")]
_File = Annotated[str, typer.Argument(metavar="FILE", help="A compiled pipeline: .yaml, .json, .zip or .tar.gz.")]
_Name = Annotated[str, typer.Option("--name", help="Its name.")]
_Description = Annotated[str, typer.Option("--description", help="What it does.")]
_Space = Annotated[str, typer.Option("--namespace", "-n", help="The namespace of a team; - lists all you may see.")]
_Parameters = Annotated[
    list[str] | None, typer.Option("--parameter", "-p", help="A parameter as NAME=VALUE; JSON if it is valid JSON.")
]
_InExperiment = Annotated[str, typer.Option("--experiment", help="The name or id of the experiment.")]


@pipelines_app.command("list")
def list_pipelines(namespace: _Space = "", most: LimitOption = 100, as_json: JsonOption = False) -> None:
    """List pipelines."""
    with connect_platform() as muster:
        found = list(muster.pipelines.list(namespace=namespace, most=most))
    _print(
        found, {"NAME": "display_name", "ID": "pipeline_id", "CREATED": "created_at", "ABOUT": "description"}, as_json
    )


@pipelines_app.command("get")
def get_pipeline(pipeline: _Pipeline) -> None:
    """Print a pipeline and its versions as JSON."""
    with connect_platform() as muster:
        found = muster.pipelines.get(pipeline)
        versions = [
            {name: value for name, value in each.items() if name != "pipeline_spec"}
            for each in muster.pipelines.versions(found["pipeline_id"])
        ]
    print_json({**found, "versions": versions})


@pipelines_app.command("create")
def create_pipeline(file: _File, name: _Name = "", description: _Description = "", namespace: _Space = "") -> None:
    """Create a pipeline from a compiled file."""
    _check_file(file)
    with connect_platform() as muster:
        made = muster.pipelines.upload(file, name=name, description=description, namespace=namespace)
    echo(f"pipeline {made['display_name']} created ({made['pipeline_id']})")


@pipelines_app.command("add-version")
def add_version(pipeline: _Pipeline, file: _File, name: _Name = "", description: _Description = "") -> None:
    """Add a version to a pipeline."""
    _check_file(file)
    with connect_platform() as muster:
        made = muster.pipelines.upload_version(pipeline, file, name=name, description=description)
    echo(f"version {made['display_name']} added ({made['pipeline_version_id']})")


@pipelines_app.command("delete")
def delete_pipeline(pipeline: _Pipeline) -> None:
    """Delete a pipeline with its versions. Its runs stay."""
    with connect_platform() as muster:
        muster.pipelines.delete(pipeline)
    echo(f"pipeline {pipeline} deleted")


@pipelines_app.command("run")
def run_pipeline(
    pipeline: _Pipeline,
    parameters: _Parameters = None,
    version: Annotated[str, typer.Option("--version", help="The id of a version. Default: the newest.")] = "",
    name: _Name = "",
    experiment: _InExperiment = "",
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it ends; the exit code is 1 if it failed.")] = False,
) -> None:
    """Run a pipeline."""
    with connect_platform() as muster:
        made = muster.pipelines.run(
            pipeline, version=version, name=name, parameters=_values(parameters), experiment=experiment
        )
        echo(f"run {made['run_id']} created")
        if wait:
            _report_end(muster.pipelines.wait(made["run_id"]))


@pipelines_app.command("runs")
def list_runs(
    experiment: _InExperiment = "", namespace: _Space = "", most: LimitOption = 100, as_json: JsonOption = False
) -> None:
    """List runs, newest first."""
    with connect_platform() as muster:
        found = list(muster.pipelines.runs(experiment=experiment, namespace=namespace, most=most))
    _print(found, {"NAME": "display_name", "ID": "run_id", "STATE": "state", "CREATED": "created_at"}, as_json)


@pipelines_app.command("tasks")
def list_tasks(run: _RunId, as_json: JsonOption = False) -> None:
    """List the tasks of a run with their outputs."""
    with connect_platform() as muster:
        found = muster.pipelines.tasks(run)
    if as_json:
        print_json(found)
        return
    rows = [(t["display_name"], t["task_id"], t["state"], _format_outputs(t["node"]["outputs"])) for t in found]
    echo("\n".join(format_table(["TASK", "ID", "STATE", "OUTPUTS"], rows)))


@pipelines_app.command("logs")
def print_log(
    run: _RunId,
    task: Annotated[str, typer.Argument(metavar="TASK", help="The key or id of the task.")],
    attempt: Annotated[int | None, typer.Option("--attempt", help="Which attempt. Default: the last.")] = None,
) -> None:
    """Print the log of a task, also after its Pod is gone."""
    with connect_platform() as muster:
        echo(muster.pipelines.log(run, task, attempt=attempt).removesuffix("\n"))


@pipelines_app.command("stop")
def stop_run(run: _RunId) -> None:
    """Cancel a run."""
    with connect_platform() as muster:
        muster.pipelines.terminate(run)
    echo(f"run {run} is being canceled")


@pipelines_app.command("retry")
def retry_run(run: _RunId) -> None:
    """Continue a run that failed. Tasks that succeeded do not run again."""
    with connect_platform() as muster:
        muster.pipelines.retry(run)
    echo(f"run {run} continues")


@pipelines_app.command("delete-run")
def delete_run(run: _RunId) -> None:
    """Delete a run with its Workflow and artifacts."""
    with connect_platform() as muster:
        muster.pipelines.delete_run(run)
    echo(f"run {run} deleted")


@experiments_app.command("list")
def list_experiments(namespace: _Space = "", most: LimitOption = 100, as_json: JsonOption = False) -> None:
    """List experiments."""
    with connect_platform() as muster:
        found = list(muster.pipelines.experiments(namespace=namespace, most=most))
    columns = {
        "NAME": "display_name",
        "ID": "experiment_id",
        "STATE": "storage_state",
        "LAST RUN": "last_run_created_at",
    }
    _print(found, columns, as_json)


@experiments_app.command("get")
def get_experiment(experiment: _Experiment) -> None:
    """Print an experiment as JSON."""
    with connect_platform() as muster:
        print_json(muster.pipelines.experiment(experiment))


@experiments_app.command("create")
def create_experiment(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name.")],
    description: _Description = "",
    namespace: _Space = "",
) -> None:
    """Create an experiment."""
    with connect_platform() as muster:
        made = muster.pipelines.create_experiment(name, description=description, namespace=namespace)
    echo(f"experiment {name} created ({made['experiment_id']})")


@experiments_app.command("archive")
def archive_experiment(experiment: _Experiment) -> None:
    """Archive an experiment with its runs, and disable its recurring runs."""
    with connect_platform() as muster:
        muster.pipelines.archive_experiment(experiment)
    echo(f"experiment {experiment} archived")


@experiments_app.command("unarchive")
def unarchive_experiment(experiment: _Experiment) -> None:
    """Restore an archived experiment. Its runs stay archived."""
    with connect_platform() as muster:
        muster.pipelines.archive_experiment(experiment, archived=False)
    echo(f"experiment {experiment} unarchived")


@experiments_app.command("delete")
def delete_experiment(experiment: _Experiment) -> None:
    """Delete an experiment. Its runs stay."""
    with connect_platform() as muster:
        muster.pipelines.delete_experiment(experiment)
    echo(f"experiment {experiment} deleted")


@recurring_app.command("list")
def list_recurring_runs(namespace: _Space = "", most: LimitOption = 100, as_json: JsonOption = False) -> None:
    """List recurring runs."""
    with connect_platform() as muster:
        found = list(muster.pipelines.recurring_runs(namespace=namespace, most=most))
    if as_json:
        print_json(found)
    else:
        rows = [(r["display_name"], r["recurring_run_id"], r["status"], _trigger(r["trigger"])) for r in found]
        print_rows(["NAME", "ID", "STATUS", "TRIGGER"], rows)


@recurring_app.command("get")
def get_recurring_run(identifier: _RecurringId) -> None:
    """Print a recurring run as JSON."""
    with connect_platform() as muster:
        print_json(muster.pipelines.get_recurring_run(identifier))


@recurring_app.command("create")
def create_recurring_run(
    pipeline: _Pipeline,
    cron: Annotated[
        str, typer.Option("--cron", help='Second, minute, hour, day, month, weekday: "0 30 9 * * *".')
    ] = "",
    every: Annotated[int, typer.Option("--every", help="Seconds between two runs.")] = 0,
    parameters: _Parameters = None,
    name: _Name = "",
    experiment: _InExperiment = "",
    max_concurrency: Annotated[int, typer.Option("--max-concurrency", help="Runs at the same time, 1 to 10.")] = 1,
    catch_up: Annotated[bool, typer.Option("--catch-up/--no-catch-up", help="Create the runs of missed ticks.")] = True,
) -> None:
    """Run a pipeline on a schedule, each time in its newest version."""
    if bool(cron) == bool(every):
        raise CommandError("error: use either --cron or --every")
    with connect_platform() as muster:
        made = muster.pipelines.create_recurring_run(
            pipeline,
            cron=cron,
            interval=every,
            name=name,
            parameters=_values(parameters),
            experiment=experiment,
            max_concurrency=max_concurrency,
            catch_up=catch_up,
        )
    echo(f"recurring run {made['display_name']} created ({made['recurring_run_id']})")


@recurring_app.command("enable")
def enable_recurring_run(identifier: _RecurringId) -> None:
    """Enable a recurring run. The runs of missed ticks are created, unless it has --no-catch-up."""
    with connect_platform() as muster:
        muster.pipelines.enable_recurring_run(identifier)
    echo(f"recurring run {identifier} enabled")


@recurring_app.command("disable")
def disable_recurring_run(identifier: _RecurringId) -> None:
    """Disable a recurring run."""
    with connect_platform() as muster:
        muster.pipelines.enable_recurring_run(identifier, enabled=False)
    echo(f"recurring run {identifier} disabled")


@recurring_app.command("delete")
def delete_recurring_run(identifier: _RecurringId) -> None:
    """Delete a recurring run. Its runs stay."""
    with connect_platform() as muster:
        muster.pipelines.delete_recurring_run(identifier)
    echo(f"recurring run {identifier} deleted")


def _print(found: Iterable[Mapping[str, Any]], columns: Mapping[str, str], as_json: bool) -> None:
    items = list(found)
    if as_json:
        print_json(items)
    else:
        print_rows(list(columns), [tuple(each.get(field, "") for field in columns.values()) for each in items])


def _values(given: list[str] | None) -> dict[str, Any]:
    return {name: _value(text) for name, text in parse_pairs("-p", given)}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _format_outputs(outputs: Mapping[str, Any]) -> str:
    values = {**(outputs.get("parameterValues") or {}), **dict.fromkeys(outputs.get("artifacts") or {}, "(artifact)")}
    return ", ".join(f"{name}={value}" for name, value in values.items())[:200]


def _trigger(trigger: Mapping[str, Any]) -> str:
    cron, periodic = trigger.get("cron_schedule"), trigger.get("periodic_schedule") or {}
    return str(cron["cron"]) if cron else f"every {periodic.get('interval_second')} s"


def _report_end(run: Mapping[str, Any]) -> None:
    error = (run.get("error") or {}).get("message", "")
    echo(f"run {run['run_id']} {run['state'].lower()}" + (f": {error}" if error else ""))
    if run["state"] != "SUCCEEDED":
        raise CommandExit(1)


def _check_file(file: str) -> None:
    if not Path(file).is_file():
        raise CommandError(f"error: {file}: there is no such file")
