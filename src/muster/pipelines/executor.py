"""The container of a task: its Argo template, and what its outputs mean. Pure.

The Pod executor of workflows stages input artifacts, runs the Pod and collects the paths that the template declares. So
this module only maps the executor's contract of Kubeflow Pipelines to a template, and what was collected back
to typed outputs. There is no launcher in the container:

- Folders of outputs are emptyDir volumes, because a component expects the folders to exist, and the outputs not to.
  They are on the disk, where an artifact may be large.
- The folder of the task (`TaskLaunch.task_root`) is stored as a whole, so an artifact may also have a name that the
  component has chosen (`dsl.get_uri('x')`). Its key in the artifact repository follows from the id of the task: an
  artifact can be found by its uri alone.
- A lightweight component begins with `pip install`. The Pod names these commands, so that the node can have an
  environment ready (`muster.dev/pip-install`).
"""

from __future__ import annotations

import json
import posixpath
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from muster.kube.cluster import PIP_INSTALL_ANNOTATION
from muster.pipelines.kubernetes_settings import pass_to_task, pod_settings
from muster.pipelines.object_stores import NO_STORES, ObjectStores
from muster.pipelines.placeholders import WORKSPACE, resolve_arguments, resolve_text
from muster.pipelines.task import Artifact, TaskFailed, TaskLaunch, TaskOutputs, local_path, parameter_file
from muster.pipelines.values import ValueTypeError, convert, parse_text, whole_numbers
from muster.workflows.artifacts.locations import key_of, kind_of, with_key
from muster.workflows.model import Outputs, Template

LOGS = "executor-logs"
"""What Kubeflow calls the log of an attempt. The node has it as the artifact `main-logs`, as in Argo."""

_OUTPUT_FILE = "kfp-output-file"
"""The output parameter that holds the ExecutorOutput."""
_TASK_ROOT = "kfp-task-root"
"""The output artifact that holds all artifacts of the task."""
_CUSTOM_PATHS = "kfp-custom-paths"
"""The output parameter that lists the artifacts which the node has copied into the task's folder from a `custom_path`
elsewhere."""
_MISSING = "(kfp: the component did not write this output)"
"""The default of an output parameter, to tell a missing file from an empty one."""
_DEFAULT_ROOT = "minio://mlpipeline/v2/artifacts/"
_STORES = {"gs://": "https://storage.googleapis.com/{bucket}/{key}", "s3://": "https://{bucket}.s3.amazonaws.com/{key}"}
"""Where everyone can read the public objects of a store. Others need credentials (`object_stores.py`)."""
_SHELLS = ("sh", "bash", "dash", "ash")
_ENDS = "();<>|&\n"
_WORDS_OF_PYTHON = ("python", "python3")


def template_of(launch: TaskLaunch) -> Template:
    """Returns the template of the task's Pod, with literal texts: nothing in it is a tag. Raises TaskFailed."""
    if not launch.output_file.startswith("/") or launch.task_root.startswith("oci://"):
        raise TaskFailed(
            f'the pipeline root "{launch.run.pipeline_root}" cannot be used: write minio://, s3://, gs:// or a path'
        )
    settings = pod_settings(launch)
    parameters = {**launch.inputs.parameters, **pass_to_task(launch, settings)}
    launch = replace(launch, inputs=replace(launch.inputs, parameters=_in_workspace(parameters)))
    for number, folder in enumerate(_output_folders(launch)):
        settings.mount(f"kfp-outputs-{number}", {"emptyDir": {}}, folder)
    command = _arguments(launch.container.command, launch)
    args = _arguments(launch.container.args, launch)
    container: dict[str, Any] = {
        "image": resolve_text(launch.container.image, launch),
        "command": command,
        "args": args,
        "env": settings.env,
        "resources": settings.resources,
        "volumeMounts": settings.volumeMounts,
        "imagePullPolicy": settings.image_pull_policy,
        "securityContext": settings.security_context,
    }
    installs = pip_commands([*command, *args])
    if installs:
        settings.annotations[PIP_INSTALL_ANNOTATION] = json.dumps(installs)
    template: Template = {
        "container": {name: value for name, value in container.items() if value},
        "inputs": {"artifacts": staged_inputs(launch)},
        "outputs": _outputs(launch),
        "archiveLocation": {"archiveLogs": True},
    }
    if settings.labels or settings.annotations:
        template["metadata"] = {"labels": settings.labels, "annotations": settings.annotations}
    for name in ("volumes", "nodeSelector", "tolerations", "affinity"):
        if getattr(settings, name):
            template[name] = getattr(settings, name)
    if settings.active_deadline_seconds:
        template["activeDeadlineSeconds"] = settings.active_deadline_seconds
    if settings.image_pull_secrets:
        template["podSpecPatch"] = json.dumps({"imagePullSecrets": settings.image_pull_secrets})
    return template


