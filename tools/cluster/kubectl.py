"""The cluster's own kubectl, run inside its network as its administrator."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tools.cluster import network
from tools.cluster.build import program
from tools.cluster.layout import Layout
from tools.cluster.sources import KUBERNETES


class KubectlFailed(RuntimeError):
    """With kubectl's output."""


def kubectl(layout: Layout, *arguments: str, given: str = "", seconds: float = 120.0) -> str:
    """Returns its output. `given` is its input."""
    command = [str(program(KUBERNETES, "kubectl")), f"--kubeconfig={layout.kubeconfig}", *arguments]
    ran = subprocess.run(
        network.inside(layout, command), input=given, capture_output=True, text=True, timeout=seconds, cwd="/"
    )  # fmt: skip
    if ran.returncode:
        raise KubectlFailed(f"kubectl {' '.join(arguments)}: {ran.stderr.strip()}")
    return ran.stdout


def succeeds(layout: Layout, *arguments: str) -> bool:
    try:
        kubectl(layout, *arguments)
    except KubectlFailed:
        return False
    return True


def apply(layout: Layout, objects: Sequence[Mapping[str, Any]]) -> None:
    """Uses server-side apply: some CRDs are too long for kubectl's last-applied annotation."""
    listing = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    kubectl(layout, "apply", "--server-side", "--force-conflicts", "-f", "-", given=json.dumps(listing))


def apply_definitions(layout: Layout, *folders: str) -> None:
    """Applies CustomResourceDefinitions, and waits until the server serves them."""
    files = [argument for folder in folders for argument in ("-f", folder)]
    names = kubectl(layout, "apply", "--server-side", "--force-conflicts", "-o", "name", *files).split()
    wait_until_established(layout, *names)


def wait_until_established(layout: Layout, *definitions: str, seconds: float = 60.0) -> None:
    """kubectl fails at once for a CRD that has no conditions yet, so retry."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            kubectl(layout, "wait", "--for=condition=Established", f"--timeout={seconds:.0f}s", *definitions)
            return
        except KubectlFailed as error:
            if "accessor error" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.2)
