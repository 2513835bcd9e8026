"""Compiled Kubeflow pipelines, and Python files that define one, as files of `muster run`."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.cli.errors import CommandError

if TYPE_CHECKING:
    from muster.kube.manifests import Document
    from muster.pipelines.spec import Pipeline

_COMPILE_SECONDS = 120
_KFP = "from kfp.cli.__main__ import main; main()"
"""What the command `kfp` does. That command itself may be of another environment."""
_HEAD_BYTES = 1 << 20


def read_pipelines(files: Sequence[str], pairs: Sequence[tuple[str, str]]) -> tuple[list[Document], list[str]]:
    """Returns the Workflows of the pipelines among these files, and the other files. `pairs` are their parameters."""
    chosen = [file for file in files if is_pipeline_file(file)]
    if pairs and not chosen:
        raise CommandError(
            "error: -p sets the parameters of a Kubeflow pipeline, and no file is one; see `muster submit`"
        )
    documents = [document for file in chosen for document in _workflow(file, pairs)]
    return documents, [file for file in files if file not in chosen]


def is_pipeline_file(file: str) -> bool:
    path = Path(file)
    if not path.is_file():
        return False
    if path.suffix == ".py":
        return True
    with path.open("rb") as opened:
        head = opened.read(_HEAD_BYTES)
    return path.suffix in (".yaml", ".yml", ".json") and b"pipelineInfo" in head and b"deploymentSpec" in head


def _workflow(file: str, pairs: Sequence[tuple[str, str]]) -> list[Document]:
    from muster.kube.manifests import dump, load_manifests
    from muster.pipelines.compile import to_workflow
    from muster.pipelines.records import new_uuid
    from muster.pipelines.spec import PipelineError, read_pipeline

    text = compile_file(file) if file.endswith(".py") else Path(file).read_text()
    try:
        pipeline = read_pipeline(text, file)
        run_id = new_uuid()
        workflow = to_workflow(
            pipeline,
            run_id=run_id,
            display_name=pipeline.name,
            parameters=parse_parameters(pipeline, pairs),
            namespace="",
            name=f"{pipeline.name[:40].strip('-')}-{run_id[-5:]}",
        )
    except PipelineError as error:
        raise CommandError(f"error: {error}") from None
    metadata = {name: value for name, value in workflow["metadata"].items() if name != "namespace"}
    return load_manifests(dump({**workflow, "metadata": metadata}), file)


def parse_parameters(pipeline: Pipeline, pairs: Sequence[tuple[str, str]]) -> Mapping[str, Any]:
    """Values of text parameters are taken as they are, all others are JSON."""
    declared = pipeline.spec.root.input_definitions.parameters
    found: dict[str, Any] = {}
    for name, text in pairs:
        kind = declared[name].parameter_type if name in declared else "STRING"
        if kind == "STRING":
            found[name] = text
            continue
        try:
            found[name] = json.loads(text)
        except ValueError:
            raise CommandError(f'error: -p {name}: "{text}" is not JSON, and the parameter is a {kind}') from None
    return found


def compile_file(file: str) -> str:
    """Compiles a Python file with the kfp of the user's environment. Returns the compiled pipeline."""
    program = shutil.which("python3")
    if program is None:
        raise CommandError(f"error: {file}: there is no python3 in PATH to compile it with")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "pipeline.yaml"
        command = [program, "-c", _KFP, "dsl", "compile", "--py", file, "--output", str(target)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_SECONDS)
        except subprocess.TimeoutExpired:
            raise CommandError(f"error: {file}: compiling took longer than {_COMPILE_SECONDS} seconds") from None
        if "No module named" in done.stderr and "kfp" in done.stderr.splitlines()[-1]:
            raise CommandError(
                f"error: {file}: {program} has no kfp to compile it with; activate the environment that has it, or "
                "install it there: pip install kfp"
            )
        if done.returncode or not target.exists():
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-15:]
            raise CommandError("\n".join([f"error: {file} cannot be compiled:", *said]))
        return target.read_text()
