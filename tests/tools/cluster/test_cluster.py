from __future__ import annotations

import pytest

from tools.cluster.cluster import PARTS, USUAL, ClusterError, chosen


@pytest.mark.parametrize(
    ("asked", "started"),
    [
        ([], ["control-plane"]),
        (["kwok"], ["control-plane", "kwok"]),
        (["volcano", "kwok"], ["control-plane", "kwok", "volcano"]),
        (["argo"], ["control-plane", "node", "argo"]),
        (["kueue", "scheduler-plugins"], ["control-plane", "scheduler-plugins", "kueue"]),
        (["argo-3.7"], ["control-plane", "node", "argo-3.7"]),
        (["network-policy"], ["control-plane", "node", "network-policy"]),
        (list(USUAL), list(USUAL)),
    ],
)
def test_parts_bring_what_they_need_and_start_in_order(asked: list[str], started: list[str]) -> None:
    assert chosen(asked) == started


def test_a_part_that_does_not_exist() -> None:
    with pytest.raises(ClusterError, match='no part "yunikorn"; there are: control-plane, kwok, node'):
        chosen(["yunikorn"])


@pytest.mark.parametrize("both", [["argo", "argo-3.7"], ["argo-3.7", "s3", "argo"]])
def test_two_versions_of_a_part_do_not_run_at_the_same_time(both: list[str]) -> None:
    with pytest.raises(ClusterError, match=r"are versions of the same part: choose one"):
        chosen(both)


def test_every_component_has_one_place() -> None:
    names = [name for part in PARTS.values() for name in part.components]
    assert len(names) == len(set(names))
