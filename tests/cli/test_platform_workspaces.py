"""`muster notebooks` and `muster tensorboards` against a complete Muster, as users run it."""

from __future__ import annotations

import json

from tests.cli.commands import Muster


def test_notebooks_and_tensorboards_from_the_command_line(cluster: Muster) -> None:
    assert "pytorch" in cluster("notebooks", "images").ok().out
    # An image that stands for no environment: nothing is installed for this test.
    words = ["--image", "busybox:1", "--cpu", "100m", "--memory", "64Mi", "--env", "A=b", "--no-wait"]
    created = cluster("notebooks", "create", "cli-nb", *words).ok().out
    assert created == "notebook default/cli-nb created\n"
    (found,) = json.loads(cluster("notebooks", "list", "-q", "cli-nb", "--json").ok().out)
    assert (found["image"], found["home"], found["resources"]["cpu"]) == ("busybox:1", "cli-nb-home", "100m")
    assert cluster("notebooks", "stop", "cli-nb").ok().out == "notebook default/cli-nb stopped\n"
    missing = cluster("notebooks", "open", "cli-other")
    assert missing.code == 1 and 'there is no notebook "cli-other"' in missing.err

    wrong = cluster("tensorboards", "create", "ftp://host/logs")
    assert wrong.code == 1 and "logs[0].path" in wrong.err
    deleted = cluster("notebooks", "delete", "cli-nb").ok().out
    assert deleted == "notebook default/cli-nb deleted; its files stay in the volume cli-nb-home\n"
