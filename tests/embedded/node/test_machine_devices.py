from __future__ import annotations

from typing import Any

from muster.embedded.node.machine import AMD, NVIDIA, DeviceAllocator


def container(name: str, gpus: int | None = None, resource: str = NVIDIA) -> dict[str, Any]:
    limits = {resource: str(gpus)} if gpus is not None else {}
    return {"name": name, "resources": {"limits": limits}}


def seen(variables: dict[str, dict[str, str]]) -> dict[str, str]:
    return {name: env["CUDA_VISIBLE_DEVICES"] for name, env in variables.items()}


def test_every_container_gets_its_own_and_the_others_see_none() -> None:
    devices = DeviceAllocator({NVIDIA: ["0", "1", "2", "3"]})
    assert seen(devices.allocate("a", [container("x", 2), container("y", 1), container("z")])) == {
        "x": "0,1", "y": "2", "z": "",
    }  # fmt: skip
    assert seen(devices.allocate("b", [container("x", 1)])) == {"x": "3"}
    devices.release("a")
    assert seen(devices.allocate("c", [container("x", 3)])) == {"x": "0,1,2"}


def test_init_containers_share_with_those_that_follow() -> None:
    devices = DeviceAllocator({NVIDIA: ["0", "1"]})
    assert seen(devices.allocate("a", [container("main", 1)], [container("init", 2)])) == {"main": "0", "init": "0,1"}
    assert seen(devices.allocate("b", [container("main", 1)])) == {"main": ""}


def test_asking_again_changes_nothing() -> None:
    devices = DeviceAllocator({NVIDIA: ["0", "1"]})
    for _ in range(3):
        assert seen(devices.allocate("a", [container("x", 1)])) == {"x": "0"}


def test_devices_from_before_a_restart_are_reserved() -> None:
    devices = DeviceAllocator({NVIDIA: ["0", "1"], AMD: ["0"]})
    devices.reserve("a", [{"CUDA_VISIBLE_DEVICES": "0"}, {"HIP_VISIBLE_DEVICES": "0"}, {}])
    assert seen(devices.allocate("b", [container("x", 2)])) == {"x": "1"}
    assert devices.allocate("c", [container("x", 1, AMD)])["x"]["HIP_VISIBLE_DEVICES"] == ""


def test_a_machine_without_devices_says_nothing() -> None:
    assert DeviceAllocator({}).allocate("a", [container("x", 1)]) == {}
