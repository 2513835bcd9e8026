"""Collects what a Pod leaves: its result, output parameters, output artifacts, logs and progress."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import IO, Any

from muster.kube.beneath import Folder
from muster.kube.budgets import Budgets, setting_name
from muster.kube.cluster import NodeFiles, NodeFilesError
from muster.kube.objects import Object
from muster.workflows.artifacts.client import ArtifactClient
from muster.workflows.artifacts.locations import ArtifactError, ArtifactUnreachable, repository_for
from muster.workflows.executors.pod_spec import (
    LONGEST_TEXT,
    MAIN,
    PROGRESS_FILE,
    archives_logs,
    clean_path,
    main_containers,
    output_artifacts,
    output_parameters,
    output_paths_by_container,
    scope_of,
)
from muster.workflows.model import Launch, Outcome, Outputs, Template

RESULT_BYTES = 256 * 1024


class OutputError(Exception):
    """A declared output is missing."""


class OutputCollector:
    def __init__(self, files: NodeFiles, artifacts: ArtifactClient, work: Path, budgets: Budgets) -> None:
        self._text_bytes = budgets.output_text_kilobytes * 1024
        self._files = files
        self._artifacts = artifacts
        self._work = work

    def is_needed(self, launch: Launch, spec: Mapping[str, Any], repository: Mapping[str, Any]) -> bool:
        outputs = launch.template.get("outputs") or {}
        return bool(
            launch.wants_result
            or outputs.get("parameters")
            or outputs.get("artifacts")
            or archives_logs(launch.template, spec, repository)
        )

    async def collect(
        self, workflow: Object, spec: Mapping[str, Any], launch: Launch, pod: Object, outcome: Outcome,
        repository: Mapping[str, Any],
    ) -> Outcome:  # fmt: skip
        """Returns the outcome with its outputs.

        Of a failed Pod, the outputs that exist; a missing output of a Pod that succeeded is an Error. Raises
        ArtifactUnreachable where a retry may help.
        """
        template = launch.template
        outputs, problems = Outputs(**outcome.outputs), list[str]()
        if launch.wants_result and MAIN in main_containers(template):
            outputs["result"] = self._result(pod)
        kept = _OutputFiles(self._files, pod, template)
        if output_parameters(template):
            outputs["parameters"], problem = _read_parameters(template, kept, self._text_bytes)
            problems += problem
        repository = repository_for(template, repository)
        scope = scope_of(workflow, launch)
        if output_artifacts(template):
            outputs["artifacts"], problem = await self._save_artifacts(workflow, template, kept, scope, repository)
            problems += problem
        if archives_logs(template, spec, repository):
            logs, problem = await self._save_logs(workflow, template, pod, scope, repository)
            outputs["artifacts"] = [*(outputs.get("artifacts") or ()), *logs]
            problems += problem
        outcome = replace(outcome, outputs=outputs)
        if problems and outcome.phase == "Succeeded":
            return replace(outcome, phase="Error", message="; ".join(problems))
        return outcome

    def _result(self, pod: Object) -> str:
        text = self._files.last_output(pod, MAIN, RESULT_BYTES + 1).decode("utf-8", "replace")
        return text.removesuffix("\n")[-RESULT_BYTES:]

    async def _save_artifacts(
        self,
        workflow: Object,
        template: Template,
        kept: _OutputFiles,
        scope: Mapping[str, Any],
        repository: Mapping[str, Any],
    ) -> tuple[list[dict[str, Any]], list[str]]:
        done, problems = list[dict[str, Any]](), list[str]()
        for artifact in output_artifacts(template):
            path = str(artifact.get("path") or "")
            if not path:
                continue
            try:
                source = kept.find(path)
                if source is None:
                    if not artifact.get("optional"):
                        raise OutputError(f"open {path}: no such file or directory")
                    continue
                done.append(await self._artifacts.save(workflow, artifact, source, scope, repository))
            except ArtifactUnreachable as error:
                raise ArtifactUnreachable(f"failed to save output artifact '{artifact.get('name')}': {error}") from None
            except (OutputError, ArtifactError, OSError) as error:
                problems.append(f"failed to save output artifact '{artifact.get('name')}': {error}")
        return done, problems

    async def _save_logs(
        self, workflow: Object, template: Template, pod: Object, scope: Mapping[str, Any], repository: Mapping[str, Any]
    ) -> tuple[list[dict[str, Any]], list[str]]:
        done, problems = list[dict[str, Any]](), list[str]()
        self._work.mkdir(parents=True, exist_ok=True)
        work = Path(mkdtemp(dir=self._work))
        try:
            for index, container in enumerate(main_containers(template)):
                text = work / str(index)
                await asyncio.to_thread(self._files.write_log, pod, container, text)
                wanted = {"name": f"{container}-logs", "path": f"/{container}.log", "archive": {"none": {}}}
                kept = await self._artifacts.save(workflow, wanted, text, scope, repository)
                done.append({field: value for field, value in kept.items() if field not in ("path", "archive")})
        except ArtifactUnreachable:
            raise
        except (ArtifactError, OSError) as error:
            problems.append(f"failed to save the logs: {error}")
        finally:
            shutil.rmtree(work, ignore_errors=True)
        return done, problems


class _OutputFiles:
    """The copies of a Pod's output files that its node keeps."""

    def __init__(self, files: NodeFiles, pod: Object, template: Template) -> None:
        self._files = files
        self._pod = pod
        self._paths = output_paths_by_container(template)
        # If several containers may have written a path, the last one counts.
        self._containers = sorted(self._paths, key=lambda name: files.outputs_written_at(pod, name), reverse=True)

    def find(self, path: str) -> Path | None:
        """Raises OutputError if the file may have existed but could not be copied."""
        wanted = clean_path(path)
        for container in self._containers:
            if wanted not in self._paths[container]:
                continue
            try:
                copy = self._files.output(self._pod, container, self._paths[container].index(wanted))
            except NodeFilesError as error:
                raise OutputError(f"the output files of the container could not be copied: {error}") from None
            if copy is not None:
                return copy
        return None


