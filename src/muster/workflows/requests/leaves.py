"""Runs http templates, in the server's own process.

A request is sent at least once: when the server dies before its answer is stored, it is sent again after the restart.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

from muster.kube.builtin import SECRET
from muster.kube.cluster import Cluster
from muster.kube.errors import NotFound
from muster.kube.objects import Key, Object, key_of, namespace_of, timestamp, uid_of
from muster.workflows.model import Launch, Node, Outcome, Report, Template
from muster.workflows.requests.template import RequestError, outcome_of, request_of, secrets_of

if TYPE_CHECKING:
    from muster.workflows.requests.sending import Sender

log = logging.getLogger(__name__)


class HttpLeaves:
    """`Leaves` for http templates. Headers may come from Secrets of the workflow's namespace; their values appear in no
    message and in no condition."""

    def __init__(self, cluster: Cluster, report: Report) -> None:
        self._cluster = cluster
        self._report = report
        self._sender: Sender | None = None
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def launch(self, workflow: Object, spec: Object, launch: Launch, *, begun: bool) -> None:
        node = str(launch.node["id"])
        place = (uid_of(workflow), node)
        if place in self._tasks:
            return
        secrets = await self._secrets(workflow, node, launch.template)
        if secrets is None or place in self._tasks:
            return
        started = launch.node.get("startedAt") or timestamp()
        self._report(key_of(workflow), node, Outcome("Running", started=started))
        self._tasks[place] = asyncio.create_task(
            self._send(place, key_of(workflow), launch.template, secrets, started), name=f"request {node}"
        )

    async def stop(self, workflow: Object, node: Node, *, force: bool) -> None:
        task = self._tasks.pop((uid_of(workflow), str(node["id"])), None)
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if task is None or task.cancelled():
            self._report(key_of(workflow), str(node["id"]), Outcome("Failed", "stopped", finished=timestamp()))

    async def stop_others(self, workflow: Object, nodes: Collection[str]) -> None:
        """No request outlives the server."""
        others = [node for uid, node in self._tasks if uid == uid_of(workflow) and node not in nodes]
        for node in others:
            self._tasks.pop((uid_of(workflow), node)).cancel()

    async def run(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._sender is not None:
                await self._sender.close()
                self._sender = None

    async def _secrets(self, workflow: Object, node: str, template: Template) -> dict[tuple[str, str], str] | None:
        """None if one is missing, which has been reported."""
        found: dict[tuple[str, str], str] = {}
        for name, key in secrets_of(template):
            try:
                data = (await self._cluster.get(SECRET, name, namespace_of(workflow))).get("data") or {}
                if key not in data:
                    raise NotFound(f"secret '{name}' does not have the key '{key}'")
            except NotFound as error:
                self._report(key_of(workflow), node, Outcome("Failed", error.message, finished=timestamp()))
                return None
            found[name, key] = base64.b64decode(data[key]).decode(errors="replace").strip("\r\n")
        return found

    async def _send(
        self,
        place: tuple[str, str],
        workflow: Key,
        template: Template,
        secrets: dict[tuple[str, str], str],
        started: str,
    ) -> None:
        try:
            response = await self._ready().send(request_of(template, secrets))
            outcome = outcome_of(template, response, started, timestamp())
        except RequestError as error:
            outcome = Outcome("Failed", _without(str(error), secrets), started=started, finished=timestamp())
        except Exception as error:
            log.error(
                "%s: the request of %s failed: %s", workflow, place[1], type(error).__name__
            )  # it may quote a Secret
            outcome = Outcome("Error", f"{type(error).__name__}", started=started, finished=timestamp())
        self._tasks.pop(place, None)
        self._report(workflow, place[1], outcome)

    def _ready(self) -> Sender:
        """When it is needed first: the library takes a tenth of a second to load."""
        if self._sender is None:
            from muster.workflows.requests.sending import Sender

            self._sender = Sender()
        return self._sender


def _without(message: str, secrets: dict[tuple[str, str], str]) -> str:
    """A library may quote a header that it does not like."""
    for value in secrets.values():
        if value:
            message = message.replace(value, "***")
    return message
