"""Every namespace has a service account called `default`, which its Pods are unless they say otherwise."""

from __future__ import annotations

from muster.kube.builtin import NAMESPACE, SERVICE_ACCOUNT
from muster.kube.cluster import Cluster
from muster.kube.controller import Controller
from muster.kube.errors import AlreadyExists
from muster.kube.informer import Informer
from muster.kube.objects import Key, Object, is_deleting, name_of, namespace_of

DEFAULT = "default"


class DefaultServiceAccounts:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._queue: Controller[str] = Controller("default service account", self._ensure, workers=1)
        self._namespaces = Informer(cluster, NAMESPACE, on_change=self._namespace_changed)
        self._accounts = Informer(cluster, SERVICE_ACCOUNT, on_change=self._account_changed)

    async def run(self) -> None:
        async with self._accounts, self._namespaces:
            await self._queue.run()

    def _namespace_changed(self, before: Object | None, after: Object | None) -> None:
        if after is not None:
            self._queue.enqueue(name_of(after))

    def _account_changed(self, before: Object | None, after: Object | None) -> None:
        if after is None and before is not None and name_of(before) == DEFAULT:
            self._queue.enqueue(namespace_of(before))

    async def _ensure(self, namespace: str) -> None:
        found = self._namespaces.objects.get(Key("", namespace))
        if found is None or is_deleting(found) or self._accounts.get(namespace, DEFAULT) is not None:
            return
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": DEFAULT, "namespace": namespace},
        }
        try:
            await self._cluster.create(account)
        except AlreadyExists:
            return
