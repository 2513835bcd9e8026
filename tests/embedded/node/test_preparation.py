from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import orjson
import pytest

from muster.embedded.node.images import hidden_folders, required_folders
from muster.embedded.node.pod_context import ConfigError, ContainerError, ImageNeedsCommand, MountError, PodContext
from muster.embedded.node.preparation import NodeContext, PodPaths, Prepared, prepare, write_pod_file
from muster.embedded.node.supervisor.contract import Isolation, PreparedContainer
from muster.embedded.settings import AgentSettings, ApiAccess, ImageSettings
from muster.kube.defaults import API_ACCESS_FOLDER
from muster.kube.objects import Object


def pod(*containers: dict[str, Any], **spec: Any) -> Object:
    mains = [{"name": "main", "image": "img", "command": ["true"], **c} for c in containers or ({},)]
    return {"metadata": {"name": "p", "namespace": "team", "uid": "u-1"}, "spec": {"containers": mains, **spec}}


class Bench:
    """Prepares Pods in a folder of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.layout = PodPaths(str(root / "pod"), str(root / "logs"), str(root / "hosts"), str(root / "agent.sock"))

    def prepare(
        self, pod: Object, around: PodContext | None = None, isolation: Isolation = "namespaces", **more: Any
    ) -> Prepared:
        images = {"mapped*": ImageSettings(rootfs="/srv/root", command=("/entry",))}
        settings = AgentSettings(home=self.root, images=images)
        here = NodeContext(settings, isolation, {"PATH": "/usr/bin", "HOME": "/h"})
        return prepare(pod, around or PodContext(pod_ip="127.1.0.1"), self.layout, here, **more)

    def container(self, pod: Object, **more: Any) -> PreparedContainer:
        return self.prepare(pod, **more).pod["containers"][-1]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def targets(container: PreparedContainer) -> dict[str, str]:
    return {m["target"]: m["source"] for m in container["mounts"] if m["type"] == "bind"}


def test_a_plain_pod(bench: Bench) -> None:
    prepared = bench.prepare(pod(terminationGracePeriodSeconds=0, restartPolicy="Never"), deadline=99.0)
    found = prepared.pod
    assert (found["uid"], found["namespace"], found["name"], found["hostname"]) == ("u-1", "team", "p", "p")
    assert (found["address"], found["grace"], found["restartPolicy"]) == ("127.1.0.1", 0.0, "Never")
    assert (found["deadline"], found["isolation"]) == (99.0, "namespaces")
    assert found["mounts"] == []
    main = found["containers"][0]
    assert (main["argv"], main["cwd"], main["rootfs"], main["role"]) == (["true"], "/tmp", "", "main")
    assert main["env"] == {"PATH": "/usr/bin", "HOME": "/h", "HOSTNAME": "p"}
    own = {"/tmp", "/etc/hosts", "/etc/hostname", "/dev/termination-log"}
    assert set(targets(main)) == own | set(hidden_folders(required_folders(ImageSettings(), {}), ("/tmp",)))
    assert {"type": "tmpfs", "target": "/dev/shm"} in main["mounts"]
    assert stat.S_IMODE(os.stat(targets(main)["/tmp"]).st_mode) == 0o1777
    assert main["logDir"] == f"{bench.layout.logs}/main"
    assert not os.path.exists(bench.layout.logs)
    assert prepared.notes == {"main": 'Running "img" in the environment of this machine (no image is pulled)'}
    assert prepared.ignored == ()
    assert stat.S_IMODE(os.stat(bench.layout.folder).st_mode) == 0o700


def test_a_container_sees_of_the_home_only_what_it_runs_from(bench: Bench, tmp_path: Path) -> None:
    """Unless it is in /tmp, where every container has its own folder anyway."""
    home = Path("/srv/box")
    shims = tmp_path / "shims"
    shims.mkdir()
    images = {"img": ImageSettings(path=(f"{shims}/bin",))}
    here = NodeContext(AgentSettings(home=home, images=images), "namespaces", {"PATH": "/usr/bin"})
    (main,) = prepare(pod(), PodContext(pod_ip="127.1.0.1"), bench.layout, here).pod["containers"]
    kinds = {mount["target"]: mount["type"] for mount in main["mounts"]}
    assert kinds["/srv/box"] == "tmpfs"
    assert kinds[str(shims)] == "own"
    order = [mount["target"] for mount in main["mounts"]]
    assert order.index("/tmp") < order.index(str(shims))
    inside = bench.container(pod())
    assert str(bench.root) not in [mount["target"] for mount in inside["mounts"]]
    other_root = prepare(
        pod({"image": "mapped", "command": ["x"]}),
        PodContext(pod_ip="127.1.0.1"),
        bench.layout,
        NodeContext(AgentSettings(home=home, images={"mapped": ImageSettings(rootfs="/srv/root")}), "namespaces", {}),
    ).pod["containers"][0]
    assert "/srv/box" not in [mount["target"] for mount in other_root["mounts"]]


def test_again_is_harmless(bench: Bench) -> None:
    volumes = [{"name": "v", "emptyDir": {}}]
    assert bench.prepare(pod(volumes=volumes)).pod == bench.prepare(pod(volumes=volumes)).pod


def test_containers_come_in_the_order_in_which_they_start(bench: Bench) -> None:
    inits = [
        {"name": "i", "image": "x", "command": ["a"]},
        {"name": "s", "image": "x", "command": ["b"], "restartPolicy": "Always"},
    ]
    found = bench.prepare(pod({"name": "m"}, {"name": "n"}, initContainers=inits)).pod
    assert found["mounts"] == [{"type": "tmpfs", "target": "/dev/shm"}]
    assert [(c["name"], c["role"]) for c in found["containers"]] == [
        ("i", "init"),
        ("s", "sidecar"),
        ("m", "main"),
        ("n", "main"),
    ]


def test_of_one_main_container_the_log_is_meant(bench: Bench) -> None:
    found = bench.prepare(pod({"name": "m"}, initContainers=[{"name": "i", "image": "x", "command": ["a"]}])).pod
    assert found["logLinks"] == {".default": "m"}
    assert bench.prepare(pod({"name": "m"})).pod["logLinks"] == {}


def test_the_logs_know_the_owner_of_the_pod(bench: Bench) -> None:
    owned = pod({"name": "m"})
    owner = {"apiVersion": "v1", "kind": "Workflow", "name": "w", "uid": "u", "controller": True}
    found = bench.prepare({**owned, "metadata": {**owned["metadata"], "ownerReferences": [owner]}}).pod
    assert found["logLinks"] == {".owner": "Workflow@u"}


def test_limits_user_and_termination(bench: Bench) -> None:
    main = bench.container(
        pod(
            {
                "resources": {"limits": {"memory": "1Mi", "cpu": "1500m"}},
                "securityContext": {"runAsUser": 7},
                "terminationMessagePath": "/why",
                "terminationMessagePolicy": "FallbackToLogsOnError",
            },
            securityContext={"runAsUser": 1, "runAsGroup": 2, "fsGroup": 3, "supplementalGroups": [4]},
        )
    )
    assert (main["memoryLimit"], main["cpuLimit"]) == (1048576, 1.5)
    assert (main["uid"], main["gid"], main["groups"]) == (7, 2, [4, 3])
    assert targets(main)["/why"] == main["terminationMessageFile"]
    assert main["terminationMessageFromLogs"] is True


def test_what_the_user_mounts_comes_after_what_every_container_has(bench: Bench) -> None:
    main = bench.container(
        pod({"volumeMounts": [{"name": "v", "mountPath": "/tmp"}]}, volumes=[{"name": "v", "emptyDir": {}}])
    )
    assert [m["target"] for m in main["mounts"]].count("/tmp") == 2
    assert targets(main)["/tmp"].endswith("/volumes/v")


def test_memory_volumes_belong_to_the_pod(bench: Bench) -> None:
    volume = {"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Ki"}}
    found = bench.prepare(pod({"volumeMounts": [{"name": "m", "mountPath": "/m"}]}, volumes=[volume])).pod
    path = f"{bench.layout.folder}/volumes/m"
    assert {"type": "tmpfs", "target": path, "size": 1024} in found["mounts"]
    assert targets(found["containers"][0])["/m"] == path


@pytest.mark.parametrize(
    ("container", "cwd", "made"),
    [
        ({}, "/tmp", False),
        ({"workingDir": "/usr"}, "/usr", False),
        ({"workingDir": "/tmp"}, "/tmp", False),
        ({"workingDir": "/tmp/sub"}, "/tmp/sub", False),
        ({"workingDir": "/no/such/folder"}, "/no/such/folder", True),
        ({"workingDir": "/data/x", "volumeMounts": [{"name": "v", "mountPath": "/data"}]}, "/data/x", False),
    ],
)
def test_the_working_folder_exists(bench: Bench, container: dict[str, Any], cwd: str, made: bool) -> None:
    main = bench.container(pod(container, volumes=[{"name": "v", "emptyDir": {}}]))
    assert main["cwd"] == cwd
    assert any(source.endswith("/work-main") for source in targets(main).values()) == made


def test_a_mapped_root_file_system(bench: Bench) -> None:
    prepared = bench.prepare(pod({"image": "mapped:1", "command": None}))
    main = prepared.pod["containers"][0]
    assert (main["rootfs"], main["argv"], main["cwd"]) == ("/srv/root", ["/entry"], "/")
    assert "root file system" in prepared.notes["main"]


def test_devices_and_variables_reach_the_command(bench: Bench) -> None:
    main = bench.container(
        pod({"command": ["echo", "$(CUDA_VISIBLE_DEVICES)", "$(A)"], "env": [{"name": "A", "value": "1"}]}),
        devices={"main": {"CUDA_VISIBLE_DEVICES": "2"}},
    )
    assert main["argv"] == ["echo", "2", "1"]


def test_the_service_account_folder(bench: Bench) -> None:
    api = ApiAccess("127.0.0.1", 1, "CA", lambda _pod, _audience, _seconds: "T")
    main = bench.container(pod(), around=PodContext(api=api))
    assert Path(targets(main)[API_ACCESS_FOLDER], "token").read_text() == "T"
    own = {"name": "own", "emptyDir": {}}
    taken = pod({"volumeMounts": [{"name": "own", "mountPath": API_ACCESS_FOLDER}]}, volumes=[own])
    assert targets(bench.container(taken, around=PodContext(api=api)))[API_ACCESS_FOLDER].endswith("/own")


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        (pod({"command": None}), ImageNeedsCommand),
        (pod({"envFrom": [{"secretRef": {"name": "s"}}]}), ConfigError),
        (pod(volumes=[{"name": "v", "secret": {"secretName": "s"}}]), MountError),
        (pod({"livenessProbe": {"tcpSocket": {"port": "x"}}}), ContainerError),
        (pod({"securityContext": {"runAsNonRoot": True, "runAsUser": 0}}), ConfigError),
    ],
)
def test_what_is_missing_is_said_before_anything_starts(bench: Bench, broken: Object, error: type[Exception]) -> None:
    with pytest.raises(error):
        bench.prepare(broken)


def test_without_mounts_a_volume_is_refused_unless_it_is_where_it_is(bench: Bench) -> None:
    here = [{"name": "v", "hostPath": {"path": "/usr"}}]
    main = bench.container(pod({"volumeMounts": [{"name": "v", "mountPath": "/usr"}]}, volumes=here), isolation="none")
    assert main["mounts"] == []
    with pytest.raises(ContainerError, match="cannot mount anything at /data"):
        bench.prepare(pod({"volumeMounts": [{"name": "v", "mountPath": "/data"}]}, volumes=here), isolation="none")


def test_the_pods_file_holds_any_bytes(tmp_path: Path) -> None:
    write_pod_file(str(tmp_path), {"uid": "u", "hostname": "h"})
    assert orjson.loads((tmp_path / "pod.json").read_bytes()) == {"uid": "u", "hostname": "h"}
    odd = b"\xff".decode("utf-8", "surrogateescape")
    write_pod_file(str(tmp_path), {"containers": [{"env": {"A": odd}}]})
    assert json.loads((tmp_path / "pod.json").read_text())["containers"][0]["env"]["A"] == odd
    assert not (tmp_path / "pod.json.new").exists()