def read_outputs(launch: TaskLaunch, outputs: Outputs) -> TaskOutputs:
    """Returns the outputs of a task whose container succeeded. Raises TaskFailed."""
    collected = {p["name"]: str(p.get("value") or "") for p in outputs.get("parameters") or ()}
    written = _executor_output(collected.get(_OUTPUT_FILE) or "")
    values = written.get("parameterValues")
    parameters = _read_parameters(launch, values if isinstance(values, dict) else {}, collected)
    root = next((a for a in outputs.get("artifacts") or () if a["name"] == _TASK_ROOT), None)
    stored = _Stored(root, collected.get(_CUSTOM_PATHS, _MISSING))
    changed = written.get("artifacts")
    artifacts = {
        name: _read_artifacts(launch, name, listed, changed if isinstance(changed, dict) else {}, stored)
        for name, listed in launch.output_artifacts.items()
    }
    return TaskOutputs(parameters, artifacts)


def location_of_uri(uri: str, stores: ObjectStores = NO_STORES) -> dict[str, Any]:
    """Returns where the bytes of an imported artifact are, as a location of Argo, or {} if they cannot be fetched: then
    the component finds what its path says, or nothing."""
    private = stores.location_of(uri)
    if private:
        return {**private, "archive": {"none": {}}}
    if uri.startswith(_DEFAULT_ROOT):
        # <pipeline>/<run>/<task>/<id of the task>/<artifact>: see task_key
        parts = uri.removeprefix(_DEFAULT_ROOT).split("/", 4)
        if len(parts) == 5 and all(parts):
            return {"s3": {"key": f"{task_key(parts[3])}/{parts[4]}"}, "archive": {"none": {}}}
        return {}
    for scheme, address in _STORES.items():
        bucket, _, key = uri.removeprefix(scheme).partition("/")
        if uri.startswith(scheme) and bucket and key:
            return {"http": {"url": address.format(bucket=bucket, key=key)}, "archive": {"none": {}}}
    return {}


def task_location(launch: TaskLaunch) -> dict[str, Any]:
    """Returns where the folder of a task is stored: where its uri says, if the namespace has credentials for that, else
    in the artifact repository."""
    return launch.run.stores.location_of(launch.task_root) or {"s3": {"key": task_key(launch.task_id)}}


def task_key(task_id: str) -> str:
    """Returns the key of a task's folder in the artifact repository. It begins with the workflow's name, which the id
    of a node begins with, so the folder is deleted with the workflow."""
    return f"{task_id.rpartition('-')[0] or task_id}/{task_id}"


def staged_inputs(launch: TaskLaunch) -> list[dict[str, Any]]:
    """Returns the input artifacts that the container finds as files. An artifact in the workspace is there already."""
    staged: dict[str, dict[str, Any]] = {}
    for name, listed in launch.inputs.artifacts.items():
        for index, artifact in enumerate(listed):
            path = local_path(artifact.uri)
            location = artifact.location or location_of_uri(artifact.uri, launch.run.stores)
            if location and path.startswith("/") and not artifact.metadata.get("_kfp_workspace"):
                entry = {"name": f"{name}-{index}", "path": path, **location}
                # An artifact that its component did not write has no bytes. Others have to be there.
                staged.setdefault(path, {**entry, "optional": True} if artifact.location else entry)
    # A folder that contains another one comes first, so that both are visible.
    return [staged[path] for path in sorted(staged)]


