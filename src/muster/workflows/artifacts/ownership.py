"""Which workflow the artifacts of the local repository belong to, so that they are deleted with it.

The keys of a workflow begin with its name. Each key is recorded in a file before something is stored under it: after a
crash, the next server finds the artifacts of workflows that no longer exist. Artifacts under other keys stay.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from muster.kube.beneath import Folder
from muster.kube.errors import BadRequest
from muster.kube.file_names import path_component
from muster.kube.objects import Key, Object, name_of, namespace_of, spec_of, status_of
from muster.workflows.artifacts.errors import ArtifactError
from muster.workflows.artifacts.local_store import LocalFolder
from muster.workflows.artifacts.locations import is_local, key_of


class ArtifactOwners:
    """`home` holds the local repository. All calls block."""

    def __init__(self, home: Path) -> None:
        self._artifacts = home / "artifacts"
        self._owners = home / "artifact-owners"

    def record(self, workflow: Object, location: Mapping[str, Any]) -> None:
        """Called before something is stored."""
        if not is_owned(workflow, location):
            return
        record = self._record(Key(namespace_of(workflow), name_of(workflow)))
        record.parent.mkdir(parents=True, exist_ok=True)
        with record.open("ab") as file:
            file.write(json.dumps(key_of(location)).encode() + b"\n")

    def has_stored(self, workflow: Key) -> bool:
        with suppress(BadRequest):
            return self._record(workflow).exists()
        return False

    def all(self) -> list[Key]:
        """Returns the workflows that have stored something and were not deleted together with it."""
        return [Key(folder.name, each.name) for folder in _folders(self._owners) for each in folder.iterdir()]

    def namespaces(self) -> list[str]:
        """Returns the namespaces that have artifacts."""
        return sorted({folder.name for top in (self._artifacts, self._owners) for folder in _folders(top)})

    def delete(self, workflow: Key, used: Collection[str] = ()) -> bool:
        """Deletes the artifacts of a workflow that is gone, except keys that others use. Returns whether none is
        left."""
        with suppress(BadRequest, FileNotFoundError):
            record = self._record(workflow)
            store = LocalFolder(self._artifacts / path_component(workflow.namespace))
            kept = False
            for key in _read_keys(record):
                if any(each == key or each.startswith(f"{key}/") for each in used):
                    kept = True
                    continue
                with suppress(ArtifactError):
                    store.delete(key)
            if kept:
                return False
            record.unlink(missing_ok=True)
        return True

    def delete_namespace(self, namespace: str) -> None:
        """Deletes everything that was stored in a namespace that is gone."""
        for top in (self._artifacts, self._owners):
            with suppress(FileNotFoundError), Folder.at(top) as folder:
                folder.remove([namespace])

    def _record(self, workflow: Key) -> Path:
        return self._owners / path_component(workflow.namespace) / path_component(workflow.name)


def is_owned(workflow: Object, location: Mapping[str, Any]) -> bool:
    """Whether an artifact is deleted with its workflow: its key begins with the workflow's name, and the workflow does
    not say that artifacts stay (`artifactGC: {strategy: Never}`)."""
    spec: Mapping[str, Any] = status_of(workflow).get("storedWorkflowTemplateSpec") or spec_of(workflow)
    if (spec.get("artifactGC") or {}).get("strategy") == "Never" or not is_local(location):
        return False
    return key_of(location).lstrip("/").startswith(f"{name_of(workflow)}/")


def keys_used(nodes: Mapping[str, Any], owner: str) -> set[str]:
    """Returns the keys of a workflow that nodes of another one refer to. Pure."""
    found = set()
    for node in nodes.values():
        for direction in ("inputs", "outputs"):
            for artifact in (node.get(direction) or {}).get("artifacts") or ():
                key = key_of(artifact).lstrip("/")
                if key.startswith(f"{owner}/") and not artifact.get("deleted"):
                    found.add(key)
    return found


def _read_keys(record: Path) -> Iterator[str]:
    """The last line may be incomplete: the server was killed before it stored anything under that key."""
    found: set[str] = set()
    with record.open("rb") as file:
        for line in file:
            with suppress(ValueError):
                key = str(json.loads(line)).lstrip("/")
                if key not in found:
                    found.add(key)
                    yield key


def _folders(top: Path) -> list[Path]:
    with suppress(FileNotFoundError), os.scandir(top) as found:
        return [Path(entry.path) for entry in found if entry.is_dir(follow_symlinks=False)]
    return []
