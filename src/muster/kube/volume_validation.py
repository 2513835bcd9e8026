"""The rules of volumes that their schema cannot say."""

from __future__ import annotations

from collections.abc import Iterator

from muster.kube.causes import forbidden, invalid, required
from muster.kube.container_validation import ENV_FIELDS, field_reference, inner_path, resource_reference
from muster.kube.errors import Cause
from muster.kube.names import dns_label
from muster.kube.objects import Object
from muster.kube.quantity import parse_quantity

FILE_FIELDS = (
    *(field for field in ENV_FIELDS if field.startswith("metadata.")),
    "metadata.labels",
    "metadata.annotations",
)

_REQUIRED = {"configMap": "name", "secret": "secretName", "persistentVolumeClaim": "claimName", "hostPath": "path"}
_PROJECTIONS = ("secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate")


def validate_volume(volume: Object, path: str) -> Iterator[Cause]:
    yield from dns_label(f"{path}.name", volume["name"])
    sources = [key for key, value in volume.items() if key != "name" and value is not None]
    if not sources:
        yield required(path, "must specify a volume type, such as emptyDir: {}")
    for extra in sources[1:]:
        yield forbidden(f"{path}.{extra}", f"may not specify more than 1 volume type: there is {sources[0]} already")
    for kind in sources:
        yield from _source(kind, volume[kind], f"{path}.{kind}")


def _source(kind: str, source: Object, path: str) -> Iterator[Cause]:
    name = _REQUIRED.get(kind)
    if name is not None and not source.get(name):
        yield required(f"{path}.{name}")
    yield from _mode(source.get("defaultMode"), f"{path}.defaultMode")
    match kind:
        case "hostPath":
            if ".." in source["path"].split("/"):
                yield invalid(f"{path}.path", source["path"], "must not contain '..'")
        case "emptyDir":
            if source.get("sizeLimit") is not None and parse_quantity(source["sizeLimit"]) < 0:
                yield invalid(f"{path}.sizeLimit", source["sizeLimit"], "must be greater than or equal to 0")
        case "configMap" | "secret":
            yield from _items(source, path)
        case "downwardAPI":
            yield from _downward(source, path)
        case "projected":
            for number, part in enumerate(source.get("sources") or ()):
                yield from _projection(part, f"{path}.sources[{number}]")


def _items(source: Object, path: str) -> Iterator[Cause]:
    for number, item in enumerate(source.get("items") or ()):
        at = f"{path}.items[{number}]"
        if not item["key"]:
            yield required(f"{at}.key")
        yield from _item_path(item, at)


def _item_path(item: Object, path: str) -> Iterator[Cause]:
    if not item["path"]:
        yield required(f"{path}.path")
    else:
        yield from inner_path(f"{path}.path", item["path"])
        if item["path"].startswith("..") and not item["path"].startswith("../"):
            yield invalid(f"{path}.path", item["path"], "must not start with '..'")
    yield from _mode(item.get("mode"), f"{path}.mode")


def _downward(source: Object, path: str) -> Iterator[Cause]:
    for number, item in enumerate(source.get("items") or ()):
        at = f"{path}.items[{number}]"
        yield from _item_path(item, at)
        field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
        if (field is None) == (resource is None):
            yield required(at, "must have exactly one of fieldRef and resourceFieldRef")
        elif field is not None:
            yield from field_reference(f"{at}.fieldRef.fieldPath", field["fieldPath"], FILE_FIELDS)
        elif resource is not None:
            if not resource.get("containerName"):
                yield required(f"{at}.resourceFieldRef.containerName", "say which container's resources are meant")
            yield from resource_reference(f"{at}.resourceFieldRef.resource", resource["resource"])


def _projection(part: Object, path: str) -> Iterator[Cause]:
    given = [kind for kind in _PROJECTIONS if part.get(kind) is not None]
    for extra in given[1:]:
        yield forbidden(f"{path}.{extra}", f"may not specify more than 1 volume type: there is {given[0]} already")
    for kind in given:
        source, at = part[kind], f"{path}.{kind}"
        if kind in ("secret", "configMap"):
            if not source.get("name"):
                yield required(f"{at}.name")
            yield from _items(source, at)
        elif kind == "downwardAPI":
            yield from _downward(source, at)
        elif kind == "serviceAccountToken":
            if source["path"]:
                yield from inner_path(f"{at}.path", source["path"])
            else:
                yield required(f"{at}.path")


def _mode(mode: int | None, field: str) -> Iterator[Cause]:
    if mode is not None and not 0 <= mode <= 0o777:
        yield invalid(field, mode, "must be a number between 0 and 0777 (octal), both inclusive")
