"""Runs resource templates, in the server's own process: does what they ask for, and watches the object until one of
their conditions holds.

A server that is killed and starts again creates nothing twice: what a step creates carries a mark. The other actions
may be done twice when the server dies before their end is stored, which only a JSON patch can tell.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from muster.kube.cluster import Cluster
from muster.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Forbidden,
    Gone,
    Invalid,
    MethodNotAllowed,
    NotFound,
    TooLarge,
    Unauthorized,
)
from muster.kube.objects import Key, Object, annotations_of, key_of, name_of, namespace_of, timestamp, uid_of
from muster.workflows.model import Launch, Node, Outcome, Report, Template
from muster.workflows.resources.actions import MARK, carry_out, delete, patched_alone
from muster.workflows.resources.conditions import verdict
from muster.workflows.resources.errors import ResourceError
from muster.workflows.resources.orders import Order, Target, read_order
from muster.workflows.resources.outputs import outputs_of
from muster.workflows.resources.permission import May
from muster.workflows.resources.watching import ObjectWatch, Wait

ReadArtifact: TypeAlias = Callable[[Object, Launch, str], Awaitable[bytes]]
"""(workflow, launch, name of one of its input artifacts) -> what is in it. Raises ResourceError."""

RETRIES = "muster.dev/retries"
"""An annotation of a workflow: how often it was retried. What an earlier try has made is not taken for this one's."""

EXIT_CODE = 64
"""That of Argo's executor, for whatever goes wrong."""

_FINAL = (AlreadyExists, BadRequest, Forbidden, Gone, Invalid, MethodNotAllowed, NotFound, TooLarge, Unauthorized)
_VERBS = {
    "get": ("get",),
    "create": ("create",),
    "apply": ("create", "patch"),
    "delete": ("delete",),
    "replace": ("update",),
    "patch": ("patch",),
}
_ON_PAPER = "a resource template has no Pod of its own here; what it does to it is not stored"


@dataclass(slots=True, eq=False)
class _Leaf:
    place: tuple[str, str]
    """The workflow's uid and the node."""
    workflow: Key
    template: Template
    started: str
    ended: bool = False
    waits: list[Wait] = field(default_factory=list)


