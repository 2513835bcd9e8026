"""The types of jobs that the server runs: what is submitted becomes a Spec. Imported by the process that runs hooks, so
it imports nothing of the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from muster.dispatch.context import Container, Context
from muster.dispatch.model import Mount, Spec

CONTAINER: Final = "container"
MANIFEST: Final = "manifest"
TASK: Final = "task"


class ContainerJob(Container):
    """An image with a command."""

    def prepare(self, ctx: Context) -> Spec:
        return container_spec(ctx.job.args)


class ManifestJob(Container):
    """A training job of Kubernetes."""

    def prepare(self, ctx: Context) -> Spec:
        return Spec(manifest=ctx.job.args["manifest"])


class TaskJob(Container):
    """A task of MLP Cooker: on this cluster the manifest that it became, on AIHC the task itself."""

    def prepare(self, ctx: Context) -> Spec:
        return task_spec(ctx.job.args)


JOB_TYPES: Final[Mapping[str, type[Container]]] = {CONTAINER: ContainerJob, MANIFEST: ManifestJob, TASK: TaskJob}


def container_spec(args: Mapping[str, Any]) -> Spec:
    return Spec(
        image=args["image"],
        command=tuple(args["command"]),
        env=dict(args.get("env") or {}),
        mounts=tuple(Mount(**mount) for mount in args.get("mounts") or ()),
        working_dir=args.get("working_dir") or "",
    )


def task_spec(args: Mapping[str, Any]) -> Spec:
    if "manifest" in args:
        return Spec(manifest=args["manifest"])
    task: Mapping[str, Any] = args["task"]
    spec: Mapping[str, Any] = task["jobSpec"]
    own = {name: value for name, value in task.items() if name not in ("name", "maxRetries", "timeout", "description")}
    return Spec(
        image=spec["image"],
        command=("sh", "-c", task["command"]),
        env={each["name"]: each["value"] for each in spec["envs"]},
        options={"aihc": own},
    )
