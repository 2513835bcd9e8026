"""Workflows and their versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal
from urllib.parse import quote

from muster.platform.records.workflows import (
    Change,
    Finding,
    ImportedManifest,
    StoredVersion,
    Version,
    VersionDiff,
    Workflow,
)
from muster.sdk.transport import Transport, parse_record


class Workflows:
    """Workflows are named by id or name, versions by number, name or id, or `latest`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(
        self, *, q: str = "", owner: str = "", team: str = "", archived: Literal["no", "only", "too"] = "no",
        sort: str = "", most: int | None = None,
    ) -> Iterator[Workflow]:  # fmt: skip
        query = {"q": q, "owner": owner, "team": team, "archived": archived, "sort": sort}
        return (parse_record(Workflow, item) for item in self._transport.pages("workflows", query, most))

    def get(self, workflow: str) -> Workflow:
        return parse_record(Workflow, self._ask("GET", _path(workflow)))

    def create(
        self, name: str, content: Mapping[str, Any] | str, *, description: str = "", team: str = "",
        version_name: str = "", version_description: str = "",
    ) -> StoredVersion:  # fmt: skip
        """With its first version. `content` is a graph document, or an Argo Workflow as text."""
        version = {"name": version_name, "description": version_description, **_content(content)}
        body = {"name": name, "description": description, "team": team, "version": version}
        return parse_record(StoredVersion, self._ask("POST", "workflows", body))

    def edit(self, workflow: str, *, revision: int | None = None, **changes: Any) -> Workflow:
        """`changes`: name, description, team. With a `revision`, fails if the workflow has another one."""
        headers = {"If-Match": f'"{revision}"'} if revision is not None else {}
        return parse_record(Workflow, self._transport.request("PATCH", _path(workflow), changes, headers=headers))

    def archive(self, workflow: str, version: str = "") -> None:
        self._ask("POST", f"{_path(workflow, version)}/archive")

    def restore(self, workflow: str, version: str = "") -> None:
        self._ask("POST", f"{_path(workflow, version)}/restore")

    def delete(self, workflow: str) -> None:
        self._ask("DELETE", _path(workflow))

    def versions(self, workflow: str, *, q: str = "", most: int | None = None) -> Iterator[Version]:
        """The newest first."""
        pages = self._transport.pages(f"{_path(workflow)}/versions", {"q": q}, most)
        return (parse_record(Version, item) for item in pages)

    def version(self, workflow: str, version: str = "latest") -> Version:
        return parse_record(Version, self._ask("GET", _path(workflow, version)))

    def document(self, workflow: str, version: str = "latest") -> dict[str, Any]:
        found: dict[str, Any] = self._ask("GET", _path(workflow, version))["document"]
        return found

    def manifest(self, workflow: str, version: str = "latest") -> str:
        """As an Argo Workflow, in YAML."""
        return str(self._ask("GET", f"{_path(workflow, version)}/manifest"))

    def graph(self, workflow: str, version: str = "latest") -> dict[str, Any]:
        """The nodes and edges to draw, by scope."""
        found: dict[str, Any] = self._ask("GET", f"{_path(workflow, version)}/graph")
        return found

    def add_version(
        self, workflow: str, content: Mapping[str, Any] | str, *, name: str = "", description: str = ""
    ) -> StoredVersion:
        body = {"name": name, "description": description, **_content(content)}
        return parse_record(StoredVersion, self._ask("POST", f"{_path(workflow)}/versions", body))

    def copy_version(
        self, workflow: str, version: str = "latest", *, new_workflow: str = "", into: str = "",
        content: Mapping[str, Any] | str | None = None, name: str = "", description: str = "",
    ) -> StoredVersion:  # fmt: skip
        """Copies a version: as the first version of a new workflow, or as the next one of `into`, which defaults to the
        same workflow."""
        changed = {"name": name, "description": description, **(_content(content) if content is not None else {})}
        body: dict[str, Any] = {"into": into, "version": changed}
        if new_workflow:
            body["workflow"] = {"name": new_workflow}
        return parse_record(StoredVersion, self._ask("POST", f"{_path(workflow, version)}/copy", body))

    def diff(self, workflow: str, before: str, after: str = "latest") -> list_[Change]:
        return parse_record(
            VersionDiff, self._transport.request("GET", f"{_path(workflow, before)}/diff", query={"to": after})
        ).changes

    def check(self, document: Mapping[str, Any]) -> list_[Finding]:
        """Checks a document that is not stored."""
        answer = self._ask("POST", "graphs/check", {"document": document})
        return [parse_record(Finding, problem) for problem in answer["problems"]]

    def import_manifest(self, manifest: str) -> ImportedManifest:
        """Returns what an Argo Workflow would be as a version."""
        return parse_record(ImportedManifest, self._ask("POST", "graphs/import", {"manifest": manifest}))

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        return self._transport.request(method, path, body)


list_ = list
"""`list` is a method above."""


def _path(workflow: str, version: str = "") -> str:
    path = f"workflows/{quote(workflow, safe='')}"
    return f"{path}/versions/{quote(version, safe='')}" if version else path


def _content(content: Mapping[str, Any] | str) -> dict[str, Any]:
    return {"manifest": content} if isinstance(content, str) else {"document": content}
