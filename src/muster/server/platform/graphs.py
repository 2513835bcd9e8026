"""Graph documents that are not stored yet: what is wrong with one, and what a manifest would become."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import Field
from sqlalchemy import Connection

from muster.platform.graphs.argo_import import from_manifest
from muster.platform.graphs.context import Context
from muster.platform.graphs.findings import Finding
from muster.platform.graphs.model import Document, is_graph
from muster.platform.graphs.schema import LONGEST_MANIFEST, json_schema
from muster.platform.graphs.validation import validate_graph
from muster.platform.permissions import Actor, Subject, relations
from muster.platform.permissions import Relation as RuleWho
from muster.platform.pod_policy import list_shared, pod_allowances
from muster.platform.runs.create import NAMESPACE
from muster.platform.workflows.surroundings import graph_context
from muster.platform.workflows.versions import ContextLoader
from muster.server.platform.rest import Answer, Body
from muster.server.platform.security import Who
from muster.server.platform.services import Here, Services

router = APIRouter(prefix="/graphs", tags=["graphs"])

LOOK = "graph context"
"""The part of the platform, if it has another one than the usual, that finds what documents refer to: a `Look`."""


class DocumentBody(Body):
    document: dict[str, Any]


class ManifestBody(Body):
    manifest: Annotated[str, Field(max_length=LONGEST_MANIFEST)]


class GraphProblem(Answer):
    path: str
    code: str
    """With the arguments, what a user interface makes a sentence in the reader's language of."""
    message: str
    fix: str
    arguments: dict[str, Any]
    severity: Literal["error", "warning"]

    @classmethod
    def of(cls, problem: Finding) -> GraphProblem:
        return cls.model_validate(problem.to_json())


class Findings(Answer):
    problems: list[GraphProblem]


class ImportAnswer(Answer):
    document: dict[str, Any] | None
    """A graph if the manifest says nothing that a graph cannot; null if it cannot run at all."""
    problems: list[GraphProblem]


def look_of(here: Services) -> ContextLoader:
    """For a thread of the database."""
    found: ContextLoader = here.parts.get(LOOK, graph_context)
    loop = asyncio.get_running_loop()

    def look(connection: Connection, actor: Actor, document: Document) -> Context:
        context = found(connection, actor, document)
        if is_graph(document) or relations(actor, Subject("workflow")) & RuleWho.ADMIN:
            return context
        # Only for manifests: the cluster has to be asked, which belongs to the loop.
        sharing = asyncio.run_coroutine_threadsafe(list_shared(here.cluster, NAMESPACE, actor), loop)
        roots = [root for root in context.roots.values() if root.usable]
        return replace(context, allowed=pod_allowances(roots, sharing.result()))

    return look


@router.get("/schema")
async def graph_schema(who: Who) -> dict[str, Any]:
    """The JSON Schema of graph documents."""
    return json_schema()


@router.post("/check")
async def check_graph(body: DocumentBody, here: Here, who: Who) -> Findings:
    """What is wrong with a document, and what to write instead. With errors it could not be stored."""
    look = look_of(here)
    context = await here.database.read(lambda connection: look(connection, who, body.document))
    return Findings(problems=[GraphProblem.of(problem) for problem in validate_graph(body.document, context)])


@router.post("/import")
async def import_manifest(body: ManifestBody, here: Here, who: Who) -> ImportAnswer:
    """What an Argo Workflow would be as a version. Nothing is stored."""
    look = look_of(here)
    context = await here.database.read(lambda connection: look(connection, who, {"type": "yaml"}))
    found = from_manifest(body.manifest, context)
    return ImportAnswer(document=found.document, problems=[GraphProblem.of(problem) for problem in found.problems])
