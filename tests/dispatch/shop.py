"""Jobs of a shop, for tests: other processes import them by name."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from muster.dispatch import Container, Context, JobError, JobFault, NoCapacity, Spec, secret
from muster.dispatch.model import Job


def add(ctx: Context, a: int, b: int = 0) -> int:
    ctx.report(0.5, "adding", a=a)
    return a + b


def fail(ctx: Context, message: str = "no luck") -> None:
    raise ValueError(message)


def fail_twice(ctx: Context) -> int:
    if ctx.attempt < 3:
        raise JobError("Shop.Flaky", f"attempt {ctx.attempt} failed")
    return ctx.attempt


def errors(error: BaseException, hook: str, job: Job) -> JobFault:
    return JobFault("Shop.Error", f"{hook} of {job.type}: {error}", hook=hook)


class Train(Container):
    """Writes the hooks it ran into its folder. `args["trouble"]` says which hook misbehaves, and how."""

    def initialize(self, ctx: Context) -> None:
        self._hook(ctx, "initialize")

    def prepare(self, ctx: Context) -> Spec:
        self._hook(ctx, "prepare")
        ctx.keep["prepared"] = ctx.keep.get("prepared", 0) + 1
        return Spec(image="shop/train:1", command=("train", str(ctx.job.args.get("rows", 1))), env={"SEED": "7"})

    async def check(self, ctx: Context) -> None:
        await asyncio.sleep(0)
        self._hook(ctx, "check")

    def submit(self, ctx: Context) -> dict[str, Any]:
        self._hook(ctx, "submit")
        return {"hooks": (ctx.folder / "hooks").read_text().split(), "kept": dict(ctx.keep)}

    def clean(self, ctx: Context) -> None:
        self._hook(ctx, "clean")

    def _hook(self, ctx: Context, hook: str) -> None:
        with (ctx.folder / "hooks").open("a") as file:
            file.write(f"{hook}\n")
        trouble = (ctx.job.args.get("trouble") or {}).get(hook)
        match trouble:
            case "raise":
                raise RuntimeError(f"{hook} is broken")
            case "job-error":
                raise JobError(f"Shop.{hook}", f"{hook} does not like it", retryable=False)
            case "hang":
                time.sleep(3600)
            case "exit":
                os._exit(3)
            case "kill":
                os.kill(os.getpid(), 9)
            case "no-capacity" if not (ctx.folder / "room").exists():
                raise NoCapacity("no licence is free", retry_after=0.01)


def wait_for_cancel(ctx: Context) -> None:
    print("waiting", flush=True)
    ctx.cancelled.wait(60)
    print("cancelled", flush=True)


def read_key(ctx: Context) -> str:
    return os.environ["SHOP_KEY"][::-1]


def wait_for_file(ctx: Context) -> str:
    while not (ctx.folder / "go").exists():
        time.sleep(0.02)
    return "went"


class Ranks(Container):
    """Runs on several nodes, or as the manifest that it is given."""

    def prepare(self, ctx: Context) -> Spec:
        command = ("sh", "-c", f"echo rank $RANK of $WORLD_SIZE; touch {ctx.folder}/rank-$RANK")
        if not ctx.job.args.get("manifest"):
            return Spec(image="debian:12", command=command)
        mount = {"name": "jobs", "mountPath": str(ctx.folder)}
        pod = {
            "containers": [{"name": "pytorch", "image": "debian:12", "command": command, "volumeMounts": [mount]}],
            "volumes": [{"name": "jobs", "hostPath": {"path": str(ctx.folder)}}],
        }
        roles = {"Master": {"replicas": 1, "restartPolicy": "Never", "template": {"spec": pod}}}
        spec = {"pytorchReplicaSpecs": roles, "runPolicy": {"cleanPodPolicy": "None"}}
        return Spec(manifest={"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": spec})

    def submit(self, ctx: Context) -> list[str]:
        return sorted(path.name for path in ctx.folder.glob("rank-*"))


class Script(Container):
    """Runs `args["script"]` in a small image, with a key; with `args["manifest"]`, as a PyTorchJob of the user's."""

    def prepare(self, ctx: Context) -> Spec:
        image, command = "busybox:1.35", ("sh", "-c", ctx.job.args["script"])
        if not ctx.job.args.get("manifest"):
            return Spec(image=image, command=command, env={"SHOP_KEY": secret("env:SHOP_KEY")})
        pod = {"containers": [{"name": "pytorch", "image": image, "command": list(command)}]}
        roles = {"Master": {"replicas": 1, "restartPolicy": "Never", "template": {"spec": pod}}}
        spec = {"pytorchReplicaSpecs": roles, "runPolicy": {"cleanPodPolicy": "None", "backoffLimit": 0}}
        return Spec(manifest={"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": spec})
