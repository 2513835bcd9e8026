"""What the stores of artifacts are told of Secrets, and nobody else."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from muster.kube.builtin import SECRET
from muster.kube.cluster import Cluster
from muster.kube.errors import NotFound
from muster.workflows.artifacts.problems import ArtifactError

_SHORTEST = 4
"""Shorter ones would be found in any text."""


class Secrets:
    """Of one namespace, for one operation."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._told: list[str] = []

    async def get(self, selector: Mapping[str, Any]) -> str:
        """What `{name, key}` holds. Raises ArtifactError."""
        name, key = str(selector.get("name") or ""), str(selector.get("key") or "")
        try:
            secret = await self._cluster.get(SECRET, name, self._namespace)
        except NotFound:
            raise ArtifactError(f'there is no Secret "{name}" in the namespace "{self._namespace}"') from None
        value = (secret.get("data") or {}).get(key)
        if value is None:
            raise ArtifactError(f'the Secret "{name}" has no key "{key}"')
        text = base64.b64decode(value).decode("utf-8", "surrogateescape")
        self._told.append(text)
        return text

    def scrubbed(self, text: str) -> str:
        """Without anything that was told."""
        for value in self._told:
            for part in {value, value.strip()}:
                if len(part) >= _SHORTEST:
                    text = text.replace(part, "***")
        return text
