"""Creates runs. First everything is prepared; then the run and the request for its Workflow are stored in one
transaction. Executing a request may be interrupted at any point and is repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, delete, insert, or_, select

from muster.kube.objects import Object
from muster.platform.database.encrypted_columns import keys_of, order_place, seal, unseal
from muster.platform.database.queries import new_id
from muster.platform.database.tables import now, run_nodes, run_orders, runs
from muster.platform.errors import ConflictProblem, InvalidProblem, conflict_on_duplicate
from muster.platform.graphs import context as graphs
from muster.platform.graphs.compile import GraphError, compile_run, secret_for, value_problems
from muster.platform.graphs.model import Document, Graph, Node, Task, is_graph, read
from muster.platform.messages import FieldError, field_error
from muster.platform.permissions import Actor, may, require
from muster.platform.records.common import Subject
from muster.platform.records.runs import Run, run_object_name
from muster.platform.records.workflows import Finding, Version, Workflow
from muster.platform.resources.resources import all_clusters
from muster.platform.runs.runs import LONGEST_NAME, check_name, get_run, parameters_given
from muster.platform.runs.status import with_masks
from muster.platform.runs.tags import parse_tags, store_tags
from muster.platform.users.audit import write_audit
from muster.platform.users.namespace_names import namespace_of
from muster.platform.users.teams import team_to_share_with
from muster.platform.workflows.versions import LATEST, ContextLoader, document_of, find_version, get_version
from muster.platform.workflows.workflows import check_not_archived, get_workflow


@dataclass(frozen=True, slots=True)
class NewRun:
    workflow: str = ""
    """Its id or name; not needed if the version is named by its id."""
    version: str = LATEST
    name: str = ""
    """Defaults to the names of the workflow and the version, and a number from the second run on."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    team: str | None = None
    """The id or name of the team it is shared with, '' for none; None for the team of the workflow, if the actor is in
    it."""
    copied_from: str = ""
    tags: Sequence[str] | None = None
    """None for none; in a copy, for those of the run that is copied."""
    numbered: bool = False
    """Whether a number is added to the name if another run has it. It is if there is no name."""


@dataclass(frozen=True, slots=True)
class NodePlan:
    name: str
    kind: str
    cluster: str = ""
    skus: int = 0


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """Everything to store."""

    id: str
    name: str
    workflow: Workflow
    version: Version
    team_id: str | None
    namespace: str
    parameters: Mapping[str, str]
    copied_from: str
    nodes: tuple[NodePlan, ...]
    workflow_object: Object
    secret: Object
    tags: Sequence[str] = ()
    numbered: bool = False


@dataclass(frozen=True, slots=True)
class RunSource:
    """Everything that a run is compiled from."""

    id: str
    name: str
    workflow: Workflow
    version: Version
    document: Document
    context: graphs.Context
    user: str
    team_id: str | None
    namespace: str
    parameters: Mapping[str, str]
    copied_from: str
    totals: Mapping[str, int | None]
    """The SKUs of each virtual cluster."""
    tags: Sequence[str] = ()
    numbered: bool = False


def prepare_run(connection: Connection, actor: Actor, new: NewRun, look: ContextLoader) -> PreparedRun:
    """Loads and compiles a run. Raises Invalid with the faulty fields."""
    return compile_source(load_run(connection, actor, new, look))


def load_run(connection: Connection, actor: Actor, new: NewRun, look: ContextLoader) -> RunSource:
    """Only reads: compiling a large graph takes a while, so that is done after the transaction."""
    require(actor, "create", Subject("run", owner=actor.id))
    workflow, version = _version(connection, actor, new)
    require(actor, "run", workflow.version_subject, workflow.name)
    check_not_archived(workflow)
    if version.archived is not None:
        raise ConflictProblem.of("version.archived", name=version.name, workflow=workflow.name)
    name = new.name or f"{workflow.name} {version.name}"
    check_name(name)
    tags = parse_tags(new.tags or ())
    document = document_of(connection, version.id)
    context = look(connection, actor, document)
    _check_secrets(actor, workflow, document)
    team_id = _team(connection, actor, new.team, workflow)
    return RunSource(
        new_id(),
        name,
        workflow,
        version,
        document,
        context,
        actor.id,
        team_id,
        namespace_of(connection, user=actor.id, team=team_id),
        dict(new.parameters),
        new.copied_from,
        {cluster.name: cluster.total for cluster in all_clusters(connection)},
        tags,
        numbered=new.numbered or not new.name,
    )


