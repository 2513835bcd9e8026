"""What may be set of modules: how they are built, and from where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from muster.kube.kinds import Schema
from muster.kube.schema import NUMBER, STRINGS, integer, obj, string

BuilderChoice: TypeAlias = Literal["auto", "folder", "buildah", "podman", "docker"]

MODULES_SCHEMA: Schema = obj({
    "builder": string(["auto", "folder", "buildah", "podman", "docker"]),
    "minutes": NUMBER,
    "megabytes": integer(1),
    "atOnce": integer(1, 64),
    "localRepositories": STRINGS,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class ModuleSettings:
    builder: BuilderChoice = "auto"
    """auto: what fits the runtime: nodes that run in the sandbox cannot use images, so modules are folders there."""
    minutes: float = 60.0
    """How long a build may take."""
    megabytes: int = 20_000
    """How large a repository, and the image made of it, may be."""
    at_once: int = 2
    """How many builds run at the same time."""
    local_repositories: tuple[Path, ...] = ()
    """Folders of this machine from which everybody may build modules; admins may from any."""


def read_module_settings(said: Mapping[str, Any]) -> ModuleSettings:
    """From what the file says, already checked against the schema."""
    modules = said.get("modules") or {}
    usual = ModuleSettings()
    return ModuleSettings(
        builder=modules.get("builder") or usual.builder,
        minutes=modules.get("minutes", usual.minutes),
        megabytes=modules.get("megabytes", usual.megabytes),
        at_once=modules.get("atOnce", usual.at_once),
        local_repositories=tuple(Path(folder) for folder in modules.get("localRepositories") or ()),
    )
