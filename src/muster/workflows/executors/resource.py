"""Executes resource templates in the server's process.

Performs the requested action with the permissions of the workflow's service account, then watches the object until its
success or failure condition holds.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeAlias

from muster.kube.builtin import NAMESPACE
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
from muster.kube.jsonpath import JsonPathError, render
from muster.kube.kinds import Kind
from muster.kube.objects import (
    Key,
    Object,
    annotations_of,
    key_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    owners_of,
    timestamp,
    uid_of,
)
from muster.kube.pod_security import (
    MEMBER_ROLE,
    PREFIX,
    RUN_LABEL,
    belongs_to_run,
    find_foreign_metadata,
    is_restricted,
    is_run_secret,
    run_in_name,
)
from muster.kube.rbac import Action, Authorizer, Grant, Rule, User, is_allowed, service_account_user
from muster.workflows.artifacts.client import ArtifactClient
from muster.workflows.artifacts.locations import ArtifactError
from muster.workflows.executors.resource_actions import (
    STEP_ANNOTATION,
    ObjectWatch,
    Wait,
    delete_objects,
    matching_objects,
    patch_own_pod,
    perform_request,
)
from muster.workflows.executors.resource_conditions import ResourceError, evaluate_conditions
from muster.workflows.executors.resource_request import ResourceRequest, Target, read_resource_request
from muster.workflows.lang.jq import JqError, jq_text
from muster.workflows.model import Launch, Node, Outcome, Outputs, ReportOutcome, Template


def read_outputs(template: Template, obj: Object | None) -> Outputs:
    """Returns all of the template's outputs, those with a source with their values. Without an object (a `get` that may
    find nothing), their defaults. Raises ResourceError for an invalid path or filter."""
    declared = template.get("outputs") or {}
    found = Outputs()
    if declared.get("parameters"):
        found["parameters"] = [_with_value(number, p, obj) for number, p in enumerate(declared["parameters"])]
    return found


def _has_filters(template: Template) -> bool:
    parameters = (template.get("outputs") or {}).get("parameters") or ()
    return any((parameter.get("valueFrom") or {}).get("jqFilter") for parameter in parameters)


def _with_value(number: int, parameter: dict[str, Any], obj: Object | None) -> dict[str, Any]:
    source = parameter.get("valueFrom")
    if source is None:
        return parameter
    if obj is None:
        return {**parameter, "value": str(source.get("default") or "")}
    where = f"outputs.parameters[{number}] ({parameter.get('name')}).valueFrom"
    try:
        if source.get("jsonPath"):
            return {**parameter, "value": render(obj, source["jsonPath"])}
        if source.get("jqFilter"):
            return {**parameter, "value": jq_text(source["jqFilter"], obj)}
    except JsonPathError as error:
        raise ResourceError(f"{where}.jsonPath: {error}") from None
    except JqError as error:
        raise ResourceError(f"{where}.jqFilter: {error}") from None
    return parameter


IsAllowed: TypeAlias = Callable[[str, str, str, Kind, str, str], str]
"""(namespace and name of the service account, verb, kind, namespace and name of the object) -> '' or why not."""

BASELINE = "edit"
"""The role of workflows in their namespace if they name no service account. Who may run a workflow there can start any
Pod anyway, and a laptop should not require Roles. It grants nothing on Roles, other namespaces or the
cluster."""

ARGO_SERVER = "argo-server"
"""The service account of an Argo Server, which workflows that start others name. The embedded cluster serves Argo's API
itself and has no such account, so it gets what the role of the real one grants, in the workflow's namespace. That is
less than a workflow without a service account gets."""
_ALL = ("create", "get", "list", "watch", "update", "patch", "delete")
_ARGO_SERVER_RULES: tuple[Rule, ...] = (
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "watch", "list", "create", "update"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create"]},
    {
        "apiGroups": [""],
        "resources": ["pods", "pods/exec", "pods/log"],
        "verbs": ["get", "list", "watch", "delete"],
    },
    {"apiGroups": [""], "resources": ["events"], "verbs": ["watch", "create", "patch"]},
    {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["get", "list", "watch"]},
    {
        "apiGroups": ["argoproj.io"],
        "resources": [
            "eventsources", "sensors", "workflows", "workfloweventbindings", "workflowtemplates", "cronworkflows",
        ],
        "verbs": list(_ALL),
    },
)  # fmt: skip


def service_account_permissions(
    authorizer: Authorizer, restricted: Callable[[str], bool] = lambda namespace: False
) -> IsAllowed:
    """Returns a check against the roles of the embedded cluster. A service account has exactly what is bound to it,
    except ARGO_SERVER; '' means that none is named. In restricted namespaces workflows may do what their users may."""

    def asked(account_namespace: str, account: str, verb: str, kind: Kind, namespace: str, name: str) -> str:
        action = Action(verb, kind.group, kind.plural, namespace=namespace, name=name)
        user = service_account_user(account_namespace, account or "default")
        for needed in _needed_to_grant(action):
            if not authorizer.is_allowed(user, needed):
                return f'{kind.resource} is forbidden: User "{user.name}" cannot {needed}'
        if restricted(account_namespace):
            return _refuse_member(authorizer, user, account_namespace, kind, action)
        if authorizer.is_allowed(user, action):
            return ""
        rules = _ARGO_SERVER_RULES if account == ARGO_SERVER else ()
        if not account:
            with suppress(NotFound):
                rules = tuple(authorizer.rules_of_role("ClusterRole", "", BASELINE))
        if is_allowed(user, action, [Grant(account_namespace, rules)]):
            return ""
        return f'{kind.resource} is forbidden: User "{user.name}" cannot {action}'

    return asked


def _needed_to_grant(action: Action) -> Iterator[Action]:
    """Yields what writing Roles and bindings takes besides its verb. The API compares what they grant with what their
    author has; here, only an author who may grant everything is accepted."""
    if action.group == _RBAC and action.verb in ("create", "update", "patch"):
        verb = "bind" if action.resource.endswith("bindings") else "escalate"
        for plural in ("roles", "clusterroles"):
            yield Action(verb, _RBAC, plural, namespace=action.namespace)


def _refuse_member(authorizer: Authorizer, user: User, namespace: str, kind: Kind, action: Action) -> str:
    """The same for a workflow of a restricted namespace. It reads Secrets by name, and never those of runs."""
    rules: tuple[Rule, ...] = ()
    with suppress(NotFound):
        rules = tuple(authorizer.rules_of_role("ClusterRole", "", MEMBER_ROLE))
    secret = (kind.group, kind.plural) == ("", "secrets") and (not action.name or is_run_secret(action.name))
    if not secret and is_allowed(user, action, [Grant(namespace, rules)]):
        return ""
    return f'{kind.resource} is forbidden: User "{user.name}" cannot {action}'


_RBAC = "rbac.authorization.k8s.io"

ReadArtifact: TypeAlias = Callable[[Object, Launch, str], Awaitable[bytes]]
"""(workflow, launch, name of an input artifact) -> its content. Raises ResourceError."""

RETRIES = "muster.dev/retries"
"""Annotation of a workflow: how often it was retried. Objects of an earlier try are not adopted."""

EXIT_CODE = 64
"""The exit code of Argo's executor, whatever goes wrong."""

