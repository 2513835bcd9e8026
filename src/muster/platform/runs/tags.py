"""Tags of runs: `baseline`, or `data=2024-06`. Users group and find runs by them.

A tag is text for people. It is stored in the database alone: it never becomes a label, an annotation or a field of an
object on the cluster, so no tag changes where or how a run runs. All users who see a run see its tags.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from sqlalchemy import ColumnElement, Connection, Select, delete, func, insert, select

from muster.platform.database.tables import run_tags, runs
from muster.platform.errors import InvalidProblem
from muster.platform.messages import FieldError, field_error
from muster.platform.permissions import Actor, visible
from muster.platform.records.runs import TagCount

MOST_TAGS: Final = 20
LONGEST_KEY: Final = 63
LONGEST_VALUE: Final = 200
LONGEST_TAG: Final = LONGEST_KEY + 1 + LONGEST_VALUE
_MOST_COUNTED: Final = 100

# Letters and digits of any script, so that tags can be written in any language.
_KEY: Final = re.compile(rf"[^\W_](?:[\w./-]{{0,{LONGEST_KEY - 2}}}[^\W_])?")


def parse_tags(texts: Sequence[str]) -> list[str]:
    """Returns the tags in the order of their keys. A pure function. Raises Invalid with the faulty ones."""
    wrong: list[FieldError] = []
    found: dict[str, str] = {}
    for at, text in enumerate(texts):
        key, value = split_tag(text)
        if not is_tag(text):
            wrong.append(
                field_error(f"tags[{at}]", "run.tag", tag=text, most_key=LONGEST_KEY, most_value=LONGEST_VALUE)
            )
        elif key in found and found[key] != value:
            wrong.append(field_error(f"tags[{at}]", "run.tag-twice", key=key))
        else:
            found[key] = value
    if len(texts) > MOST_TAGS:
        wrong.append(field_error("tags", "run.tags", most=MOST_TAGS))
    if wrong:
        raise InvalidProblem.fields(wrong)
    return [join_tag(key, value) for key, value in sorted(found.items())]


def is_tag(text: str) -> bool:
    key, value = split_tag(text)
    if not _KEY.fullmatch(key) or len(value) > LONGEST_VALUE:
        return False
    # `key=` would look like `key`, which has no value either.
    return "=" not in text or (bool(value) and value.strip() == value and value.isprintable())


def split_tag(text: str) -> tuple[str, str]:
    """The key and the value, which is '' if the tag has none."""
    key, _, value = text.partition("=")
    return key, value


def join_tag(key: str, value: str) -> str:
    return f"{key}={value}" if value else key


def store_tags(connection: Connection, run_id: str, tags: Iterable[str]) -> None:
    """Stores the tags of a run for filters. The run's row has them, too, as they are shown."""
    connection.execute(delete(run_tags).where(run_tags.c.run_id == run_id))
    rows = [dict(zip(("key", "value"), split_tag(tag), strict=True), run_id=run_id) for tag in tags]
    if rows:
        connection.execute(insert(run_tags), rows)


def has_tags(tags: Iterable[str]) -> list[ColumnElement[bool]]:
    """Conditions on `runs`: it has all of these. `key` stands for the key with any value."""
    return [runs.c.id.in_(_runs_with(*split_tag(tag))) for tag in tags]


def count_tags(connection: Connection, actor: Actor, workflow_ids: Sequence[str] | None = None) -> list[TagCount]:
    """The tags that the runs of the workflows have, the most frequent first."""
    seen = visible(actor, "run", owner=runs.c.owner_id, team=runs.c.team_id, key=runs.c.id)
    times = func.count()
    query = (
        select(run_tags.c.key, run_tags.c.value, times.label("runs"))
        .join(runs, runs.c.id == run_tags.c.run_id)
        .where(seen)
        .group_by(run_tags.c.key, run_tags.c.value)
        .order_by(times.desc(), run_tags.c.key, run_tags.c.value)
        .limit(_MOST_COUNTED)
    )
    if workflow_ids is not None:
        query = query.where(runs.c.workflow_id.in_(workflow_ids))
    return [TagCount(join_tag(row.key, row.value), row.runs) for row in connection.execute(query)]


def _runs_with(key: str, value: str) -> Select[tuple[str]]:
    query = select(run_tags.c.run_id).where(run_tags.c.key == key)
    return query.where(run_tags.c.value == value) if value else query
