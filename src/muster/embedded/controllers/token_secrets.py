"""Secrets of type kubernetes.io/service-account-token: fills them with a token of the service account that they name.

Such a token does not expire; it is valid until the Secret or the account is deleted. In restricted namespaces, whose
users may create Secrets but no tokens, the Secrets stay as they are.
"""

from __future__ import annotations

import base64
from contextlib import suppress

from muster.embedded.auth.tokens import ServiceAccountTokens
from muster.kube.builtin import NAMESPACE, SECRET, SERVICE_ACCOUNT
from muster.kube.cluster import StatusRowsCluster
from muster.kube.controller import Controller, Informer
from muster.kube.errors import NotFound
from muster.kube.objects import Key, Object, annotations_of, is_deleting, key_of, name_of, namespace_of, uid_of
from muster.kube.pod_security import is_restricted

TOKEN_TYPE = "kubernetes.io/service-account-token"  # noqa: S105 the name of a type
ACCOUNT_NAME = "kubernetes.io/service-account.name"
ACCOUNT_UID = "kubernetes.io/service-account.uid"


class TokenSecretController:
    def __init__(self, cluster: StatusRowsCluster, tokens: ServiceAccountTokens, certificate: str) -> None:
        self._cluster = cluster
        self._tokens = tokens
        self._certificate = certificate
        self._queue: Controller[Key] = Controller("token secrets", self._reconcile, workers=1)
        self._secrets = Informer(cluster, SECRET, fields=f"type={TOKEN_TYPE}", on_change=self._secret_changed)
        self._accounts = Informer(cluster, SERVICE_ACCOUNT, on_change=self._account_changed)

    async def run(self) -> None:
        async with self._accounts, self._secrets:
            await self._queue.run()

    def _secret_changed(self, before: Object | None, after: Object | None) -> None:
        if after is not None:
            self._queue.enqueue(key_of(after))

    def _account_changed(self, before: Object | None, after: Object | None) -> None:
        account = after or before or {}
        for key, secret in self._secrets.objects.items():
            if key.namespace == namespace_of(account) and account_of(secret) == name_of(account):
                self._queue.enqueue(key)

    async def _reconcile(self, key: Key) -> None:
        secret = self._secrets.objects.get(key)
        if secret is None or is_deleting(secret) or not account_of(secret):
            return
        if is_restricted(self._cluster.peek(NAMESPACE, Key("", key.namespace))):
            return
        account = self._accounts.get(key.namespace, account_of(secret))
        with suppress(NotFound):
            if belongs_to_another(secret, account):
                await self._cluster.delete(SECRET, key.name, key.namespace, uid=uid_of(secret))
            elif account is not None:
                filled = fill(secret, account, self._certificate, self._tokens)
                if filled != secret:
                    await self._cluster.update(filled)


def account_of(secret: Object) -> str:
    return annotations_of(secret).get(ACCOUNT_NAME) or ""


def belongs_to_another(secret: Object, account: Object | None) -> bool:
    """Whether the account that the Secret was filled for is gone, even if there is a new one of the same name."""
    filled_for = annotations_of(secret).get(ACCOUNT_UID)
    return bool(filled_for) and (account is None or uid_of(account) != filled_for)


def fill(secret: Object, account: Object, certificate: str, tokens: ServiceAccountTokens) -> Object:
    """Returns the Secret with its token, the certificate of the API and the namespace. Keeps a token that is there."""
    namespace = namespace_of(secret)
    data = dict(secret.get("data") or {})
    if not data.get("token"):
        token = tokens.issue_for_secret(
            namespace, name_of(account), uid_of(account), secret=name_of(secret), secret_uid=uid_of(secret)
        )
        data["token"] = _encode(token)
    data |= {"ca.crt": _encode(certificate), "namespace": _encode(namespace)}
    annotations = {**annotations_of(secret), ACCOUNT_UID: uid_of(account)}
    return {**secret, "metadata": {**secret["metadata"], "annotations": annotations}, "data": data}


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
