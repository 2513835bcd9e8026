from __future__ import annotations

from typing import Any

import pytest

from muster.kube.builtin import CONFIG_MAP, POD, new_catalogue
from muster.workflows.executors.resource_conditions import ResourceError
from muster.workflows.executors.resource_request import (
    Flags,
    ResourceRequest,
    Target,
    parse_flags,
    read_resource_request,
)

CATALOGUE = new_catalogue()
WORKFLOW = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Workflow",
    "metadata": {"name": "flow", "namespace": "team", "uid": "u-1"},
}
SETTINGS = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n"
ELSEWHERE = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: other}\n"


def order(manifest: str, **resource: Any) -> ResourceRequest:
    return read_resource_request({"resource": resource}, manifest, WORKFLOW, CATALOGUE)


def test_an_object_belongs_to_the_namespace_of_the_workflow() -> None:
    found = order(SETTINGS, action="create")
    assert found.targets == (Target(CONFIG_MAP, "team", "settings"),)
    assert found.object == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "team"},
    }


@pytest.mark.parametrize(
    ("manifest", "flags", "namespace"),
    [(ELSEWHERE, [], "other"), (SETTINGS, ["-n", "third"], "third"), (ELSEWHERE, ["-n", "other"], "other")],
)
def test_or_to_another_one_if_it_says_so(manifest: str, flags: list[str], namespace: str) -> None:
    assert order(manifest, action="get", flags=flags).targets[0].namespace == namespace


def test_an_owner_reference_is_added_to_those_that_are_there() -> None:
    manifest = SETTINGS.replace("name: settings", "name: settings, ownerReferences: [{uid: other}]")
    found = order(manifest, action="create", setOwnerReference=True)
    assert found.object is not None
    assert [ref["uid"] for ref in found.object["metadata"]["ownerReferences"]] == ["other", "u-1"]


@pytest.mark.parametrize(
    ("flags", "targets"),
    [
        (["pod", "a"], [Target(POD, "team", "a")]),
        (["pod", "a", "b"], [Target(POD, "team", "a"), Target(POD, "team", "b")]),
        (["po/a", "cm/b"], [Target(POD, "team", "a"), Target(CONFIG_MAP, "team", "b")]),
        (["configmap", "--selector", "x=y"], [Target(CONFIG_MAP, "team", "")]),
        (["configmap", "--all"], [Target(CONFIG_MAP, "team", "")]),
    ],
)
def test_what_is_deleted_may_be_named_by_flags(flags: list[str], targets: list[Target]) -> None:
    assert list(order("", action="delete", flags=flags).targets) == targets


def test_several_documents_are_deleted_together() -> None:
    found = order(f"{SETTINGS}---\n{ELSEWHERE}", action="delete")
    assert [target.namespace for target in found.targets] == ["team", "other"]


@pytest.mark.parametrize(
    ("manifest", "resource", "type_", "body"),
    [
        (
            "- {op: add, path: /a, value: 1}",
            {"mergeStrategy": "json"},
            "json",
            [{"op": "add", "path": "/a", "value": 1}],
        ),
        ("data: {a: b}", {"mergeStrategy": "merge"}, "merge", {"data": {"a": "b"}}),
        ("data: {a: b}", {}, "strategic", {"data": {"a": "b"}}),
    ],
)
def test_a_patch_may_be_for_what_the_flags_name(manifest: str, resource: dict[str, Any], type_: str, body: Any) -> None:
    found = order(manifest, action="patch", flags=["cm", "settings"], **resource)
    assert (found.targets, found.patch_type, found.patch) == ((Target(CONFIG_MAP, "team", "settings"),), type_, body)


def test_or_for_what_its_manifest_names() -> None:
    found = order(SETTINGS + "data: {a: b}", action="patch")
    assert found.targets == (Target(CONFIG_MAP, "team", "settings"),)
    assert found.patch["data"] == {"a": "b"}


def test_unknown_fields_are_left_out_where_nobody_shall_validate() -> None:
    found = order(SETTINGS + "dta: {a: b}", action="create", flags=["--validate=false"])
    assert found.object is not None
    assert "dta" not in found.object


