from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster.kube.builtin import JOB
from muster.kube.schema_validation import validate
from muster.platform.modules.build_process import BuildFailed
from muster.platform.modules.cluster_builds import BuildSource, build_job, read_result, target_image
from muster.platform.settings import ModuleSettings

SETTINGS = ModuleSettings(registry="registry.example/ml/", registry_secret="push", builder_image="buildah:1")
SOURCE = BuildSource("v1", "localhost/muster-modules/hash-1:2", Path("/checkout"), "docker/Dockerfile", "src")
DIGEST = f"sha256:{'a' * 64}"


def pod_of(job: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = job["spec"]["template"]["spec"]
    return pod


def test_a_job_is_valid_and_has_no_rights_on_the_cluster() -> None:
    job = build_job(SOURCE, SETTINGS)
    assert validate(job, JOB.schema) == []
    pod = pod_of(job)
    assert pod["automountServiceAccountToken"] is False
    for container in (*pod["initContainers"], *pod["containers"]):
        assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
        assert "privileged" not in container["securityContext"]


def test_the_dockerfile_runs_where_the_registry_s_password_is_not() -> None:
    (build,), (push,) = (
        pod_of(build_job(SOURCE, SETTINGS))["initContainers"],
        pod_of(build_job(SOURCE, SETTINGS))["containers"],
    )
    assert {mount["name"] for mount in build["volumeMounts"]} == {"space", "source", "result"}
    assert {mount["name"] for mount in push["volumeMounts"]} == {"push-space", "result", "registry"}
    result = next(mount for mount in push["volumeMounts"] if mount["name"] == "result")
    assert result["readOnly"] is True


def test_paths_are_values_and_never_part_of_a_script() -> None:
    source = BuildSource("v1", "localhost/x:1", Path("/checkout"), "$(reboot)/Dockerfile", "`reboot`")
    (build,) = pod_of(build_job(source, SETTINGS))["initContainers"]
    assert "reboot" not in " ".join(build["command"])


@pytest.mark.parametrize(
    ("registry", "image"),
    [
        ("registry.example", "registry.example/muster-modules/hash-1:2"),
        ("r:5000/a/", "r:5000/a/muster-modules/hash-1:2"),
    ],
)
def test_the_name_on_the_registry(registry: str, image: str) -> None:
    assert target_image(SOURCE.image, ModuleSettings(registry=registry)) == image


def ended(message: str, exit_code: int = 0) -> dict[str, Any]:
    state = {"terminated": {"exitCode": exit_code, "message": message}}
    phase = "Failed" if exit_code else "Succeeded"
    return {"status": {"phase": phase, "containerStatuses": [{"name": "push", "state": state}]}}


def test_the_image_is_pinned_by_its_digest() -> None:
    pushed = read_result(ended(f"{DIGEST} 123"), "r:5000/ml/hash-1:2")
    assert pushed == (f"r:5000/ml/hash-1@{DIGEST}", 123)


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        (ended("too large", 1), 'container "push" exited with code 1'),
        (ended("latest 1"), "without an image"),
        ({"status": {"phase": "Failed", "reason": "Evicted", "message": "no disk"}}, "Evicted: no disk"),
    ],
)
def test_a_pod_without_an_image_says_why(pod: dict[str, Any], message: str) -> None:
    with pytest.raises(BuildFailed, match=message):
        read_result(pod, "r/x:1")