def pip_commands(words: Sequence[str]) -> list[list[str]]:
    """Returns the arguments of the `pip install` commands that a shell script begins with, or [] if there are none or
    something about them is not plain. An alternative after `||` does not count."""
    script = _script_of(words)
    if "-m pip install" not in script or "-m venv" in script:
        return []
    found, command, is_alternative = list[list[str]](), list[str](), False
    for word in _shell_words(script):
        if word and all(character in _ENDS for character in word):
            _add_install(found, command, is_alternative)
            is_alternative, command = word == "||", []
        else:
            command.append(word)
    _add_install(found, command, is_alternative)
    return [] if any("$" in word or "`" in word for install in found for word in install) else found


def _script_of(words: Sequence[str]) -> str:
    """Returns the script of `sh -c SCRIPT ...`, else ''."""
    if len(words) < 3 or posixpath.basename(words[0]) not in _SHELLS:
        return ""
    is_command = words[1].startswith("-") and not words[1].startswith("--") and words[1].endswith("c")
    return words[2].replace("$$(", "$(") if is_command else ""


def _shell_words(script: str) -> list[str]:
    lexer = shlex.shlex(script, posix=True, punctuation_chars=_ENDS)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        return list(lexer)
    except ValueError:  # a quote that does not end
        return []


def _add_install(found: list[list[str]], command: list[str], is_alternative: bool) -> None:
    words = [
        word
        for index, word in enumerate(command)
        if "=" not in word or any(w in command[:index] for w in _WORDS_OF_PYTHON)
    ]
    if not is_alternative and words[:1] and words[0] in _WORDS_OF_PYTHON and words[1:4] == ["-m", "pip", "install"]:
        found.append(words[4:])


def _arguments(arguments: Sequence[str], launch: TaskLaunch) -> list[str]:
    """Kubernetes replaces `$(NAME)` in arguments. In what a placeholder stood for, it must not."""
    found = list[str]()
    for argument in arguments:
        resolved = resolve_arguments([argument], launch)
        found += resolved if "$(" in argument else [text.replace("$(", "$$(") for text in resolved]
    return found


def _in_workspace(value: Any) -> Any:
    """A value may name the workspace, whose path is the same for all tasks."""
    if isinstance(value, str):
        return value.replace("{{$.workspace_path}}", WORKSPACE)
    if isinstance(value, dict):
        return {name: _in_workspace(inner) for name, inner in value.items()}
    return [_in_workspace(inner) for inner in value] if isinstance(value, list) else value


def _output_folders(launch: TaskLaunch) -> list[str]:
    """Returns the folders that exist before the container starts."""
    folders = {posixpath.dirname(launch.output_file)}
    for artifact in (each for listed in launch.output_artifacts.values() for each in listed):
        folders.add(posixpath.dirname(local_path(artifact.uri)))
    if launch.component.output_definitions.parameters:
        folders.add(posixpath.dirname(parameter_file("x")))
        folders |= {posixpath.dirname(parameter_file(name)) for name in launch.component.output_definitions.parameters}
    return sorted(folder for folder in folders if folder.startswith("/") and folder != "/")


def _outputs(launch: TaskLaunch) -> dict[str, Any]:
    files = {_OUTPUT_FILE: launch.output_file}
    files |= {name: parameter_file(name) for name in launch.component.output_definitions.parameters}
    found: dict[str, Any] = {
        "parameters": [{"name": n, "valueFrom": {"path": path, "default": _MISSING}} for n, path in files.items()]
    }
    if launch.output_artifacts:
        # The node finds the paths in the output file when the container has ended.
        custom = {"path": f"{launch.output_file}#custom_path", "default": _MISSING}
        found["parameters"].append({"name": _CUSTOM_PATHS, "valueFrom": custom})
        root = {"name": _TASK_ROOT, "path": posixpath.dirname(launch.output_file), "optional": True}
        found["artifacts"] = [{**root, "archive": {"none": {}}, **task_location(launch)}]
    return found


