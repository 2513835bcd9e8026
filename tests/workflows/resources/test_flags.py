from __future__ import annotations

import pytest

from muster.workflows.resources.errors import ResourceError
from muster.workflows.resources.flags import Flags, parse_flags


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
        ("create", ["--kubeconfig=x"], 'resource.flags[0]: "--kubeconfig=x" has no meaning here'),
        ("create", ["pod", "-f", "x"], 'resource.flags[1]: "-f" has no meaning here'),
        ("create", ["--selector=x"], 'resource.flags[0]: "--selector=x" goes with get and delete, not with create'),
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
