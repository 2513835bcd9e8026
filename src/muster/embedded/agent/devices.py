"""Which GPUs a Pod gets. All of them are visible to every process here, so each is told which ones are its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from muster.kube.quantity import whole

NVIDIA, AMD = "nvidia.com/gpu", "amd.com/gpu"

_VARIABLES = {
    NVIDIA: ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
    AMD: ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
}


class Devices:
    """The real devices of this machine, by resource name, and who has them."""

    def __init__(self, found: Mapping[str, Iterable[str]]) -> None:
        self._all = {resource: list(ids) for resource, ids in found.items()}
        self._holders: dict[str, dict[str, list[str]]] = {}

    def take(
        self, uid: str, containers: Iterable[Mapping[str, Any]], earlier: Iterable[Mapping[str, Any]] = ()
    ) -> dict[str, dict[str, str]]:
        """Variables by container name. `earlier` are init containers: they end before the others begin, so they share
        what those get. Where the settings claim more devices than there are, they go as far as they go; a container
        that asks for none sees none."""
        if not self._all:
            return {}
        held = self._holders[uid] = {resource: [] for resource in self._all}
        variables: dict[str, dict[str, str]] = {}
        for group, again in ((containers, False), (earlier, True)):
            for container in group:
                limits = (container.get("resources") or {}).get("limits") or {}
                mine = variables.setdefault(str(container.get("name") or ""), {})
                for resource in self._all:
                    given = self._give(held[resource], resource, whole(limits.get(resource) or 0), again)
                    mine.update((variable, ",".join(given)) for variable in _VARIABLES[resource])
        return variables

    def keep(self, uid: str, environments: Iterable[Mapping[str, str]]) -> None:
        """What a Pod was given in an earlier life of the server."""
        held = self._holders.setdefault(uid, {})
        for environment in environments:
            for resource in self._all:
                given = environment.get(_VARIABLES[resource][0], "")
                mine = held.setdefault(resource, [])
                mine.extend(part for part in given.split(",") if part and part not in mine)

    def give_back(self, uid: str) -> None:
        self._holders.pop(uid, None)

    def _give(self, held: list[str], resource: str, count: int, again: bool) -> list[str]:
        taken = {device for other in self._holders.values() for device in other.get(resource, ())}
        free = [device for device in self._all[resource] if device not in taken]
        given = ([*held, *free] if again else free)[:count]
        held.extend(device for device in given if device not in held)
        return given
