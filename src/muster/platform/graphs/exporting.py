"""A version as an Argo Workflow that runs by itself: `argo submit`, `muster submit`, `kubectl create`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.kube.manifests import dump
from muster.kube.objects import Object
from muster.platform.graphs.compile import GraphError, compile_spec, parameters_of
from muster.platform.graphs.context import Context
from muster.platform.graphs.messages import Problem
from muster.platform.graphs.model import is_graph, read
from muster.platform.graphs.names import plain_name
from muster.platform.graphs.problems import errors, problems
from muster.platform.graphs.verbatim import Literals
from muster.workflows.kinds import WORKFLOW


def to_workflow(document: Mapping[str, Any], context: Context, name: str = "workflow") -> Object:
    """Of a graph. Raises GraphError."""
    wrong: list[Problem] = errors(problems(document, context))
    if wrong:
        raise GraphError(wrong)
    return {
        "apiVersion": WORKFLOW.api_version,
        "kind": WORKFLOW.kind,
        "metadata": {"generateName": f"{plain_name(name)}-"},
        "spec": compile_spec(read(document), context, None, Literals()),
    }


def to_yaml(document: Mapping[str, Any], context: Context, name: str = "workflow") -> str:
    """One that was handed in as a manifest is that manifest. Raises GraphError."""
    if not is_graph(document):
        return str(document["manifest"])
    needed = [p.name for p in parameters_of(document) if p.required and p.default is None]
    lines = ["Submit it with: argo submit FILE, or: muster submit FILE"]
    if needed:
        lines[0] += "".join(f" -p {name}=VALUE" for name in needed)
    secrets = [variable.name for node in read(document).nodes for variable in node.env if variable.secret]
    lines.append(
        f"{', '.join(dict.fromkeys(['AI_HUB_TOKEN', *secrets]))} is read from the Secret ai-hub, if there is one."
    )
    return "".join(f"# {line}\n" for line in lines) + dump(to_workflow(document, context, name))
