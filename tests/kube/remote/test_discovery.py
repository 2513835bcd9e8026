from __future__ import annotations

from muster.kube.kinds import Kind
from muster.kube.remote.client import kinds_in_aggregate, kinds_in_list


def summary(kind: Kind) -> tuple[str, str, bool, tuple[str, ...], bool, bool]:
    return kind.api_version, kind.plural, kind.namespaced, kind.short_names, kind.has_status, kind.scale is not None


JOBS = ("batch/v1", "jobs", True, ("jb",), True, False)
NODES = ("v1", "nodes", False, (), False, True)


def test_kinds_from_everything_at_once() -> None:
    told = {
        "items": [
            {
                "metadata": {"name": "batch"},
                "versions": [
                    {
                        "version": "v1",
                        "resources": [
                            {
                                "resource": "jobs",
                                "responseKind": {"group": "batch", "version": "v1", "kind": "Job"},
                                "scope": "Namespaced",
                                "shortNames": ["jb"],
                                "verbs": ["get", "list"],
                                "subresources": [{"subresource": "status", "responseKind": {}, "verbs": ["get"]}],
                            },
                            {
                                "resource": "reviews",
                                "responseKind": {"kind": "Review"},
                                "scope": "Cluster",
                                "verbs": ["create"],
                            },
                        ],
                    }
                ],
            },
            {
                "metadata": {},
                "versions": [
                    {
                        "version": "v1",
                        "resources": [
                            {
                                "resource": "nodes",
                                "responseKind": {"kind": "Node"},
                                "scope": "Cluster",
                                "verbs": ["list"],
                                "subresources": [{"subresource": "scale"}],
                            }
                        ],
                    }
                ],
            },
        ]
    }
    assert [summary(kind) for kind in kinds_in_aggregate(told)] == [JOBS, NODES]


def test_kinds_from_the_list_of_one_version() -> None:
    jobs = {
        "groupVersion": "batch/v1",
        "resources": [
            {"name": "jobs", "kind": "Job", "namespaced": True, "shortNames": ["jb"], "verbs": ["list"]},
            {"name": "jobs/status", "kind": "Job", "namespaced": True, "verbs": ["get"]},
            {"name": "reviews", "kind": "Review", "namespaced": False, "verbs": ["create"]},
        ],
    }
    nodes = {
        "groupVersion": "v1",
        "resources": [
            {"name": "nodes", "kind": "Node", "namespaced": False, "verbs": ["list"]},
            {"name": "nodes/scale", "kind": "Scale", "namespaced": False, "verbs": ["get"]},
        ],
    }
    assert [summary(k) for k in kinds_in_list(jobs)] == [JOBS]
    assert [summary(k) for k in kinds_in_list(nodes)] == [NODES]