_FINAL = (AlreadyExists, BadRequest, Forbidden, Gone, Invalid, MethodNotAllowed, NotFound, TooLarge, Unauthorized)
_VERBS = {
    "get": ("get",),
    "create": ("create",),
    "apply": ("create", "patch"),
    "delete": ("delete",),
    "replace": ("update",),
    "patch": ("patch",),
}
_RESERVED_WORDS = (PREFIX, "ownerReferences", "finalizers")
_ON_PAPER = "a resource template has no Pod here; changes to its own Pod are not stored"


@dataclass(slots=True, eq=False)
class _Leaf:
    place: tuple[str, str]
    """The workflow's uid and the node."""
    workflow: Key
    template: Template
    started: str
    ended: bool = False
    waits: list[Wait] = field(default_factory=list)


class ResourceExecutor:
    """The `Executor` of resource templates.

    Acts with the permissions of the workflow's service account if `may` is given, else with all. A server that is
    killed and restarted creates nothing twice, because objects that a step creates carry an annotation. Other actions
    may be repeated if the server dies before their end is stored; only a JSON patch can tell the difference.
    """

    def __init__(
        self,
        cluster: Cluster,
        report: ReportOutcome,
        *,
        read_artifact: ReadArtifact | None = None,
        may: IsAllowed | None = None,
    ) -> None:
        self._cluster = cluster
        self._report = report
        self._read_artifact = read_artifact
        self._may = may
        self._watch = ObjectWatch(cluster)
        self._leaves: dict[tuple[str, str], _Leaf] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def launch(self, workflow: Object, spec: Object, launch: Launch, *, begun: bool) -> None:
        """Requires that `run` is running."""
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
            self._fail(leaf, f"Error from server ({error.reason}): {_error_text(error)}")
        except BaseException:
            self._leaves.pop(place, None)  # it may be tried again
            raise

    async def stop(self, workflow: Object, node: Node, *, force: bool) -> None:
        """The object stays: it belongs to the user."""
        place = (uid_of(workflow), str(node["id"]))
        leaf = self._leaves.get(place) or _Leaf(place, key_of(workflow), {}, node.get("startedAt") or timestamp())
        waited = ", ".join(str(wait.target) for wait in leaf.waits)
        self._fail(leaf, f"stopped while waiting for {waited}" if waited else "stopped")

    def recorded(self, workflow: Object, nodes: Collection[str]) -> None:
        return

    async def stop_others(self, workflow: Object, nodes: Collection[str]) -> None:
        """Their objects are no longer awaited."""
        for leaf in [
            leaf for (uid, node), leaf in self._leaves.items() if uid == uid_of(workflow) and node not in nodes
        ]:
            self._fail(leaf, "stopped")

    async def run(self) -> None:
        await self._watch.run()

    async def _begin(self, workflow: Object, spec: Object, launch: Launch, leaf: _Leaf, *, begun: bool) -> None:
        manifest = await self._manifest(workflow, launch)
        order = read_resource_request(launch.template, manifest, workflow, self._cluster.catalogue)
        target = order.targets[0]
        if target.kind.resource == "pods" and target[1:] == (namespace_of(workflow), launch.pod_name):
            self._patch_own_pod(leaf, order, workflow)
            return
        if not begun or order.action == "delete":  # what was done before a restart is not done again, only waited for
            self._check_permission(order, workflow, spec, launch.template)
            await self._check_restricted(order, workflow)
        if order.action == "delete":
            await self._delete(leaf, order)
            return
        obj = await self._object(order, step_mark(workflow, leaf.place[1]), begun=begun)
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
            raise ResourceError(f"{where}: artifacts are not available here; use resource.manifest")
        content = await self._read_artifact(workflow, launch, name)
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ResourceError(f'{where}: artifact "{name}" is not UTF-8 text') from None

    def _check_permission(self, order: ResourceRequest, workflow: Object, spec: Object, template: Template) -> None:
        if self._may is None:
            return
        account = str(template.get("serviceAccountName") or spec.get("serviceAccountName") or "")
        for kind, namespace, name in order.targets:
            for verb in _VERBS[order.action]:
                refusal = self._may(namespace_of(workflow), account, verb, kind, namespace, name)
                if refusal:
                    raise Forbidden(refusal)

    async def _check_restricted(self, order: ResourceRequest, workflow: Object) -> None:
        """In a restricted namespace, a step neither writes what belongs to the platform nor changes objects of other
        runs."""
        if order.action == "get" or not is_restricted(await self._namespace(namespace_of(workflow))):
            return
        run = labels_of(workflow).get(RUN_LABEL, "")
        run = run if name_of(workflow) == f"run-{run}" else ""
        wanted = order.object
        if wanted is not None:
            own = [each for each in owners_of(wanted) if each.get("uid") != uid_of(workflow)]
            checked = {**wanted, "metadata": {**meta(wanted), "ownerReferences": own}}
            for found in find_foreign_metadata(None, checked, run=run):
                raise ResourceError(str(found))
        elif order.action == "patch" and any(word in str(order.patch) for word in _RESERVED_WORDS):
            raise ResourceError("resource.manifest: owners, finalizers and labels of the platform cannot be patched")
        taken = run_in_name(name_of(wanted or {}) or str(meta(wanted or {}).get("generateName") or ""))
        if taken and taken != run:
            raise ResourceError("resource.manifest: metadata.name: the name is reserved for objects of a run")
        for target in order.targets:
            for obj in await matching_objects(self._cluster, order, target):
                if belongs_to_run(obj) and labels_of(obj).get(RUN_LABEL) != (run or None):
                    raise ResourceError(f"{target} belongs to another run of the platform")

    async def _namespace(self, name: str) -> Object | None:
        try:
            return await self._cluster.get(NAMESPACE, name)
        except NotFound:
            return None

    async def _object(self, order: ResourceRequest, mark: str, *, begun: bool) -> Object | None:
        """Returns the object after the action, performed now or before a restart."""
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
            return await perform_request(self._cluster, order, mark)
        except AlreadyExists as error:
            there = await self._watch.current(target)
            maker = annotations_of(there or {}).get(STEP_ANNOTATION, "")
            if there is not None and maker == mark:
                return there
            if maker.rpartition("/")[0] == mark.rpartition("/")[0]:
                raise AlreadyExists(
                    f"{error.message}: an earlier attempt of this step has created it; delete it, or use "
                    "metadata.generateName or action: apply"
                ) from None
            raise

    async def _delete(self, leaf: _Leaf, order: ResourceRequest) -> None:
        deleted = await delete_objects(self._cluster, order)
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

    def _patch_own_pod(self, leaf: _Leaf, order: ResourceRequest, workflow: Object) -> None:
        if order.action not in ("patch", "get"):
            raise ResourceError(f"resource.manifest: cannot {order.action} the step's own Pod: it has none here")
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
        self._succeed(leaf, patch_own_pod(order, pod) if order.action == "patch" else pod, _ON_PAPER)

    async def _wait(self, leaf: _Leaf, target: Target, obj: Object, look: Callable[[Object | None], bool]) -> None:
        if not leaf.ended:
            wait = await self._watch.until(target, obj, look)
            if leaf.ended:
                self._watch.forget(wait)
            else:
                leaf.waits.append(wait)

    def _look(self, leaf: _Leaf, order: ResourceRequest, target: Target, obj: Object | None) -> bool:
        """Returns whether the waiting is over."""
        if obj is None:
            self._fail(leaf, _deleted(target))
            return True
        said = evaluate_conditions(order.conditions, obj)
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
        if _has_filters(leaf.template):
            task = asyncio.create_task(self._succeed_with_filters(leaf, obj, message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._succeed_with(leaf, read_outputs(leaf.template, obj), message)

    async def _succeed_with_filters(self, leaf: _Leaf, obj: Object | None, message: str) -> None:
        """A filter may take seconds, so it runs in a thread."""
        try:
            outputs = await asyncio.to_thread(read_outputs, leaf.template, obj)
        except ResourceError as error:
            self._fail(leaf, str(error))
        else:
            self._succeed_with(leaf, outputs, message)

    def _succeed_with(self, leaf: _Leaf, outputs: Outputs, message: str) -> None:
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


def step_mark(workflow: Object, node: str) -> str:
    """Returns what identifies the objects that a step creates, distinct from those of its earlier tries."""
    return f"{uid_of(workflow)}/{node}/{annotations_of(workflow).get(RETRIES, '0')}"


def _deleted(target: Target) -> str:
    return (
        "The resource has been deleted while its status was still being checked. Will not be retried: "
        f'{target.kind.resource} "{target.name}" not found'
    )


def _error_text(error: ApiError) -> str:
    if all(cause.field in error.message for cause in error.causes):
        return error.message
    return f"{error.message}: {'; '.join(f'{cause.field}: {cause.message}' for cause in error.causes)}"


LARGEST = 2 * 1024 * 1024


def artifact_reader(artifacts: ArtifactClient, folder: Path) -> ReadArtifact:
    """Reads input artifacts of a launch; `folder` holds files in transit."""

    async def read(workflow: Object, launch: Launch, name: str) -> bytes:
        inputs = (launch.template.get("inputs") or {}).get("artifacts") or ()
        artifact = next(a for a in inputs if a.get("name") == name)
        folder.mkdir(parents=True, exist_ok=True)
        work = Path(mkdtemp(dir=folder))
        try:
            await artifacts.fetch(workflow, artifact, work / "manifest")
            return _content(work / "manifest", name)
        except ArtifactError as error:
            raise ResourceError(f'resource.manifestFrom.artifact.name: artifact "{name}": {error}') from None
        finally:
            await asyncio.to_thread(shutil.rmtree, work, True)

    return read


def _content(path: Path, name: str) -> bytes:
    where = f'resource.manifestFrom.artifact.name: artifact "{name}"'
    if not path.is_file():
        raise ResourceError(f"{where} is a folder; a manifest must be a file")
    if path.stat().st_size > LARGEST:
        raise ResourceError(f"{where} is larger than {LARGEST} bytes")
    return path.read_bytes()