def compile_source(source: RunSource) -> PreparedRun:
    """A pure function. Raises Invalid with the faulty fields."""
    document, context = source.document, source.context
    wrong = value_problems(document, source.parameters)
    if wrong:
        raise InvalidProblem.fields([_fault(problem) for problem in wrong])
    name = run_object_name(source.id)
    run = graphs.RunInfo(source.id, name, source.user, name, parameters=source.parameters, namespace=source.namespace)
    try:
        made, secret = compile_run(document, run, context), secret_for(document, run, context, "")
    except GraphError as error:
        raise InvalidProblem.fields([_fault(problem, "version.document.") for problem in error.problems]) from None
    graph = graphs.with_modules(read(document), context) if is_graph(document) else Graph()
    plans = tuple(plan_of(node) for node in graph.nodes)
    _check_totals(source.totals, graph)
    return PreparedRun(
        source.id,
        source.name,
        source.workflow,
        source.version,
        source.team_id,
        source.namespace,
        source.parameters,
        source.copied_from,
        plans,
        made,
        with_masks(secret, (v.value for node in graph.nodes for v in node.env if v.secret)),
        source.tags,
        source.numbered,
    )


def prepare_copy(
    connection: Connection, actor: Actor, run_id: str, changes: NewRun, look: ContextLoader
) -> PreparedRun:
    """Loads and compiles a copy of a run."""
    return compile_source(load_copy(connection, actor, run_id, changes, look))


def load_copy(connection: Connection, actor: Actor, run_id: str, changes: NewRun, look: ContextLoader) -> RunSource:
    """Loads a new run with the values of an old one and some changes. Without a version, it is the same one. Values
    that another version does not have are dropped."""
    source = get_run(connection, actor, run_id, "copy")
    parameters = {**parameters_given(connection, source.id), **changes.parameters}
    other = bool(changes.workflow or changes.version)
    new = NewRun(
        changes.workflow if other else "",
        changes.version if other else source.version_id,
        changes.name or source.name,
        parameters,
        source.team_id if changes.team is None else changes.team,
        source.id,
        source.tags if changes.tags is None else changes.tags,
        numbered=not changes.name,
    )
    if other:
        new = replace(new, workflow=new.workflow or source.workflow_id)
        _, version = _version(connection, actor, new)
        known = {problem.path for problem in value_problems(document_of(connection, version.id), parameters)}
        kept = {n: v for n, v in parameters.items() if n in changes.parameters or f"parameters.{n}" not in known}
        new = replace(new, parameters=kept)
    return load_run(connection, actor, new, look)


def store_run(connection: Connection, actor: Actor, made: PreparedRun) -> Run:
    """The run, its nodes, and the order, or nothing."""
    moment = now()
    name = _free_name(connection, made.name) if made.numbered else made.name
    with conflict_on_duplicate(field_error("", "version.gone")):
        connection.execute(
            insert(runs).values(
                id=made.id,
                name=name,
                workflow_id=made.workflow.id,
                version_id=made.version.id,
                owner_id=actor.id,
                team_id=made.team_id,
                parameters=dict(made.parameters),
                copied_from=made.copied_from,
                state="waiting",
                message="",
                nodes=len(made.nodes),
                done=0,
                retries=0,
                created=moment,
                seen="",
                namespace=made.namespace,
                tags=list(made.tags),
                revision=1,
            )
        )
    store_tags(connection, made.id, made.tags)
    if made.nodes:
        connection.execute(insert(run_nodes), [_row(made.id, at, plan) for at, plan in enumerate(made.nodes)])
    connection.execute(
        insert(run_orders).values(
            run_id=made.id,
            workflow=made.workflow_object,
            secret=seal(keys_of(connection), made.secret, order_place(made.id)),
            created=moment,
        )
    )
    details: dict[str, Any] = {"workflow": made.workflow.name, "version": made.version.name}
    if made.copied_from:
        details["copied from"] = made.copied_from
    write_audit(connection, actor, "create", "run", made.id, name, details)
    return get_run(connection, actor, made.id)


def numbered_name(name: str, taken: Iterable[str]) -> str:
    """`train v1`, then `train v1 #2`, `train v1 #3` and so on."""
    stem = _NUMBER.sub("", name)[: LONGEST_NAME - len(" #1234567")]
    ends = (other.removeprefix(stem) for other in taken if other.startswith(stem))
    numbers = [1 if end == "" else int(end[2:]) for end in ends if end == "" or _NUMBER.fullmatch(end)]
    return f"{stem} #{max(numbers) + 1}" if numbers else stem


