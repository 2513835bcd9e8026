"""Modules with their versions, categories, and reviews."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from muster.platform.records.modules import (
    Category,
    Module,
    ModuleVersion,
    ModuleVersionDetail,
    Review,
    SourceFile,
    SourceListing,
)
from muster.sdk.transport import Transport, parse_record


class Modules:
    """Modules are named by id or name, versions by number or id, or `latest`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(
        self, *, q: str = "", category: str = "", owner: str = "", team: str = "", state: str = "", mine: bool = False,
        usable: bool = False, published: bool = False, sort: str = "", most: int | None = None,
    ) -> Iterator[Module]:  # fmt: skip
        query = {"q": q, "category": category, "owner": owner, "team": team, "state": state, "sort": sort}
        query |= {
            name: "true" for name, wanted in (("mine", mine), ("usable", usable), ("published", published)) if wanted
        }
        return (parse_record(Module, item) for item in self._transport.pages("modules", query, most))

    def get(self, module: str) -> Module:
        return parse_record(Module, self._ask("GET", _path(module)))

    def create(self, name: str, *, category: str, git_url: str, git_ref: str, **more: Any) -> Module:
        """Creates a module and starts its build. `more`: description, team, dockerfile, build_dir, readme_path, env,
        inputs, outputs."""
        body = {"name": name, "category": category, "git_url": git_url, "git_ref": git_ref, **more}
        return parse_record(Module, self._ask("POST", "modules", body))

    def edit(self, module: str, *, revision: int | None = None, **changes: Any) -> Module:
        """As `create`. Description, category and team change at once; any other change creates a new version."""
        headers = {"If-Match": f'"{revision}"'} if revision is not None else {}
        return parse_record(Module, self._transport.request("PATCH", _path(module), changes, headers=headers))

    def build(self, module: str) -> Module:
        """Creates a new version from the current state of the branch or tag."""
        return parse_record(Module, self._ask("POST", f"{_path(module)}/build"))

    def delete(self, module: str) -> None:
        self._ask("DELETE", _path(module))

    def versions(self, module: str, *, state: str = "", most: int | None = None) -> Iterator[ModuleVersion]:
        items = self._transport.pages(f"{_path(module)}/versions", {"state": state}, most)
        return (parse_record(ModuleVersion, item) for item in items)

    def version(self, module: str, version: str = "latest") -> ModuleVersionDetail:
        return parse_record(ModuleVersionDetail, self._ask("GET", _path(module, version)))

    def source(self, module: str, version: str = "latest", *, against: str = "") -> SourceListing:
        """The files that a version was built from, and what has changed since another version."""
        query = {"against": against}
        found = self._transport.request("GET", f"{_path(module, version)}/source", query=query)
        return parse_record(SourceListing, found)

    def source_file(self, module: str, path: str, version: str = "latest") -> SourceFile:
        found = self._transport.request("GET", f"{_path(module, version)}/source/file", query={"path": path})
        return parse_record(SourceFile, found)

    def log(self, module: str, version: str = "latest") -> str:
        text: str | None = self._ask("GET", f"{_path(module, version)}/log")
        return text or ""

    def follow_log(self, module: str, version: str = "latest") -> Iterator[str]:
        """Yields the log as it is written, until the build is over."""
        number = str(self.version(module, version).number)
        for event in self._transport.events(f"{_path(module, number)}/log/events"):
            if event.name == "end":
                return
            yield event.data["text"]

    def ask_review(self, module: str, version: str = "latest", message: str = "") -> Review:
        return parse_record(Review, self._ask("POST", f"{_path(module, version)}/review", {"message": message}))

    def stop(self, module: str, version: str = "latest") -> ModuleVersion:
        return self._step(module, version, "stop")

    def retry(self, module: str, version: str = "latest") -> ModuleVersion:
        return self._step(module, version, "retry")

    def deprecate(self, module: str, version: str) -> ModuleVersion:
        return self._step(module, version, "deprecate")

    def restore(self, module: str, version: str) -> ModuleVersion:
        return self._step(module, version, "restore")

    def _step(self, module: str, version: str, step: str) -> ModuleVersion:
        return parse_record(ModuleVersion, self._ask("POST", f"{_path(module, version)}/{step}"))

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return self._transport.request(method, path, body)


class Categories:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, q: str = "", most: int | None = None) -> Iterator[Category]:
        return (parse_record(Category, item) for item in self._transport.pages("categories", {"q": q}, most))

    def create(self, name: str, description: str = "") -> Category:
        body = {"name": name, "description": description}
        return parse_record(Category, self._transport.request("POST", "categories", body))

    def edit(self, category: str, **changes: Any) -> Category:
        """`changes`: name, description."""
        return parse_record(
            Category, self._transport.request("PATCH", f"categories/{quote(category, safe='')}", changes)
        )

    def delete(self, category: str) -> None:
        self._transport.request("DELETE", f"categories/{quote(category, safe='')}")


class Reviews:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(
        self, *, q: str = "", state: str = "", module: str = "", author: str = "", mine: bool = False,
        most: int | None = None,
    ) -> Iterator[Review]:  # fmt: skip
        query = {"q": q, "state": state, "module": module, "author": author, "mine": "true" if mine else ""}
        return (parse_record(Review, item) for item in self._transport.pages("reviews", query, most))

    def get(self, review: str) -> Review:
        return parse_record(Review, self._transport.request("GET", f"reviews/{quote(review, safe='')}"))

    def approve(self, review: str, reason: str = "") -> Review:
        return self._decide(review, "approve", {"reason": reason})

    def reject(self, review: str, reason: str) -> Review:
        return self._decide(review, "reject", {"reason": reason})

    def withdraw(self, review: str) -> Review:
        return self._decide(review, "withdraw", None)

    def _decide(self, review: str, decision: str, body: Mapping[str, Any] | None) -> Review:
        path = f"reviews/{quote(review, safe='')}/{decision}"
        return parse_record(Review, self._transport.request("POST", path, body))


def _path(module: str, version: str = "") -> str:
    return f"modules/{quote(module, safe='')}" + (f"/versions/{quote(version, safe='')}" if version else "")
