"""Budgets: how much of everything that a user can make grow. They are `budgets` in `config.yaml`.

A budget is one field here; its setting has the same name in camelCase. An error about an exceeded budget names the
setting with `setting_name`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from muster.kube.kinds import Schema
from muster.kube.schema import integer, obj


@dataclass(frozen=True, slots=True)
class Budgets:
    """Every default is so large that an honest user does not meet it."""

    pod_processes: int = 32_768
    """Processes and threads of a Pod."""
    member_pod_processes: int = 4_096
    """The same for a Pod of a restricted namespace."""
    pod_open_files: int = 1_048_576
    """Files that one process of a Pod may have open, as far as the machine allows so many."""
    pods_memory_percent: int = 90
    """What all Pods of this machine may use together of its memory, where the server may create control groups. 100 is
    no limit."""
    pod_scratch_megabytes: int = 20_480
    """What a Pod may write to its own disk space: /tmp, emptyDir volumes and its layer of a root file system."""
    member_volume_megabytes: int = 204_800
    """What the volumes of a restricted namespace may use together, where claims are folders of this machine."""
    environment_megabytes: int = 20_480
    """Python environments that Pods share. Those that were not used for the longest time are removed first."""
    pod_sessions: int = 64
    """Commands (`kubectl exec`) and forwarded ports that are open in one Pod at the same time."""
    output_megabytes: int = 10_240
    """The output files of a container."""
    output_files: int = 100_000
    """The number of these files and folders."""
    output_text_kilobytes: int = 1_024
    """The texts of a node's outputs, which are part of the workflow: all its output parameters together."""
    run_log_megabytes: int = 1_024
    """Logs of a run's Pods that a retry has replaced."""
    member_artifact_megabytes: int = 102_400
    """What a restricted namespace may keep in the local artifact repository."""
    member_artifact_files: int = 1_000_000
    """The number of these files and folders."""
    member_object_megabytes: int = 512
    """The memory that the Kubernetes objects of a restricted namespace may take. It is estimated from their size and
    number of values; Events and nodes of workflows do not count."""
    user_streams: int = 256
    """Streams of events, logs and files of the platform that one user has open at the same time; and watches, logs and
    commands of the Kubernetes API of a user who is not an admin."""
    streams: int = 4_096
    """The same for all users together."""
    user_requests_per_second: int = 100
    """Requests of one user to the platform, on average; ten times as many at once."""
    member_running_requests: int = 4
    """Requests of a user who is not an admin that are worked on at the same time, by each API. Others wait. Streams do
    not count."""
    member_waiting_requests: int = 256
    """How many wait."""
    member_loop_percent: int = 25
    """What of the server's time the requests of such a user get while other users are active."""
    user_workflows: int = 10_000
    """Workflows of one user, with archived ones."""
    workflow_versions: int = 10_000
    """Versions of one workflow."""
    user_modules: int = 1_000
    """Modules of one user."""
    module_versions: int = 1_000
    """Versions of one module."""
    user_tokens: int = 1_000
    """API tokens of one user that are valid."""
    user_dispatch_jobs: int = 10_000
    """Jobs of the dispatcher of one user, with those that have ended."""
    user_webhooks: int = 100
    """Webhooks of one user."""
    webhook_pending: int = 10_000
    """Messages of one webhook that wait to be sent."""
    user_experiments: int = 10_000
    """Experiments of one user."""
    user_pipelines: int = 10_000
    """Kubeflow pipelines of one user."""
    pipeline_versions: int = 10_000
    """Versions of one Kubeflow pipeline."""
    user_pipeline_runs: int = 100_000
    """Runs of Kubeflow pipelines of one user, with those that have ended."""
    user_recurring_runs: int = 1_000
    """Recurring runs of one user."""
    user_pipeline_megabytes: int = 2_048
    """The compiled pipelines of one user, of versions, runs and recurring runs. Equal ones are stored once."""
    member_recurring_seconds: int = 2
    """The shortest time between two runs of a recurring run whose owner is not an admin."""
    member_recurring_runs_per_minute: int = 60
    """What all recurring runs of one user who is not an admin start together. What is due beyond that waits."""
    user_sessions: int = 100
    """Sessions of one user. One more ends the one that was not used for the longest time."""
    workflow_nodes: int = 20_000
    """Nodes of a workflow: Pods, steps, groups, retries and hooks."""
    workflow_depth: int = 100
    """How deep the templates of a workflow may call one another."""
    workflow_status_megabytes: int = 64
    """The nodes of a workflow with their inputs, outputs and messages, and the text of those that run."""
    workflow_step_seconds: int = 10
    """CPU time that the engine may take for one step of a workflow: what follows from the Pods that ended."""
    workflow_seconds: int = 120
    """CPU time that the engine may take for one workflow in total, since the server was started."""
    member_running_workflows: int = 20
    """Workflows of a restricted namespace that run at the same time. Others wait."""
    member_cron_workflows: int = 100
    """CronWorkflows of a restricted namespace."""
    member_cron_seconds: int = 60
    """The shortest time between two runs of a CronWorkflow of a restricted namespace."""
    check_seconds: int = 20
    """How long parsing, linting or compiling one text of a user may take."""
    check_megabytes: int = 1024
    """The memory that it may take."""
    object_check_seconds: int = 2
    """The CPU time that checking one object of the Kubernetes or Argo API may take. Storing it takes as long again."""
    user_checks: int = 16
    """Texts of one user that are checked or wait for it at the same time."""
    connections: int = 8_192
    """Open connections of each API: Kubernetes and Argo together, and the platform."""
    address_connections: int = 4_096
    """Those that come from one address."""


def setting_name(field: str) -> str:
    """Returns what a user writes for a field: `budgets.outputFiles`."""
    return f"budgets.{_camel_case(field)}"


def read_budgets(config: Mapping[str, Any]) -> Budgets:
    """Reads the budgets from a config that has been validated."""
    given = config.get("budgets") or {}
    return Budgets(
        **{field.name: given[_camel_case(field.name)] for field in fields(Budgets) if _camel_case(field.name) in given}
    )


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


BUDGETS_SCHEMA: Final[Schema] = obj({_camel_case(field.name): integer(1) for field in fields(Budgets)})
