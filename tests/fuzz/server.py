"""The Kubernetes and Argo APIs in a process of their own, without anything that runs Pods: `python -m tests.fuzz.server
DIRECTORY`. The first line of its output says where it listens. It ends when its input ends."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path

import orjson
import uvloop

from muster.kube.objects import Object
from muster.kube.rbac import User
from tests.server.argo.served import hello, serving

NAMESPACE = "fuzz"


async def main(home: Path) -> None:
    logging.basicConfig(filename=home / "log", level=logging.WARNING)
    async with serving(home, artifacts=True, training=True) as served:
        for obj in _first_objects():
            await served.cluster.create(obj)
        for line in (b"one\n", b"two\n"):
            served.node.write(NAMESPACE, "main", line)
        member = served.identity.tokens.issue("fuzz-member", [])
        address = {"url": served.url, "admin": served.token, "member": member, "pid": os.getpid()}
        print(orjson.dumps(address).decode(), flush=True)
        await asyncio.to_thread(sys.stdin.read)


def _first_objects() -> list[Object]:
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "member", "namespace": NAMESPACE},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"kind": "User", "name": User("fuzz-member").name}],
    }
    workflow = hello("main")
    node = {"id": "main", "name": "main", "displayName": "main", "type": "Pod", "phase": "Succeeded"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        binding,
        {**workflow, "metadata": {"name": "main", "namespace": NAMESPACE}, "status": {"nodes": {"main": node}}},
    ]


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as `muster up` does
        runner.run(main(Path(sys.argv[1])))
