"""Which workflows a list request wants, in which order, and which page of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from muster.kube.errors import BadRequest
from muster.kube.objects import Object, meta, name_of, parse_time, status_of

_NAME_FILTERS = ("Exact", "Contains", "Prefix", "NotEquals")


class Wanted(NamedTuple):
    namespace: str = ""
    labels: str = ""
    name: str = ""
    name_filter: str = "Exact"
    prefix: str = ""
    started_after: datetime | None = None
    started_before: datetime | None = None
    created_after: datetime | None = None
    finished_before: datetime | None = None
    limit: int = 0
    offset: int = 0
    counted: bool = False
    """Whether the number of those on later pages is asked for."""


class Page(NamedTuple):
    items: list[Object]
    next_offset: int | None
    remaining: int


def parse_wanted(query: Mapping[str, str], namespace: str = "") -> Wanted:
    wanted = Wanted(
        namespace=namespace,
        labels=query.get("listOptions.labelSelector", ""),
        name_filter=query.get("nameFilter") or "Exact",
        prefix=query.get("namePrefix", ""),
        created_after=_time(query, "createdAfter"),
        finished_before=_time(query, "finishedBefore"),
        limit=_number(query, "listOptions.limit"),
        offset=_number(query, "listOptions.continue"),
    )
    if wanted.name_filter not in _NAME_FILTERS:
        raise BadRequest(f'nameFilter is "{wanted.name_filter}"; it must be one of {", ".join(_NAME_FILTERS)}')
    for requirement in query.get("listOptions.fieldSelector", "").split(","):
        if requirement:
            wanted = _narrowed(wanted, requirement)
    return wanted


def select(workflows: Sequence[Object], wanted: Wanted) -> Page:
    """Those that still run come first, the newest first; then what has finished, the last to finish first."""
    chosen = [workflow for workflow in workflows if _matches(workflow, wanted)]
    chosen.sort(key=_created, reverse=True)
    chosen.sort(key=_finished, reverse=True)
    chosen.sort(key=lambda workflow: bool(_finished(workflow)))
    end = wanted.offset + wanted.limit if wanted.limit else len(chosen)
    remaining = max(len(chosen) - end, 0)
    return Page(chosen[wanted.offset : end], end if remaining else None, remaining)


def _narrowed(wanted: Wanted, requirement: str) -> Wanted:
    for start, field in (
        ("metadata.namespace=", "namespace"),
        ("metadata.name!=", "other_name"),
        ("metadata.name==", "name"),
        ("metadata.name=", "name"),
        ("spec.startedAt>", "started_after"),
        ("spec.startedAt<", "started_before"),
        ("ext.showRemainingItemCount=", "count"),
    ):
        if not requirement.startswith(start):
            continue
        value = requirement[len(start) :]
        match field:
            case "namespace":
                if wanted.namespace not in ("", value):
                    raise BadRequest(f'the namespaces "{wanted.namespace}" and "{value}" contradict each other')
                return wanted._replace(namespace=value)
            case "other_name":
                return wanted._replace(name=value, name_filter="NotEquals")
            case "name":
                return wanted._replace(name=value)
            case "count":
                return wanted._replace(counted=value.lower() in ("true", "1", "t"))
            case "started_after":
                return wanted._replace(started_after=_moment(value, requirement))
            case _:
                return wanted._replace(started_before=_moment(value, requirement))
    raise BadRequest(f"unsupported requirement {requirement}: workflows are selected by metadata.name and labels")


def _matches(workflow: Object, wanted: Wanted) -> bool:
    name = name_of(workflow)
    if wanted.prefix and not name.startswith(wanted.prefix):
        return False
    if wanted.name:
        match wanted.name_filter:
            case "Contains":
                fits = wanted.name in name
            case "Prefix":
                fits = name.startswith(wanted.name)
            case "NotEquals":
                fits = name != wanted.name
            case _:
                fits = name == wanted.name
        if not fits:
            return False
    started, finished = str(status_of(workflow).get("startedAt") or ""), _finished(workflow)
    return (
        _is_after(started, wanted.started_after)
        and _is_before(started, wanted.started_before)
        and _is_after(_created(workflow), wanted.created_after)
        and _is_before(finished, wanted.finished_before)
    )


def _is_after(time: str, than: datetime | None) -> bool:
    return than is None or (bool(time) and parse_time(time) > than)


def _is_before(time: str, than: datetime | None) -> bool:
    return than is None or (bool(time) and parse_time(time) < than)


def _created(workflow: Object) -> str:
    return str(meta(workflow).get("creationTimestamp") or "")


def _finished(workflow: Object) -> str:
    return str(status_of(workflow).get("finishedAt") or "")


def _time(query: Mapping[str, str], name: str) -> datetime | None:
    return _moment(query[name], name) if query.get(name) else None


def _moment(text: str, where: str) -> datetime:
    try:
        return parse_time(text)
    except ValueError:
        raise BadRequest(f'{where}: "{text}" is not a time such as 2026-01-31T12:00:00Z') from None


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name) or "0"
    if not text.isdigit():
        raise BadRequest(f'{name} is "{text}"; it must be a number')
    return int(text)
