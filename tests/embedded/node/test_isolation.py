from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster.embedded.node.isolation import probe_isolation


def test_what_is_found_works_and_is_explained() -> None:
    isolation, explanation = probe_isolation()
    assert isolation in ("namespaces", "user-namespaces", "none")
    assert (isolation == "namespaces") <= (os.geteuid() == 0)
    assert ("for each Pod" in explanation) is (isolation != "none")


def test_an_obstacle_to_isolation_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'Operation not permitted'; exit 1\n")
    broken.chmod(0o755)
    isolation, explanation = probe_isolation(str(broken))
    assert isolation == "none"
    assert explanation.startswith("Pods share this machine's /tmp, processes and host name, and cannot have volumes: ")
    assert "operation not permitted" in explanation


@pytest.mark.skipif(os.getuid() != 0, reason="only root needs no user namespace")
def test_root_falls_back_to_a_user_namespace(tmp_path: Path) -> None:
    partial = tmp_path / "python"
    partial.write_text('#!/bin/sh\nfor last; do :; done\n[ "$last" = user-namespaces ] || { echo No; exit 1; }\n')
    partial.chmod(0o755)
    isolation, explanation = probe_isolation(str(partial))
    assert isolation == "user-namespaces"
    assert "in a user namespace (as root: no)" in explanation