class ResourceLeaves:
    """`Leaves` for resource templates. Acts in the name of the workflow's service account if it is told how to ask what
    that `may`; else it may do everything."""

    def __init__(
        self,
        cluster: Cluster,
        report: Report,
        *,
        read_artifact: ReadArtifact | None = None,
        may: May | None = None,
    ) -> None:
        self._cluster = cluster
        self._report = report
        self._read_artifact = read_artifact
        self._may = may
        self._watch = ObjectWatch(cluster)
        self._leaves: dict[tuple[str, str], _Leaf] = {}

    async def launch(self, workflow: Object, spec: Object, launch: Launch, *, begun: bool) -> None:
        """Needs `run` going."""
        place = (uid_of(workflow), str(launch.node["id"]))
        known = self._leaves.get(place)
        if known is not None:
            if known.waits:
                self._begun(known)
            return
        leaf = _Leaf(place, key_of(workflow), launch.template, launch.node.get("startedAt") or timestamp())
        self._leaves[place] = leaf
        try:
            await self._begin(workflow, spec, launch, leaf, begun=begun)
        except ResourceError as error:
            self._fail(leaf, str(error))
        except _FINAL as error:
            self._fail(leaf, f"Error from server ({error.reason}): {_explained(error)}")
        except BaseException:
            self._leaves.pop(place, None)  # it may be tried again
            raise

    async def stop(self, workflow: Object, node: Node, *, force: bool) -> None:
        """The object stays: it is the user's."""
        place = (uid_of(workflow), str(node["id"]))
        leaf = self._leaves.get(place) or _Leaf(place, key_of(workflow), {}, node.get("startedAt") or timestamp())
        waited = ", ".join(str(wait.target) for wait in leaf.waits)
        self._fail(leaf, f"stopped while waiting for {waited}" if waited else "stopped")

    async def stop_others(self, workflow: Object, nodes: Collection[str]) -> None:
        """Nobody waits for their objects any more."""
        for leaf in [
            leaf for (uid, node), leaf in self._leaves.items() if uid == uid_of(workflow) and node not in nodes
        ]:
            self._fail(leaf, "stopped")

    async def run(self) -> None:
        await self._watch.run()

    async def _begin(self, workflow: Object, spec: Object, launch: Launch, leaf: _Leaf, *, begun: bool) -> None:
        manifest = await self._manifest(workflow, launch)
        order = read_order(launch.template, manifest, workflow, self._cluster.catalogue)
        target = order.targets[0]
        if target.kind.resource == "pods" and target[1:] == (namespace_of(workflow), launch.pod_name):
            self._patch_own_pod(leaf, order, workflow)
            return
        self._check_permission(order, workflow, spec, launch.template)
        if order.action == "delete":
            await self._delete(leaf, order)
            return
        obj = await self._object(order, mark_of(workflow, leaf.place[1]), begun=begun)
        if obj is None or not order.conditions or order.flags.dry_run:
            self._succeed(leaf, obj)
            return
        self._begun(leaf)
        target = target._replace(name=name_of(obj))
        await self._wait(leaf, target, obj, lambda now: self._look(leaf, order, target, now))

    async def _manifest(self, workflow: Object, launch: Launch) -> str:
        resource: dict[str, Any] = launch.template.get("resource") or {}
        source = resource.get("manifestFrom")
        if not source:
            return str(resource.get("manifest") or "")
        name = str((source.get("artifact") or {}).get("name") or "")
        where = "resource.manifestFrom.artifact.name"
        inputs = (launch.template.get("inputs") or {}).get("artifacts") or ()
        if not any(artifact.get("name") == name for artifact in inputs):
            raise ResourceError(f'{where}: the template has no input artifact "{name}"')
        if self._read_artifact is None:
            raise ResourceError(f"{where}: artifacts cannot be read here; write the manifest into resource.manifest")
        content = await self._read_artifact(workflow, launch, name)
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ResourceError(f'{where}: artifact "{name}" is not UTF-8 text') from None

    def _check_permission(self, order: Order, workflow: Object, spec: Object, template: Template) -> None:
        if self._may is None:
            return
        account = str(template.get("serviceAccountName") or spec.get("serviceAccountName") or "")
        for kind, namespace, name in order.targets:
            for verb in _VERBS[order.action]:
                refusal = self._may(namespace_of(workflow), account, verb, kind, namespace, name)
                if refusal:
                    raise Forbidden(refusal)

    async def _object(self, order: Order, mark: str, *, begun: bool) -> Object | None:
        """The object the order is about, after it was carried out: now, or before the server started again."""
        target = order.targets[0]
        if order.action == "create":
            made = await self._watch.made_by(target.kind, mark)
        else:
            made = await self._watch.current(target) if begun else None
        if made is not None:
            return made
        if begun:
            raise ResourceError(_deleted(target))
        try:
            return await carry_out(self._cluster, order, mark)
        except AlreadyExists as error:
            there = await self._watch.current(target)
            maker = annotations_of(there or {}).get(MARK, "")
            if there is not None and maker == mark:
                return there
            if maker.rpartition("/")[0] == mark.rpartition("/")[0]:
                raise AlreadyExists(
                    f"{error.message}: an earlier try of this step has made it; delete it, or let the manifest have a "
                    "metadata.generateName, or use action: apply"
                ) from None
            raise

    async def _delete(self, leaf: _Leaf, order: Order) -> None:
        deleted = await delete(self._cluster, order)
        if not order.flags.wait or not deleted:
            self._succeed(leaf, None)
            return
        self._begun(leaf)
        left = {uid_of(obj) for _, obj in deleted}

        def gone(uid: str, now: Object | None) -> bool:
            if now is None:
                left.discard(uid)
                if not left:
                    self._succeed(leaf, None)
            return now is None

        for target, obj in deleted:
            await self._wait(leaf, target, obj, partial(gone, uid_of(obj)))

    def _patch_own_pod(self, leaf: _Leaf, order: Order, workflow: Object) -> None:
        if order.action not in ("patch", "get"):
            raise ResourceError(f"resource.manifest: {order.action} of the step's own Pod: it has none here")
        pod: Object = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": order.targets[0].name,
                "namespace": namespace_of(workflow),
                "labels": {"workflows.argoproj.io/workflow": name_of(workflow)},
                "annotations": {"workflows.argoproj.io/node-id": leaf.place[1]},
            },
            "spec": {"containers": [{"name": "main"}]},
            "status": {"phase": "Running"},
        }
        self._succeed(leaf, patched_alone(order, pod) if order.action == "patch" else pod, _ON_PAPER)

    async def _wait(self, leaf: _Leaf, target: Target, obj: Object, look: Callable[[Object | None], bool]) -> None:
        if not leaf.ended:
            wait = await self._watch.until(target, obj, look)
            if leaf.ended:
                self._watch.forget(wait)
            else:
                leaf.waits.append(wait)

    def _look(self, leaf: _Leaf, order: Order, target: Target, obj: Object | None) -> bool:
        """Whether the waiting is over."""
        if obj is None:
            self._fail(leaf, _deleted(target))
            return True
        said = verdict(order.conditions, obj)
        if said:
            self._fail(leaf, said)
        elif said == "":
            try:
                self._succeed(leaf, obj)
            except ResourceError as error:
                self._fail(leaf, str(error))
        return said is not None

    def _begun(self, leaf: _Leaf) -> None:
        if not leaf.ended:
            self._report(leaf.workflow, leaf.place[1], Outcome("Running", started=leaf.started))

    def _succeed(self, leaf: _Leaf, obj: Object | None, message: str = "") -> None:
        outputs = outputs_of(leaf.template, obj)
        done = Outcome("Succeeded", message, exit_code=0, outputs=outputs, started=leaf.started, finished=timestamp())
        self._end(leaf, done)

    def _fail(self, leaf: _Leaf, message: str) -> None:
        done = Outcome("Failed", message, exit_code=EXIT_CODE, started=leaf.started, finished=timestamp())
        self._end(leaf, done)

    def _end(self, leaf: _Leaf, outcome: Outcome) -> None:
        if leaf.ended:
            return
        leaf.ended = True
        self._leaves.pop(leaf.place, None)
        for wait in leaf.waits:
            self._watch.forget(wait)
        self._report(leaf.workflow, leaf.place[1], outcome)


def mark_of(workflow: Object, node: str) -> str:
    """What tells the objects that a step creates from all others, those of its earlier tries included."""
    return f"{uid_of(workflow)}/{node}/{annotations_of(workflow).get(RETRIES, '0')}"


def _deleted(target: Target) -> str:
    return (
        "The resource has been deleted while its status was still being checked. Will not be retried: "
        f'{target.kind.resource} "{target.name}" not found'
    )


def _explained(error: ApiError) -> str:
    if all(cause.field in error.message for cause in error.causes):
        return error.message
    return f"{error.message}: {'; '.join(f'{cause.field}: {cause.message}' for cause in error.causes)}"
