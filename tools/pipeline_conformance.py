"""Runs the compiled pipelines of Kubeflow's own tests on this machine, and says of each what became of it.

    python -m tools.pipeline_conformance [FOLDER] [--only NAME...]

What each has to end as, which parameters it takes, and why one is refused, is in tests/pipelines/conformance.yaml. The
folder is the one beside the project, or what MUSTER_CONFORMANCE names.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import uvloop
import yaml

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.errors import ApiError
from muster.kube.objects import Object, key_of, name_of, namespace_of, status_of
from muster.pipelines.compile import to_workflow
from muster.pipelines.spec import PipelineError, read_pipeline
from muster.server.embedded_server import run_server
from muster.server.settings import read_settings
from muster.workflows.engine.node_tree import pod_name
from muster.workflows.kinds import WORKFLOW

TABLE = Path(__file__).parents[1] / "tests" / "pipelines" / "conformance.yaml"
ENDS = ("Succeeded", "Failed", "Error")
AT_ONCE = 3
PATIENCE = 900.0


class Case(NamedTuple):
    file: str
    text: str
    expected: str
    """Succeeded, Failed, or refused."""
    parameters: Mapping[str, Any]
    why: str
    """Why it does not succeed."""
    pipeline_root: str = ""
    needs: str = ""
    """What this machine may lack; without it, it fails."""


class Result(NamedTuple):
    case: Case
    state: str
    seconds: float
    message: str = ""

    @property
    def is_right(self) -> bool:
        return self.state == self.case.expected or (bool(self.case.needs) and self.state == "Failed")


def default_folder() -> Path:
    given = os.environ.get("MUSTER_CONFORMANCE")
    return (Path(given) if given else Path(__file__).parents[2] / "shared" / "conformance") / "kfp"


def read_cases(folder: Path, only: Sequence[str] = ()) -> list[Case]:
    """Returns the files of the folder with what the table says about them. Raises KeyError if it lacks one."""
    table: Mapping[str, Mapping[str, Any]] = yaml.safe_load(TABLE.read_text())["pipelines"]
    found = []
    for file in sorted(folder.rglob("*.yaml")):
        name = str(file.relative_to(folder))
        if not only or any(word in name for word in only):
            row = table[name]
            text = file.read_text()
            parameters, why = row.get("parameters") or {}, row.get("why") or ""
            root, needs = row.get("pipelineRoot") or "", row.get("needs") or ""
            found.append(Case(name, text, row["state"], parameters, why, root, needs))
    return found


def workflow_of(case: Case, run_id: str = "") -> Object:
    """Returns the Workflow of a pipeline. Raises PipelineError if it is refused."""
    return to_workflow(
        read_pipeline(case.text, case.file),
        run_id=run_id or str(uuid.uuid4()),
        display_name=Path(case.file).stem,
        parameters=case.parameters,
        namespace="default",
        pipeline_root=case.pipeline_root,
    )


def surroundings() -> list[Object]:
    """Returns the Secrets and ConfigMaps that the pipelines expect."""
    objects: list[Object] = yaml.safe_load(TABLE.read_text())["objects"]
    return objects


async def run(folder: Path, only: Sequence[str] = ()) -> list[Result]:
    cases = read_cases(folder, only)
    with TemporaryDirectory(prefix="muster-pipelines-") as home:
        capacity = {"cpu": "1000", "memory": "1Ti", "pods": "1000", "nvidia.com/gpu": "8"}
        settings = read_settings(Path(home), {"node": {"capacity": capacity}})
        async with run_server(settings) as server:
            for obj in surroundings():
                await server.cluster.create(obj)
            gate = asyncio.Semaphore(AT_ONCE)
            logs = Path(home) / "logs"
            return await asyncio.gather(*(_run(server.cluster, case, gate, logs) for case in cases))


async def _run(cluster: EmbeddedCluster, case: Case, gate: asyncio.Semaphore, logs: Path) -> Result:
    async with gate:
        started = time.monotonic()
        try:
            made = await cluster.create(workflow_of(case))
        except (PipelineError, ApiError) as error:
            return Result(case, "refused", time.monotonic() - started, str(error))
        try:
            async with asyncio.timeout(PATIENCE):
                ended = await _ended(cluster, made)
        except TimeoutError:
            ended = await cluster.get(WORKFLOW, name_of(made), namespace_of(made))
            await cluster.delete(WORKFLOW, name_of(made), namespace_of(made))
            return Result(case, "unfinished", time.monotonic() - started, _why(cluster, ended, logs))
        state = str(status_of(ended).get("phase"))
        result = Result(
            case, state, time.monotonic() - started, _why(cluster, ended, logs) if state != "Succeeded" else ""
        )
        print(describe(result), flush=True)
        return result


async def _ended(cluster: EmbeddedCluster, workflow: Object) -> Object:
    key = key_of(workflow)
    async for event in cluster.watch(WORKFLOW, key.namespace, fields=f"metadata.name={key.name}"):
        if status_of(event.object).get("phase") in ENDS:
            return event.object
    raise AssertionError("a watch does not end")


def _why(cluster: EmbeddedCluster, workflow: Object, logs: Path) -> str:
    """The message of the workflow, and the last lines of its first failed Pod."""
    whole = cluster.with_status_rows(workflow, WORKFLOW)
    message = str(status_of(whole).get("message") or "")
    for node in (status_of(whole).get("nodes") or {}).values():
        if node.get("phase") not in ("Succeeded", "Skipped", "Omitted") and node.get("type") in ("Pod", "Skipped"):
            pod = pod_name(name_of(workflow), node["name"], node.get("templateName") or "")
            lines = [
                line for file in (logs / "default" / pod).glob("*/*/*.log") for line in file.read_text().splitlines()
            ]
            return "\n    ".join((message, *(line[:300] for line in lines[-8:])))
    return message


def describe(result: Result) -> str:
    mark = " " if result.is_right else "!"
    return f"{mark} {result.case.file:<90} {result.state:<10} {result.seconds:6.1f} s  {result.message}".rstrip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=default_folder())
    parser.add_argument("--only", nargs="*", default=(), help="files whose path contains one of these")
    chosen = parser.parse_args()
    if not chosen.folder.is_dir():
        raise SystemExit(f"{chosen.folder} is not here; set MUSTER_CONFORMANCE to where the pipelines are")
    results = uvloop.run(run(chosen.folder, chosen.only))
    wrong = [result for result in results if not result.is_right]
    print(f"\n{len(results)} pipelines, {len(wrong)} not as they should be")
    for result in wrong:
        print(describe(result))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
