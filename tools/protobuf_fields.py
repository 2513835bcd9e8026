"""Writes src/muster/server/kubernetes/protobuf_fields.txt from the Kubernetes Go modules in the module cache.

    python tools/protobuf_fields.py ~/go/pkg/mod/k8s.io 0.35.4

What is taken are facts of the wire format: which number a field has in protobuf and how it is called in JSON.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOTS = (
    *(f"core.v1.{kind}" for kind in ("Namespace", "Node", "Pod", "PodTemplate", "Service", "ConfigMap", "Secret")),
    *(
        f"core.v1.{kind}"
        for kind in ("PersistentVolume", "PersistentVolumeClaim", "ServiceAccount", "Event", "Binding", "Endpoints")
    ),
    *(f"core.v1.{kind}" for kind in ("LimitRange", "ResourceQuota")),
    "apiextensions.v1.CustomResourceDefinition",
    *(f"rbac.v1.{kind}" for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")),
    *(f"authentication.v1.{kind}" for kind in ("TokenRequest", "TokenReview", "SelfSubjectReview")),
    *(f"authorization.v1.{kind}SubjectAccessReview" for kind in ("", "Self", "Local")),
    "authorization.v1.SelfSubjectRulesReview",
    "autoscaling.v1.Scale",
    "batch.v1.CronJob",
    "batch.v1.Job",
    "coordination.v1.Lease",
    "discovery.v1.EndpointSlice",
    "events.v1.Event",
    "meta.v1.DeleteOptions",
    "policy.v1.Eviction",
    "scheduling.v1.PriorityClass",
    "storage.v1.StorageClass",
)
SPECIAL = {
    "k8s.io.apimachinery.pkg.api.resource.Quantity": "quantity",
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    "k8s.io.apimachinery.pkg.apis.meta.v1.Time": "time",
    "k8s.io.apimachinery.pkg.apis.meta.v1.MicroTime": "micro-time",
    "k8s.io.apimachinery.pkg.apis.meta.v1.FieldsV1": "json",
    "k8s.io.apimachinery.pkg.runtime.RawExtension": "json",
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSON": "json",
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray": "schema-or-list",
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool": "schema-or-bool",
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray": "schema-or-strings",
    "k8s.io.api.authentication.v1.ExtraValue": "list",
    "k8s.io.api.authorization.v1.ExtraValue": "list",
}
_HOMES = {
    "meta.v1": "k8s.io.apimachinery.pkg.apis.meta.v1",
    "apiextensions.v1": "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1",
}
SCALARS = ("string", "bytes", "bool", "int32", "int64", "double")
PACKAGE = re.compile(r"^package ([\w.]+);", re.M)
MESSAGE = re.compile(r"^message (\w+) \{$(.*?)^\}$", re.M | re.S)
FIELD = re.compile(r"^\s*(optional|required|repeated)?\s*(map<string,\s*([.\w]+)>|[.\w]+)\s+(\w+)\s*=\s*(\d+);", re.M)
STRUCT = re.compile(r"^type (\w+) struct \{$(.*?)^\}$", re.M | re.S)
TAGGED = re.compile(r'^\s*(?:\w+\s+)?(\*?)[^\s`]*\s*`json:"([^"]*)"(?: \w+:"[^"]*")* protobuf:"[a-z0-9]+,(\d+)', re.M)


class Tag(NamedTuple):
    """The type of a field in Go."""

    pointer: bool
    json: str


def main(modules: Path, version: str) -> None:
    api, machinery = modules / f"api@v{version}", modules / f"apimachinery@v{version}"
    extensions = modules / f"apiextensions-apiserver@v{version}/pkg/apis/apiextensions/v1/generated.proto"
    messages: dict[str, list[str]] = {}
    meta = machinery / "pkg/apis/meta/v1/generated.proto"
    for path in [*sorted(api.glob("*/v1/generated.proto")), meta, extensions]:
        text, tags = path.read_text(), go_tags(path.parent)
        package = short(PACKAGE.findall(text)[0])
        for name, body in MESSAGE.findall(text):
            messages[f"{package}.{name}"] = [line(package, tags.get(name, {}), *found) for found in FIELD.findall(body)]
    wanted = list(ROOTS)
    reached: dict[str, list[str]] = {}
    while wanted:
        name = wanted.pop()
        if name not in reached:
            reached[name] = messages[name]
            wanted += [type_ for field in reached[name] if (type_ := field.split()[2]) in messages]
    target = Path(__file__).parents[1] / "src/muster/server/kubernetes/protobuf_fields.txt"
    target.write_text("\n".join(text for name in sorted(reached) for text in (name, *reached[name])) + "\n")


def go_tags(folder: Path) -> dict[str, dict[int, Tag]]:
    """By struct and number."""
    text = "\n".join(path.read_text() for path in folder.glob("*types*.go"))
    return {
        name: {int(number): Tag(bool(star), tag) for star, tag, number in TAGGED.findall(body)}
        for name, body in STRUCT.findall(text)
    }


def line(package: str, tags: dict[int, Tag], label: str, type_: str, value: str, name: str, number: str) -> str:
    """` number name type`, then `repeated` or `map`, then `set` if a zero is sent only if it was set, or `always` if
    JSON always has it."""
    tag = tags.get(int(number), Tag(False, f"{name},omitempty"))
    json_name, *options = tag.json.split(",")
    inline = "inline" in options
    flags = ["repeated"] if label == "repeated" else ["map"] if value else []
    if tag.pointer:
        flags.append("set")
    elif "omitempty" not in options and not inline:
        flags.append("always")
    return " ".join(("", number, "." if inline else json_name or name, resolve(package, value or type_), *flags))


def resolve(package: str, type_: str) -> str:
    if type_ in SCALARS:
        return type_
    full = type_.removeprefix(".")
    if "." not in full:
        full = f"{_HOMES.get(package, f'k8s.io.api.{package}')}.{full}"
    return SPECIAL.get(full) or short(full)


def short(package: str) -> str:
    for prefix in ("k8s.io.api.", "k8s.io.apimachinery.pkg.apis.", "k8s.io.apiextensions_apiserver.pkg.apis."):
        package = package.removeprefix(prefix)
    return package


if __name__ == "__main__":
    main(Path(sys.argv[1]).expanduser(), sys.argv[2])
