"""Reads `taskParams`, with which a client of MLP Cooker describes a training job. Pure.

There are two forms. The older one is the body of AIHC's CreateJob; the newer one has a `container` instead of a
`jobSpec`. Both become the older form, complete and checked. What is missing is filled in from the settings, and what
is there is never replaced.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import orjson

from muster.platform.errors import InvalidProblem
from muster.platform.messages import FieldError, field_error

TaskParams: TypeAlias = dict[str, Any]
"""The body of AIHC's CreateJob, with `maxRetries` and `timeout` for the dispatcher."""

JOB_TYPES: Final = ("PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob", "RayJob")
PRIORITIES: Final = ("high", "normal", "low")
SOURCE_TYPES: Final = ("pfs", "bos", "hostpath", "cfs", "rapidfs", "dataset", "emptydir")
AIHC_ONLY: Final = ("enableBccl", "faultTolerance", "faultToleranceArgs", "tensorboardConfig", "alertConfig")
"""Fields that AIHC's own controllers interpret."""
DEFAULT_MOUNT: Final = "/data"

_SAME_TYPE: Final = {"tensorflowjob": "TFJob"}
_OLD_FIELDS: Final = (
    "name", "description", "jobType", "command", "jobSpec", "datasources", "labels", "priority", "queue", *AIHC_ONLY,
)  # fmt: skip
_SPEC_FIELDS: Final = ("replicas", "image", "resources", "envs", "enableRDMA", "hostNetwork", "imageConfig", "command")
_NEW_FIELDS: Final = (
    "name", "description", "jobType", "replicas", "container", "labels", "priority", "maxRetries", "timeout",
    "queueName", "queue", "resourcePoolId", "enableRDMA", *AIHC_ONLY,
)  # fmt: skip
_CONTAINER_FIELDS: Final = ("image", "command", "args", "envs", "volumes", "resources")
_SOURCE_FIELDS: Final = ("type", "name", "sourcePath", "mountPath", "readOnly", "options")

