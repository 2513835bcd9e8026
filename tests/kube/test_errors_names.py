from __future__ import annotations

from collections.abc import Callable

import pytest

from muster.kube import errors


@pytest.mark.parametrize(
    ("is_one", "good", "bad"),
    [
        (
            errors.is_dns_label,
            ["a", "0", "a-b", "a" * 63],
            ["", "A", "-a", "a-", "a.b", "a_b", "a" * 64, "a\n"],
        ),
        (errors.is_dns_name, ["a", "a.b", "a-1.b-2", "x" * 253], ["", ".a", "a..b", "a.", "A.b", "x" * 254]),
        (
            errors.is_qualified_name,
            ["app", "App_1", "nvidia.com/gpu", "a.b/C.d-e"],
            ["", "/a", "a/", "A.b/c", "a b", "-a", "x" * 64, "a/b/c"],
        ),
        (errors.is_label_value, ["", "v1", "A_b.c-d", "x" * 63], ["-a", "a-", "a b", "é", "x" * 64]),
        (errors.is_port_name, ["http", "8080-tcp", "a"], ["", "8080", "a--b", "-a", "HTTP", "x" * 16]),
        (errors.is_env_name, ["PATH", "a.b-c", "1A", "with space"], ["", "A=B", "é", "a\tb"]),
        (
            errors.is_file_key,
            ["tls.crt", ".dockerconfigjson", "a_B-1"],
            ["", ".", "..", "..a", "a/b", "a b", "x" * 254],
        ),
    ],
)
def test_syntax(is_one: Callable[[str], bool], good: list[str], bad: list[str]) -> None:
    assert [name for name in good if not is_one(name)] == []
    assert [name for name in bad if is_one(name)] == []


def test_labels_name_the_one_at_fault() -> None:
    causes = list(errors.check_labels("metadata.labels", {"ok": "fine", "-bad": "x", "app": "no spaces"}))
    assert [cause.field for cause in causes] == ["metadata.labels", "metadata.labels[app]"]