_NUMBER = re.compile(r" #[0-9]{1,7}$")


def _free_name(connection: Connection, name: str) -> str:
    stem = _NUMBER.sub("", name)
    same = or_(runs.c.name == stem, runs.c.name.startswith(f"{stem} #", autoescape=True))
    return numbered_name(name, connection.execute(select(runs.c.name).where(same)).scalars())


@dataclass(frozen=True, slots=True)
class RunRequest:
    run_id: str
    workflow: Object
    secret: Object


def find_requests(connection: Connection, run_id: str = "") -> list[RunRequest]:
    """The oldest first."""
    query = select(run_orders.c.run_id, run_orders.c.workflow, run_orders.c.secret).order_by(run_orders.c.run_id)
    if run_id:
        query = query.where(run_orders.c.run_id == run_id)
    keys = keys_of(connection)
    return [
        RunRequest(run, workflow, unseal(keys, secret, order_place(run)))
        for run, workflow, secret in connection.execute(query)
    ]


def close_request(connection: Connection, run_id: str) -> None:
    connection.execute(delete(run_orders).where(run_orders.c.run_id == run_id))


def plan_of(node: Node) -> NodePlan:
    """What all replicas of a node use together."""
    tasks = _tasks(node)
    cluster = next((task.cluster for task, _ in tasks if task.type == "compute"), "")
    skus = sum(task.skus * count for task, count in tasks if task.type == "compute" and task.cluster == cluster)
    return NodePlan(node.name, node.kind, cluster, skus)


def _tasks(node: Node) -> list[tuple[Task, int]]:
    if node.training is None or node.kind != "training":
        return [(node.task, 1)]
    return [(role.task or node.task, role.replicas) for role in node.training.roles]


def _check_secrets(actor: Actor, workflow: Workflow, document: Mapping[str, Any]) -> None:
    """Refuses a run of a user who may not see the secret variables of the version: its nodes hand them over, in files
    and logs. Secret variables of a module are for everybody who may use the module."""
    if not is_graph(document) or may(actor, "reveal", workflow.version_subject):
        return
    wrong = [
        field_error(f"version.document.nodes[{at}].env[{number}]", "run.secret", node=node.name, name=variable.name)
        for at, node in enumerate(read(document).nodes)
        for number, variable in enumerate(node.env)
        if variable.secret and variable.value
    ]
    if wrong:
        raise InvalidProblem.fields(wrong)


def _check_totals(totals: Mapping[str, int | None], graph: Graph) -> None:
    """Refuses a run that could never start, because it would wait forever."""
    wrong = []
    for at, node in enumerate(graph.nodes):
        plan = plan_of(node)
        total = totals.get(plan.cluster)
        if total is not None and plan.skus > total:
            told = {"node": node.name, "skus": plan.skus, "cluster": plan.cluster, "total": total}
            wrong.append(field_error(f"version.document.nodes[{at}].task.skus", "run.skus", **told))
    if wrong:
        raise InvalidProblem.fields(wrong)


def _version(connection: Connection, actor: Actor, new: NewRun) -> tuple[Workflow, Version]:
    if new.workflow:
        workflow = get_workflow(connection, actor, new.workflow)
        return workflow, find_version(connection, workflow, new.version or LATEST)
    if new.version in ("", LATEST):
        raise InvalidProblem.field("workflow", "run.workflow")
    return get_version(connection, actor, new.version)


def _team(connection: Connection, actor: Actor, wanted: str | None, workflow: Workflow) -> str | None:
    """The workflow's own, if nothing else is wanted and the actor is in it."""
    if wanted is None:
        return workflow.team_id if workflow.team_id in actor.teams else None
    return team_to_share_with(connection, actor, wanted)


def _row(run_id: str, position: int, plan: NodePlan) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "name": plan.name,
        "position": position,
        "kind": plan.kind,
        "state": "waiting",
        "message": "",
        "attempts": 0,
        "cluster": plan.cluster,
        "skus": plan.skus,
    }


def _fault(problem: Finding, prefix: str = "") -> FieldError:
    message = f"{problem.message}; {problem.fix}" if problem.fix else problem.message
    return FieldError(f"{prefix}{problem.path}".rstrip("."), message, problem.code, problem.arguments)
