"""Data templates: which keys there are in a store, after some transformation. No Pod is needed for that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.kube.objects import Object, timestamp
from muster.workflows.artifacts.artifacts import Artifacts
from muster.workflows.artifacts.problems import ArtifactError, ArtifactUnreachable
from muster.workflows.expressions.environment import evaluate_in
from muster.workflows.expressions.errors import ExpressionError
from muster.workflows.expressions.gojson import to_json
from muster.workflows.model import Outcome, Outputs, Template


async def run_data(artifacts: Artifacts, workflow: Object, template: Template) -> Outcome:
    """Raises ArtifactUnreachable where trying again may help."""
    started = timestamp()
    try:
        source = (template["data"].get("source") or {}).get("artifactPaths")
        if source is None:
            raise ArtifactError("no valid source is used for data template: write source.artifactPaths")
        found: Any = await artifacts.keys(workflow, source)
        result = to_json(transformed(found, template["data"].get("transformation") or ()))
    except ArtifactUnreachable:
        raise
    except ArtifactError as error:
        return Outcome("Error", f"unable to process data source: {error}", started=started, finished=timestamp())
    except ExpressionError as error:
        message = f"unable to process data transformation: {error}"
        return Outcome("Error", message, started=started, finished=timestamp())
    outputs = Outputs(result=result)
    return Outcome("Succeeded", outputs=outputs, started=started, finished=timestamp(), exit_code=None)


def transformed(data: Any, steps: Any) -> Any:
    """Each step's expression sees what the one before it answered, as `data`."""
    for step in steps:
        scope: Mapping[str, Any] = {"data": data}
        if step.get("expression"):
            data = evaluate_in(str(step["expression"]), scope)
    return data