_NAME: Final = re.compile(r"[^\W_]([\w.-]{0,126}[^\W_])?")
_VARIABLE: Final = re.compile(r"[A-Za-z_.-][A-Za-z0-9_.-]*")
_RESOURCE: Final = re.compile(r"([a-z0-9.-]+/)?[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_NUMBER: Final = re.compile(r"\d+(\.\d+)?")
_MOST_REPLICAS: Final = 10_000
_MOST_ITEMS: Final = 1_000
_LONGEST_TEXT: Final = 200_000
_MOST_ERRORS: Final = 50
_MOST_DIGITS: Final = 12
"""Python refuses to read thousands of them."""


@dataclass(frozen=True, slots=True)
class TaskDefaults:
    """What is filled in where a request leaves it out."""

    queue: str = ""
    pfs: str = ""
    """The id of the PFS instance."""
    bucket: str = ""


def parse_task_params(given: Any, defaults: TaskDefaults = TaskDefaults()) -> TaskParams:
    """Accepts an object or the same as a JSON string. Raises InvalidProblem with everything that is wrong."""
    if isinstance(given, str) and given.strip():
        try:
            given = orjson.loads(given)
        except orjson.JSONDecodeError as error:
            raise InvalidProblem.field("taskParams", "cooker.json", detail=str(error)) from None
    if not given:
        raise InvalidProblem.field("taskParams", "cooker.params")
    if not isinstance(given, dict):
        raise InvalidProblem.field("taskParams", "cooker.type", wanted="an object")
    reader = _Reader()
    if "container" in given and "jobSpec" not in given:
        given = _older_form(reader, given)
    params = _read(reader, given, defaults)
    if reader.errors:
        raise InvalidProblem.fields(reader.errors)
    return params


class _Reader:
    """Collects what is wrong, so that a client sees all of it at once."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []

    def wrong(self, path: str, code: str, /, **arguments: Any) -> None:
        if len(self.errors) < _MOST_ERRORS:
            self.errors.append(field_error(path, code, **arguments))

    def fields(self, path: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
        for name in given:
            if name not in known:
                self.wrong(f"{path}.{name[:100]}", "cooker.unknown", fields=list(known))

    def text(self, path: str, value: Any, *, required: bool = False) -> str:
        if value is None or value == "":
            if required:
                self.wrong(path, "field.missing")
            return ""
        if not isinstance(value, str):
            self.wrong(path, "cooker.type", wanted="a text")
            return ""
        if "\0" in value or len(value) > _LONGEST_TEXT:
            self.wrong(path, "cooker.text", most=_LONGEST_TEXT)
            return ""
        return value

    def mapping(self, path: str, value: Any) -> dict[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.wrong(path, "cooker.type", wanted="an object")
            return {}
        return value

    def items(self, path: str, value: Any) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list) or len(value) > _MOST_ITEMS:
            self.wrong(path, "cooker.type", wanted=f"a list of at most {_MOST_ITEMS} items")
            return []
        return value

    def whole_number(self, path: str, value: Any, usual: int, most: int) -> int:
        if value is None or value == "":
            return usual
        if isinstance(value, str) and value.isdecimal() and len(value) <= _MOST_DIGITS:
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            self.wrong(path, "cooker.type", wanted=f"a whole number from 0 to {most}")
            return usual
        return value

    def boolean(self, path: str, value: Any) -> bool:
        if value in (None, "", False, "false"):
            return False
        if value not in (True, "true"):
            self.wrong(path, "cooker.type", wanted="true or false")
        return True

    def pairs(self, path: str, value: Any, key: str) -> list[dict[str, str]]:
        """Names with values: a list of objects, or one object."""
        if isinstance(value, dict):
            value = [{key: name, "value": each} for name, each in value.items()]
        found = []
        for index, item in enumerate(self.items(path, value)):
            where = f"{path}[{index}]"
            entry = self.mapping(where, item)
            self.fields(where, entry, (key, "value"))
            said = entry.get("value")
            if isinstance(said, int | float) and not isinstance(said, bool):
                said = str(said)
            name = self.text(f"{where}.{key}", entry.get(key), required=True)
            found.append({key: name, "value": self.text(f"{where}.value", said)})
        return found


def _older_form(reader: _Reader, given: Mapping[str, Any]) -> TaskParams:
    """The newer form in the fields of the older one. Values are checked afterwards, by their new names."""
    reader.fields("taskParams", given, _NEW_FIELDS)
    container = reader.mapping("taskParams.container", given.get("container"))
    reader.fields("taskParams.container", container, _CONTAINER_FIELDS)
    words = []
    for name in ("command", "args"):
        for index, word in enumerate(reader.items(f"taskParams.container.{name}", container.get(name))):
            words.append(reader.text(f"taskParams.container.{name}[{index}]", word))
    resources = reader.mapping("taskParams.container.resources", container.get("resources"))
    reader.fields("taskParams.container.resources", resources, ("cpus", "memory", "gpu"))
    gpu = reader.mapping("taskParams.container.resources.gpu", resources.get("gpu"))
    reader.fields("taskParams.container.resources.gpu", gpu, ("type", "count"))
    amounts = [
        {"name": _gpu_resource(gpu.get("type")), "quantity": gpu.get("count")},
        {"name": "cpu", "quantity": resources.get("cpus")},
        {"name": "memory", "quantity": resources.get("memory")},
    ]
    spec = {
        "image": container.get("image"),
        "replicas": given.get("replicas"),
        "envs": container.get("envs"),
        "resources": [each for each in amounts if each["quantity"] not in (None, 0)],
        "enableRDMA": given.get("enableRDMA"),
    }
    volumes = []
    for index, volume in enumerate(reader.items("taskParams.container.volumes", container.get("volumes"))):
        source = reader.mapping(f"taskParams.container.volumes[{index}]", volume)
        kind = source.get("type")
        volumes.append({**source, "type": kind.replace("_", "") if isinstance(kind, str) else kind})
    same = ("name", "description", "jobType", "labels", "priority", "maxRetries", "timeout", *AIHC_ONLY)
    return {
        **{name: given[name] for name in same if name in given},
        "command": shlex.join(words),
        "queue": given.get("queue") or given.get("queueName"),
        "jobSpec": spec,
        "datasources": volumes,
    }


def _gpu_resource(kind: Any) -> str:
    """AIHC has a resource for every model of GPU, such as `baidu.com/a800_80g_cgpu`."""
    if not isinstance(kind, str) or not kind:
        return "nvidia.com/gpu"
    return kind if "/" in kind else f"baidu.com/{kind.lower().replace('-', '_')}_cgpu"


def _read(reader: _Reader, given: Mapping[str, Any], defaults: TaskDefaults) -> TaskParams:
    reader.fields("taskParams", given, (*_OLD_FIELDS, "maxRetries", "timeout"))
    spec = reader.mapping("taskParams.jobSpec", given.get("jobSpec"))
    reader.fields("taskParams.jobSpec", spec, _SPEC_FIELDS)
    if spec.get("imageConfig"):
        reader.wrong("taskParams.jobSpec.imageConfig", "cooker.password")
    command = given.get("command") or spec.get("command")
    params: TaskParams = {
        "name": _read_name(reader, given.get("name")),
        "jobType": _read_job_type(reader, given.get("jobType")),
        "command": reader.text("taskParams.command", command, required=True),
        "queue": reader.text("taskParams.queue", given.get("queue")) or defaults.queue,
        "priority": _read_priority(reader, given.get("priority")),
        "jobSpec": {
            "image": reader.text("taskParams.jobSpec.image", spec.get("image"), required=True),
            "replicas": max(
                1, reader.whole_number("taskParams.jobSpec.replicas", spec.get("replicas"), 1, _MOST_REPLICAS)
            ),
            "resources": _read_resources(reader, spec.get("resources")),
            "envs": _read_variables(reader, spec.get("envs")),
            "enableRDMA": reader.boolean("taskParams.jobSpec.enableRDMA", spec.get("enableRDMA")),
            "hostNetwork": reader.boolean("taskParams.jobSpec.hostNetwork", spec.get("hostNetwork")),
        },
        "datasources": _read_sources(reader, given.get("datasources"), defaults),
        "labels": reader.pairs("taskParams.labels", given.get("labels"), "key"),
    }
    description = reader.text("taskParams.description", given.get("description"))
    if description:
        params["description"] = description
    for name, most in (("maxRetries", 100), ("timeout", 366 * 86400)):
        number = reader.whole_number(f"taskParams.{name}", given.get(name), 0, most)
        if number:
            params[name] = number
    return params | {name: given[name] for name in AIHC_ONLY if name in given}


def _read_name(reader: _Reader, value: Any) -> str:
    name = reader.text("taskParams.name", value, required=True)
    if name and not _NAME.fullmatch(name):
        reader.wrong("taskParams.name", "cooker.name", name=name[:128])
    return name


def _read_replicas(reader: _Reader, value: Any) -> int:
    return max(1, reader.whole_number("taskParams.jobSpec.replicas", value, 1, _MOST_REPLICAS))


def _read_job_type(reader: _Reader, value: Any) -> str:
    """`TensorFlowJob` is AIHC's TFJob."""
    said = reader.text("taskParams.jobType", value) or "PyTorchJob"
    known = {each.lower(): each for each in JOB_TYPES} | _SAME_TYPE
    found = known.get(said.lower())
    if found is None:
        reader.wrong("taskParams.jobType", "cooker.job-type", type=said[:100], types=list(JOB_TYPES))
    return found or said


def _read_priority(reader: _Reader, value: Any) -> str:
    said = reader.text("taskParams.priority", value) or "normal"
    if said not in PRIORITIES:
        reader.wrong("taskParams.priority", "filter.value", value=said[:100], choices=list(PRIORITIES))
    return said


def _read_resources(reader: _Reader, value: Any) -> list[dict[str, Any]]:
    """Amounts in AIHC's units: cards, cores, and GB of memory."""
    found: list[dict[str, Any]] = []
    for index, item in enumerate(reader.items("taskParams.jobSpec.resources", value)):
        path = f"taskParams.jobSpec.resources[{index}]"
        entry = reader.mapping(path, item)
        reader.fields(path, entry, ("name", "quantity"))
        name = reader.text(f"{path}.name", entry.get("name"), required=True)
        if name and not _RESOURCE.fullmatch(name):
            reader.wrong(f"{path}.name", "cooker.resource", name=name[:100])
        elif name in (each["name"] for each in found):
            reader.wrong(f"{path}.name", "cooker.twice", name=name)
        amount = entry.get("quantity")
        if isinstance(amount, str) and _NUMBER.fullmatch(amount):
            amount = float(amount)
        if not isinstance(amount, int | float) or isinstance(amount, bool) or not 0 <= amount < 1e9:
            reader.wrong(f"{path}.quantity", "cooker.quantity", name=name)
        elif amount:
            found.append({"name": name, "quantity": int(amount) if float(amount).is_integer() else amount})
    return found


def _read_variables(reader: _Reader, value: Any) -> list[dict[str, str]]:
    found = reader.pairs("taskParams.jobSpec.envs", value, "name")
    for index, each in enumerate(found):
        if each["name"] and not _VARIABLE.fullmatch(each["name"]):
            reader.wrong(f"taskParams.jobSpec.envs[{index}].name", "cooker.variable", name=each["name"][:100])
    return found


def _read_sources(reader: _Reader, value: Any, defaults: TaskDefaults) -> list[dict[str, Any]]:
    usual: Mapping[str, Callable[[], dict[str, str]]] = {
        "pfs": lambda: {"name": defaults.pfs, "sourcePath": "/", "mountPath": DEFAULT_MOUNT},
        "bos": lambda: {"sourcePath": f"{defaults.bucket}/" if defaults.bucket else "", "mountPath": DEFAULT_MOUNT},
    }
    found: list[dict[str, Any]] = []
    mounts = set[str]()
    for index, item in enumerate(reader.items("taskParams.datasources", value)):
        path = f"taskParams.datasources[{index}]"
        entry = reader.mapping(path, item)
        reader.fields(path, entry, _SOURCE_FIELDS)
        kind = reader.text(f"{path}.type", entry.get("type"), required=True).lower()
        if kind and kind not in SOURCE_TYPES:
            reader.wrong(f"{path}.type", "cooker.source-type", type=kind[:100], types=list(SOURCE_TYPES))
        source: dict[str, Any] = {"type": kind}
        filled = usual.get(kind, dict)()
        for name in ("name", "sourcePath", "mountPath"):
            source[name] = reader.text(f"{path}.{name}", entry.get(name)) or filled.get(name, "")
        options = reader.mapping(f"{path}.options", entry.get("options"))
        read_only = options.get("readOnly") if entry.get("readOnly") is None else entry.get("readOnly")
        source["options"] = {**options, "readOnly": reader.boolean(f"{path}.readOnly", read_only)}
        _check_paths(reader, path, source, mounts)
        found.append(source)
    return found


def _check_paths(reader: _Reader, path: str, source: Mapping[str, Any], earlier: set[str]) -> None:
    """Adds the mount to the `earlier` ones."""
    mount = source["mountPath"].rstrip("/")
    if not mount.startswith("/") or has_parent_folder(mount):
        reader.wrong(f"{path}.mountPath", "storage.path", path=source["mountPath"][:200])
    elif mount in earlier:
        reader.wrong(f"{path}.mountPath", "storage.same-path", path=mount[:200])
    earlier.add(mount)
    if has_parent_folder(source["sourcePath"]):
        reader.wrong(f"{path}.sourcePath", "cooker.source-path", path=source["sourcePath"][:200])


def has_parent_folder(path: str) -> bool:
    return ".." in path.split("/")