def _read_parameters(template: Template, kept: _OutputFiles, most: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Reads at most so many bytes in all: they become a part of the workflow."""
    done, problems = list[dict[str, Any]](), list[str]()
    said = str((template.get("annotations") or {}).get(LONGEST_TEXT) or "")
    longest = int(said) if said.isdecimal() and len(said) < 10 else most
    for parameter in output_parameters(template):
        source = parameter.get("valueFrom") or {}
        path = str(source.get("path") or "")
        if not path:
            done.append(dict(parameter))
            continue
        try:
            value = _read_parameter(kept, path, source.get("default"), most)
            if len(value) > longest:
                raise OutputError(
                    f"{path} has {len(value)} characters; a text may have at most {longest}: write less, or use a file"
                )
            most -= len(value.encode("utf-8", "replace"))
            done.append({**parameter, "value": value})
        except OutputError as error:
            problems.append(f"failed to save output parameter '{parameter.get('name')}': {error}")
    return done, problems


def _read_parameter(kept: _OutputFiles, path: str, default: Any, most: int) -> str:
    place = kept.find(path)
    with suppress(OSError):
        if place is not None:
            with Folder.at(place.parent) as beside, beside.file(place.name) as file:
                return _read_text(file, path, most)
    if default is not None:
        return str(default).removesuffix("\n")
    raise OutputError(f"open {path}: no such file or directory" if place is None else f"read {path}: is a directory")


def _read_text(file: IO[bytes], path: str, most: int) -> str:
    size = os.fstat(file.fileno()).st_size
    if size > most:
        raise OutputError(
            f"{path} has {size} bytes, and the output parameters of a node may have at most "
            f"{setting_name('output_text_kilobytes')} together: use an output artifact"
        )
    return file.read(most).decode("utf-8", "replace").removesuffix("\n")


SECONDS = 3.0
"""Seconds between two reads, as in Argo."""

_FORM = re.compile(r"(\d+)/(\d+)")
_TAIL = 256


def progress_file(files: NodeFiles, pod: Object) -> str:
    """Returns the file that ARGO_PROGRESS_FILE names, in the /tmp of the main container."""
    return f"{files.scratch_folder(pod, MAIN)}/{Path(PROGRESS_FILE).name}"


def reported_progress(path: str) -> str:
    """Returns the last line of the file if it is a progress such as `3/10`, else ''."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        size = os.fstat(descriptor).st_size
        lines = os.pread(descriptor, _TAIL, max(0, size - _TAIL)).decode("ascii", "replace").split()
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    return parse_progress(lines[-1]) if lines else ""


def parse_progress(text: str) -> str:
    """Returns '' unless the text is a fraction: `3/10`, not `4/3` or `0/0`."""
    found = _FORM.fullmatch(text.strip())
    return text.strip() if found and 0 <= int(found[1]) <= int(found[2]) and int(found[2]) > 0 else ""
