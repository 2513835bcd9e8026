"""Notebooks and TensorBoards."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote

from muster.platform.records.pods import KubernetesEvent
from muster.platform.records.workspaces import Notebook, TensorBoard, WorkspaceImage
from muster.sdk.transport import Transport, parse_record

_PAUSE_SECONDS = 0.5


class Notebooks:
    """A notebook is named by its namespace and name."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def images(self) -> list_[WorkspaceImage]:
        found = self._transport.request("GET", "workspaces/images")
        return [parse_record(WorkspaceImage, each) for each in found]

    def list(self, *, q: str = "", states: Sequence[str] = (), most: int | None = None) -> Iterator[Notebook]:
        query = {"q": q, "state": list_(states)}
        return (parse_record(Notebook, item) for item in self._transport.pages("notebooks", query, most))

    def get(self, namespace: str, name: str) -> Notebook:
        return parse_record(Notebook, self._transport.request("GET", _path("notebooks", namespace, name)))

    def create(self, name: str, **more: Any) -> Notebook:
        """`more`: team, image, cluster, skus, cpu, memory, gpus, home, home_claim, home_size, mounts, env,
        cull_idle_minutes."""
        return parse_record(Notebook, self._transport.request("POST", "notebooks", {"name": name, **more}))

    def edit(self, namespace: str, name: str, **changes: Any) -> Notebook:
        """A running notebook is restarted, unless only cull_idle_minutes changes."""
        path = _path("notebooks", namespace, name)
        return parse_record(Notebook, self._transport.request("PATCH", path, changes))

    def start(self, namespace: str, name: str) -> Notebook:
        return self._do("start", namespace, name)

    def stop(self, namespace: str, name: str) -> Notebook:
        return self._do("stop", namespace, name)

    def restart(self, namespace: str, name: str) -> Notebook:
        return self._do("restart", namespace, name)

    def delete(self, namespace: str, name: str, *, home: bool = False) -> None:
        """With `home`, the volume of its home folder is deleted, too, with all files."""
        query = {"home": "true"} if home else None
        self._transport.request("DELETE", _path("notebooks", namespace, name), query=query)

    def events(self, namespace: str, name: str) -> list_[KubernetesEvent]:
        found = self._transport.request("GET", f"{_path('notebooks', namespace, name)}/happenings")
        return [parse_record(KubernetesEvent, each) for each in found]

    def wait(self, namespace: str, name: str) -> Iterator[Notebook]:
        """Yields the notebook whenever its state, reason or progress changes, until it runs, fails or is stopped."""
        before: object = None
        while True:
            found = self.get(namespace, name)
            now = (found.state, found.reason, found.progress)
            if now != before:
                before = now
                yield found
            if found.state != "starting":
                return
            time.sleep(_PAUSE_SECONDS)

    def _do(self, action: Literal["start", "stop", "restart"], namespace: str, name: str) -> Notebook:
        path = f"{_path('notebooks', namespace, name)}/{action}"
        return parse_record(Notebook, self._transport.request("POST", path))


class TensorBoards:
    """A TensorBoard is named by its namespace and name."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, q: str = "", states: Sequence[str] = (), most: int | None = None) -> Iterator[TensorBoard]:
        query = {"q": q, "state": list_(states)}
        return (parse_record(TensorBoard, item) for item in self._transport.pages("tensorboards", query, most))

    def get(self, namespace: str, name: str) -> TensorBoard:
        return parse_record(TensorBoard, self._transport.request("GET", _path("tensorboards", namespace, name)))

    def create(
        self, *, name: str = "", logs: Mapping[str, str] | None = None, runs: Sequence[str] = (), job: str = "",
        notebook: Mapping[str, str] | None = None, team: str = "", credentials: str = "",
    ) -> TensorBoard:  # fmt: skip
        """`logs` are paths by name; `job` is NAMESPACE/KIND/NAME; `notebook` has namespace, name and path."""
        body: dict[str, Any] = {"name": name, "team": team, "runs": list_(runs), "job": job, "credentials": credentials}
        body["logs"] = [{"name": key, "path": path} for key, path in (logs or {}).items()]
        if notebook is not None:
            body["notebook"] = dict(notebook)
        return parse_record(TensorBoard, self._transport.request("POST", "tensorboards", body))

    def start(self, namespace: str, name: str) -> TensorBoard:
        return self._do("start", namespace, name)

    def stop(self, namespace: str, name: str) -> TensorBoard:
        return self._do("stop", namespace, name)

    def restart(self, namespace: str, name: str) -> TensorBoard:
        return self._do("restart", namespace, name)

    def delete(self, namespace: str, name: str) -> None:
        self._transport.request("DELETE", _path("tensorboards", namespace, name))

    def _do(self, action: Literal["start", "stop", "restart"], namespace: str, name: str) -> TensorBoard:
        path = f"{_path('tensorboards', namespace, name)}/{action}"
        return parse_record(TensorBoard, self._transport.request("POST", path))


list_ = list
"""`list` is a method above."""


def _path(kind: str, namespace: str, name: str) -> str:
    return f"{kind}/{quote(namespace, safe='')}/{quote(name, safe='')}"