def _read_parameters(launch: TaskLaunch, values: Mapping[str, Any], collected: Mapping[str, str]) -> dict[str, Any]:
    """What the output file says wins over the files of single parameters."""
    found: dict[str, Any] = {}
    for name, definition in launch.component.output_definitions.parameters.items():
        try:
            if name in values:
                found[name] = convert(values[name], definition.parameter_type)
            elif collected.get(name, _MISSING) != _MISSING:
                found[name] = parse_text(collected[name], definition.parameter_type)
            else:
                raise TaskFailed(
                    f'the component did not write its output parameter "{name}": '
                    f"return a value, or write it to {parameter_file(name)}"
                )
        except ValueTypeError as error:
            raise TaskFailed(f'output parameter "{name}": {error}') from None
    return found


class _Stored(NamedTuple):
    """What the node kept of a task."""

    root: Mapping[str, Any] | None
    """The folder of the task."""
    custom_paths: str
    """One in each line; _MISSING if the node cannot keep such."""


def _read_artifacts(
    launch: TaskLaunch,
    name: str,
    listed: tuple[Artifact, ...],
    written: Mapping[str, Any],
    stored: _Stored,
) -> tuple[Artifact, ...]:
    entry = written.get(name)
    changed = entry.get("artifacts") if isinstance(entry, dict) else None
    given = [each for each in changed if isinstance(each, dict)] if isinstance(changed, list) else []
    definition = launch.component.output_definitions.artifacts[name]
    expected = list(listed)
    if definition.is_artifact_list:
        # Only the component knows how many there are.
        expected = [Artifact(name, "", definition.artifact_type, definition.metadata) for _ in given]
    return tuple(
        _finish(launch, artifact, given[index] if index < len(given) else {}, stored)
        for index, artifact in enumerate(expected)
    )


def _finish(launch: TaskLaunch, artifact: Artifact, changed: Mapping[str, Any], stored: _Stored) -> Artifact:
    uri, folder = str(changed.get("uri") or artifact.uri), posixpath.dirname(launch.output_file)
    custom = str(changed.get("custom_path") or "")
    path = posixpath.normpath(custom or local_path(uri))
    if custom and not path.startswith(f"{folder}/"):
        if stored.custom_paths == _MISSING:
            raise TaskFailed(
                f'output artifact "{artifact.name}": its custom_path {path} cannot be read from the image engine: '
                f"write to a path below {folder}"
            )
        path = local_path(uri) if path in stored.custom_paths.split("\n") else ""
    metadata = changed.get("metadata")
    merged = {**artifact.metadata, **(metadata if isinstance(metadata, dict) else {})}
    inside = posixpath.normpath(path).removeprefix(f"{folder}/")
    location: dict[str, Any] = {}
    if stored.root is not None and inside not in ("", ".") and not inside.startswith(("/", "../")) and inside != "..":
        location = _below(stored.root, inside)
    return replace(artifact, uri=uri, metadata=merged, location=location)


def _below(folder: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Returns the location of something in a folder that is stored."""
    return {**with_key({kind_of(folder): folder[kind_of(folder)]}, f"{key_of(folder)}/{name}"), "archive": {"none": {}}}


def _executor_output(text: str) -> dict[str, Any]:
    if not text or text == _MISSING:
        return {}
    try:
        found = whole_numbers(json.loads(text))
    except ValueTypeError as error:
        raise TaskFailed(f"the output file of the component: {error}") from None
    except (ValueError, RecursionError):
        raise TaskFailed("the component wrote an output file that is not JSON") from None
    return found if isinstance(found, dict) else {}
