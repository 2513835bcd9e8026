"""Pods and events, as the pages of runs, jobs and workspaces show them."""

from __future__ import annotations

from dataclasses import dataclass

from muster.platform.records.common import MessagePart


@dataclass(frozen=True, slots=True)
class PodContainer:
    name: str
    image: str
    state: str
    reason: str
    message: str
    exit_code: int | None
    restarts: int
    started: str | None
    finished: str | None


@dataclass(frozen=True, slots=True)
class PodSummary:
    name: str
    phase: str
    host: str
    address: str
    message: str
    message_parts: list[MessagePart]
    containers: list[PodContainer]


@dataclass(frozen=True, slots=True)
class KubernetesEvent:
    time: str | None
    type: str
    reason: str
    object: str
    message: str
    count: int