@pytest.mark.parametrize(
    ("manifest", "resource", "message"),
    [
        (SETTINGS, {"action": "make"}, 'resource.action: "make" is not an action; use one of get, create'),
        ("", {"action": "create"}, "Must provide at least one of flags or manifest."),
        ("kind: ConfigMap", {"action": "create"}, "resource.manifest: apiVersion is required"),
        ("apiVersion: v1", {"action": "create"}, "resource.manifest: kind is required"),
        ("just text", {"action": "create"}, "resource.manifest is not an object"),
        ("a: [1", {"action": "create"}, "resource.manifest:2:1: "),
        (
            "apiVersion: v1\nkind: ConfigMp\nmetadata: {name: a}",
            {"action": "create"},
            'resource.manifest: this cluster has no kind "ConfigMp" ("v1"); did you mean "ConfigMap"?',
        ),
        (
            "apiVersion: v1\nkind: ConfigMap",
            {"action": "create"},
            "Kind and name are both required but at least one of them is missing from the manifest",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}",
            {"action": "apply"},
            "Kind and name are both required but at least one of them is missing from the manifest",
        ),
        (f"{SETTINGS}---\n{ELSEWHERE}", {"action": "create"}, "resource.manifest has 2 documents; create expects"),
        (
            SETTINGS,
            {"action": "delete", "successCondition": "a == b"},
            "successCondition, failureCondition and outputs are not supported for delete action",
        ),
        (ELSEWHERE, {"action": "get", "flags": ["-n", "third"]}, 'the namespace from the provided object "other"'),
        (ELSEWHERE, {"action": "create", "setOwnerReference": True}, "resource.setOwnerReference: configmap/"),
        ("", {"action": "delete", "flags": ["cm"]}, 'resource.flags: "cm" must be followed by a name or a --selector'),
        ("", {"action": "delete", "flags": ["cmm", "x"]}, "resource.flags: the server doesn't have a resource type"),
        ("", {"action": "create", "flags": ["cm", "x"]}, "resource.manifest is required for create"),
        (SETTINGS, {"action": "get", "flags": ["cm", "x"]}, 'resource.flags: "cm x" names an object, and'),
        ("a: b", {"action": "patch", "mergeStrategy": "json", "flags": ["cm", "x"]}, "resource.manifest must be a"),
        ("- {op: add}", {"action": "patch", "mergeStrategy": "json"}, "resource.flags: a JSON patch does not name"),
        ("a: b", {"action": "patch", "mergeStrategy": "odd"}, 'resource.mergeStrategy: "odd" is not a merge strategy;'),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_before_anything_is_done(manifest: str, resource: dict[str, Any], message: str) -> None:
    with pytest.raises(ResourceError) as raised:
        order(manifest, **resource)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    ("action", "flags", "expected"),
    [
        ("delete", [], Flags()),
        ("delete", ["configmap", "--selector", "a=b"], Flags(words=("configmap",), selector="a=b")),
        ("delete", ["configmap", "-l", "a=b"], Flags(words=("configmap",), selector="a=b")),
        ("delete", ["configmap", "-la=b"], Flags(words=("configmap",), selector="a=b")),
        ("patch", ["pod", "web"], Flags(words=("pod", "web"))),
        ("get", ["--namespace=other", "--ignore-not-found"], Flags(namespace="other", ignore_not_found=True)),
        ("get", ["-n", "other", "--ignore-not-found=false"], Flags(namespace="other")),
        ("delete", ["--wait=false", "--cascade=orphan"], Flags(wait=False, propagation="Orphan")),
        ("delete", ["--grace-period", "0", "--force"], Flags(grace_seconds=0, force=True)),
        ("delete", ["--now"], Flags(grace_seconds=1)),
        ("create", ["--validate=false"], Flags(strict=False)),
        ("create", ["--dry-run=server", "--save-config", "--record"], Flags(dry_run=True)),
        ("apply", ["--force-conflicts", "--server-side"], Flags(server_side=True, force_conflicts=True)),
        ("apply", ["--server-side", "--field-manager=me"], Flags(server_side=True, field_manager="me")),
    ],
)
def test_flags_that_mean_something(action: str, flags: list[str], expected: Flags) -> None:
    assert parse_flags(action, flags) == expected


@pytest.mark.parametrize(
    ("action", "flags", "message"),
    [
        ("create", ["--kubeconfig=x"], 'resource.flags[0]: "--kubeconfig=x" is not supported'),
        ("create", ["pod", "-f", "x"], 'resource.flags[1]: "-f" is not supported'),
        ("create", ["--selector=x"], 'resource.flags[0]: "--selector=x" can be used with get and delete, not'),
        ("delete", ["--wait=maybe"], 'resource.flags[0]: "--wait=maybe": one of true, false'),
        ("delete", ["--cascade=all"], 'resource.flags[0]: "--cascade=all": one of background, foreground, orphan'),
        ("delete", ["--grace-period=soon"], 'resource.flags[0]: "--grace-period=soon": a number of seconds'),
        ("get", ["-n"], 'resource.flags[0]: "-n" needs a value'),
    ],
)
def test_others_are_refused_by_name(action: str, flags: list[str], message: str) -> None:
    with pytest.raises(ResourceError) as raised:
        parse_flags(action, flags)
    assert str(raised.value).startswith(message)
