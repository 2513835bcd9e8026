"""Two parameter servers and four workers with a GPU each, on a machine with one GPU: without a gang and as a gang."""

from __future__ import annotations

import re

from tests.cli.commands import Muster

JOB = "examples/gang/tf_job_mnist.yaml"
SETTINGS = """\
node:
  capacity: {nvidia.com/gpu: 1}
images:
  "kubeflow/tf-dist-mnist-test*":
    command: [sleep, "300"]
"""


def phases(muster: Muster) -> dict[str, str]:
    rows = muster("get", "pods", "--no-headers").ok().out.splitlines()
    return {row.split()[0].removeprefix("dist-mnist-for-e2e-test-"): row.split()[2] for row in rows}


def test_without_a_gang_one_worker_holds_the_gpu_and_the_others_wait(muster: Muster) -> None:
    (muster.home / "config.yaml").write_text(SETTINGS)
    muster("up", "-d").ok()
    muster("apply", "-f", JOB).ok()
    muster("wait", "--for=condition=Running", "tfjob/dist-mnist-for-e2e-test", "--timeout=60s").ok()
    for pod in ("ps-0", "ps-1", "worker-0"):
        muster("wait", "--for=condition=Ready", f"pod/dist-mnist-for-e2e-test-{pod}", "--timeout=60s").ok()
    assert phases(muster) == {
        "ps-0": "Running",
        "ps-1": "Running",
        "worker-0": "Running",
        "worker-1": "Pending",
        "worker-2": "Pending",
        "worker-3": "Pending",
    }
    described = muster("describe", "pod", "dist-mnist-for-e2e-test-worker-3").ok().out
    assert re.search(
        r"Warning +FailedScheduling .* default-scheduler +"
        r"0/1 nodes are available: 1 Insufficient nvidia\.com/gpu\.",
        described,
    ), described


def test_as_a_gang_no_pod_starts_until_there_is_room_for_all(muster: Muster) -> None:
    (muster.home / "config.yaml").write_text(SETTINGS)
    muster("up", "-d", "--gang").ok()
    muster("apply", "-f", JOB).ok()
    muster("wait", "--for=jsonpath={.status.phase}=Pending", "podgroup/dist-mnist-for-e2e-test", "--timeout=60s").ok()
    header, row = muster("get", "podgroups").ok().out.splitlines()
    assert header.split() == ["NAME", "STATUS", "MINMEMBER", "RUNNINGS", "AGE"]
    assert re.fullmatch(r"dist-mnist-for-e2e-test   Pending   6 {22}\d+s", row), row
    assert phases(muster) == {}
    described = muster("describe", "tfjob", "dist-mnist-for-e2e-test").ok().out
    assert "minResources not met: nvidia.com/gpu: 4 asked, 1 free" in described, described


def test_an_unmapped_image_says_what_to_write(muster: Muster) -> None:
    muster("up", "-d").ok()
    muster("apply", "-f", JOB).ok()
    pod = "dist-mnist-for-e2e-test-ps-0"
    said = "{.status.containerStatuses[0].state.waiting.reason}"
    muster("wait", f"--for=jsonpath={said}=ImageNeedsCommand", f"pod/{pod}", "--timeout=60s")
    described = muster("describe", "pod", pod).ok().out
    assert '"kubeflow/tf-dist-mnist-test*":' in described, described
    assert "command:" in described
