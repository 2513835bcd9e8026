"""The compiled pipelines of Kubeflow's own tests: each runs to the state that the table says, or is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from muster.kube.kinds import Catalogue
from muster.kube.schema_validation import validate
from muster.pipelines.resolver import resolver_for
from muster.pipelines.spec import Pipeline, PipelineError, read_pipeline
from muster.workflows.kinds import workflow_kinds
from muster.workflows.lint import find_problems
from muster.workflows.model import Launch, Outcome, Outputs
from tests.workflows.engine.simulation import Answer, Simulation
from tools.pipeline_conformance import Case, default_folder, describe, read_cases, run, workflow_of

FOLDER = default_folder()
CASES = read_cases(FOLDER) if FOLDER.is_dir() else []
needs_files = pytest.mark.skipif(not CASES, reason="the conformance files are not here (set MUSTER_CONFORMANCE)")
VALUES = {
    "STRING": "x",
    "NUMBER_INTEGER": "3",
    "NUMBER_DOUBLE": "0.5",
    "BOOLEAN": "true",
    "LIST": '[{"A_a": "1", "B_b": ["2"]}]',
    "STRUCT": '{"a": 1, "A_a": "1", "B_b": ["2"]}',
}
"""Outputs of tasks that do not run."""


@needs_files
def test_the_table_has_every_file() -> None:
    assert len(CASES) == 93
    assert [case.file for case in CASES if case.expected != "Succeeded" and not case.why] == []


@needs_files
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.file)
def test_a_pipeline_is_read_and_goes_through_the_engine(case: Case) -> None:
    """Every task succeeds here with outputs of its declared types, so the engine resolves everything there is to
    resolve: a mistake in the compiled Workflow, or an input that nothing provides, shows."""
    if case.expected == "refused":
        with pytest.raises(PipelineError, match=r"pipelineInfo\.name|a run cannot be given an artifact"):
            workflow_of(case)
        return
    workflow = workflow_of(case, "0123456789")
    assert find_problems(workflow, lambda name, cluster_scope: None, submitted=True) == []
    assert validate(workflow, Catalogue(workflow_kinds()).of_object(workflow).schema) == []
    workflow["metadata"] |= {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    answer = _succeed(read_pipeline(case.text))
    simulation = Simulation(json.loads(json.dumps(workflow)), answer, resolver_for=resolver_for).finish()
    assert simulation.phase == "Succeeded", simulation.message


def _succeed(pipeline: Pipeline) -> Answer:
    def answer(launch: Launch) -> Outcome:
        outputs = pipeline.component(launch.template["name"]).output_definitions.parameters
        values: dict[str, Any] = {name: _value(each.parameter_type) for name, each in outputs.items()}
        names = [str(p["name"]) for p in (launch.template.get("outputs") or {}).get("parameters") or ()]
        # What the executor's own file says is the same as the files of the parameters.
        found = [{"name": name, "value": VALUES[outputs[name].parameter_type]} for name in names if name in outputs]
        rest = [
            {"name": name, "value": json.dumps({"parameterValues": values})} for name in names if name not in outputs
        ]
        return Outcome("Succeeded", exit_code=0, outputs=Outputs(parameters=[*found, *rest]))

    return answer


def _value(kind: str) -> Any:
    return VALUES[kind] if kind == "STRING" else json.loads(VALUES[kind])


@needs_files
@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_every_pipeline_runs_to_its_state() -> None:
    results = await run(FOLDER)
    wrong = [describe(result) for result in results if not result.is_right]
    assert not wrong, "\n".join(wrong)


@needs_files
@pytest.mark.smoke
@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_pipelines_of_plain_containers_run() -> None:
    """A short story for every change: they need no package."""
    results = await run(FOLDER, ("container_no_input", "two_step_pipeline_containerized", "placeholder_with_if", "seq"))
    assert [(result.case.file, result.state) for result in results if result.state != "Succeeded"] == []
    assert len(results) == 4
