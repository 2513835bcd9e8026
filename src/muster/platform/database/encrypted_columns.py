"""Secrets in the tables are sealed: encrypted with a key that is not in the database (kube/encryption.py).

| table | what |
| --- | --- |
| versions | the values of secret environment variables in `document` |
| module_versions | the values of secret environment variables in `env`; `git_url` if it has credentials |
| run_orders | `secret` |
| webhooks | `target`: the URL and the secret |

A sealed value is bound to its table, column and row. Values that an older release wrote are sealed at the next start
(`Database.reseal`), and values with an older key after the key was rotated.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson
from sqlalchemy import Column, Connection, Table, insert, select, update

from muster.kube.encryption import EncryptionError, KeyRing, key_of
from muster.platform.database.tables import module_versions, run_orders, settings, versions, webhooks
from muster.platform.graphs.document import content_hash, mask_secrets

log = logging.getLogger(__name__)

KEYS: Final = "muster_keys"
"""The option of a connection that has the keys."""
_SEALED: Final = "$sealed"
_TEXT: Final = "sealed:"
_STATE: Final = "sealed with"


def keys_of(connection: Connection) -> KeyRing:
    keys: KeyRing = connection.get_execution_options()[KEYS]
    return keys


def seal(keys: KeyRing, value: Any, place: str) -> dict[str, str]:
    """Any JSON value, as a JSON value."""
    return {_SEALED: _encode(keys.encrypt(orjson.dumps(value), place))}


def unseal(keys: KeyRing, stored: Any, place: str) -> Any:
    """A value that is not sealed is returned as it is: an older release wrote it."""
    token = _token(stored)
    return stored if token is None else orjson.loads(keys.decrypt(token, place))


def seal_url(keys: KeyRing, url: str, row: str) -> str:
    """Only if it has credentials: other addresses can be read by everyone who may see the module."""
    return _TEXT + _encode(keys.encrypt(url.encode(), _git_place(row))) if "@" in url else url


def unseal_url(keys: KeyRing, stored: str, row: str) -> str:
    return keys.decrypt(_decode(stored), _git_place(row)).decode() if stored.startswith(_TEXT) else stored


def seal_env(keys: KeyRing, env: Sequence[Mapping[str, Any]], place: str) -> list[dict[str, Any]]:
    return _with_values(env, place, lambda value, where: seal(keys, value, where) if _token(value) is None else value)


def unseal_env(keys: KeyRing, env: Sequence[Mapping[str, Any]], place: str) -> list[dict[str, Any]]:
    return _with_values(env, place, lambda value, where: unseal(keys, value, where))


def seal_document(keys: KeyRing, document: Mapping[str, Any], row: str) -> dict[str, Any]:
    return _with_env(document, row, lambda env, place: seal_env(keys, env, place))


def unseal_document(keys: KeyRing, document: Mapping[str, Any], row: str) -> dict[str, Any]:
    return _with_env(document, row, lambda env, place: unseal_env(keys, env, place))


def env_place(row: str) -> str:
    """Of a module's version."""
    return f"module_versions.env/{row}"


def order_place(row: str) -> str:
    """Of the Secret of a run that is to be created."""
    return f"run_orders.secret/{row}"


def webhook_place(row: str) -> str:
    return f"webhooks.target/{row}"


def check_keys(connection: Connection) -> None:
    """Raises EncryptionError if the values were sealed with a key that is not there."""
    used = _state(connection)
    if used and not keys_of(connection).has(used):
        raise keys_of(connection).missing(used)


class SealedColumn(NamedTuple):
    table: Table
    key: Column[str]
    column: Column[Any]
    reseal: Callable[[KeyRing, Any, str], Any]
    """Given the stored value and the row: as it has to be stored."""


COLUMNS: Final = (
    SealedColumn(
        versions,
        versions.c.id,
        versions.c.document,
        lambda keys, stored, row: seal_document(keys, unseal_document(keys, stored, row), row),
    ),
    SealedColumn(
        module_versions,
        module_versions.c.id,
        module_versions.c.env,
        lambda keys, stored, row: seal_env(keys, unseal_env(keys, stored, env_place(row)), env_place(row)),
    ),
    SealedColumn(
        module_versions,
        module_versions.c.id,
        module_versions.c.git_url,
        lambda keys, stored, row: seal_url(keys, unseal_url(keys, stored, row), row),
    ),
    SealedColumn(
        run_orders,
        run_orders.c.run_id,
        run_orders.c.secret,
        lambda keys, stored, row: seal(keys, unseal(keys, stored, order_place(row)), order_place(row)),
    ),
    SealedColumn(
        webhooks,
        webhooks.c.id,
        webhooks.c.target,
        lambda keys, stored, row: seal(keys, unseal(keys, stored, webhook_place(row)), webhook_place(row)),
    ),
)


def needs_resealing(connection: Connection) -> bool:
    """Whether values may be there that are not sealed with the current key."""
    return _state(connection) != keys_of(connection).current


def reseal_some(connection: Connection, column: SealedColumn, after: str, limit: int = 200) -> str:
    """Seals rows after this one that are not sealed with the current key. Returns the last one; '' if there are none.
    It may be interrupted and repeated at any time."""
    keys = keys_of(connection)
    query = select(column.key, column.column).where(column.key > after).order_by(column.key).limit(limit)
    rows = connection.execute(query).all()
    for row, stored in rows:
        if outdated(stored, keys.current):
            try:
                sealed = column.reseal(keys, stored, row)
            except EncryptionError as error:
                log.error("%s", error)
                continue
            values = {column.column: sealed}
            if column.table is versions:  # older releases hashed secrets, too
                values[versions.c.hash] = content_hash(mask_secrets(stored))
            connection.execute(update(column.table).where(column.key == row).values(values))
    return rows[-1][0] if rows else ""


def finish_resealing(connection: Connection) -> None:
    """Remembers that every value is sealed with the current key."""
    key = keys_of(connection).current
    done = connection.execute(update(settings).where(settings.c.key == _STATE).values(value=key))
    if not done.rowcount:
        connection.execute(insert(settings).values(key=_STATE, value=key))


def outdated(stored: Any, key: str) -> bool:
    """Whether it contains a secret that is not sealed with this key."""
    if isinstance(stored, str):
        return key_of(_decode(stored)) != key if stored.startswith(_TEXT) else "@" in stored
    token = _token(stored)
    if token is not None:
        return key_of(token) != key
    if isinstance(stored, Mapping) and stored.get("kind") == "Secret":
        return True
    lists = [stored] if isinstance(stored, list) else [node.get("env") or () for node in stored.get("nodes") or ()]
    variables = [variable for each in lists for variable in each]
    secrets = [variable.get("value") for variable in variables if variable.get("secret") and variable.get("value")]
    return any(token is None or key_of(token) != key for token in map(_token, secrets))


def _state(connection: Connection) -> str:
    return str(connection.execute(select(settings.c.value).where(settings.c.key == _STATE)).scalar_one_or_none() or "")


def _with_env(
    document: Mapping[str, Any], row: str, change: Callable[[Sequence[Mapping[str, Any]], str], list[dict[str, Any]]]
) -> dict[str, Any]:
    nodes = document.get("nodes")
    if not isinstance(nodes, list):
        return dict(document)
    changed = [
        {**node, "env": change(node["env"], f"versions.document/{row}/{node.get('name')}")} if node.get("env") else node
        for node in nodes
    ]
    return {**document, "nodes": changed}


def _with_values(
    env: Sequence[Mapping[str, Any]], place: str, change: Callable[[Any, str], Any]
) -> list[dict[str, Any]]:
    return [
        {**variable, "value": change(variable["value"], f"{place}/{variable.get('name')}")}
        if variable.get("secret") and variable.get("value")
        else dict(variable)
        for variable in env
    ]


def _token(stored: Any) -> bytes | None:
    """What is sealed in a JSON value; None if it is a plain value."""
    if isinstance(stored, Mapping) and stored.keys() == {_SEALED}:
        return _decode(str(stored[_SEALED]))
    return None


def _encode(token: bytes) -> str:
    return base64.b64encode(token).decode()


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text.removeprefix(_TEXT), validate=True)
    except binascii.Error:
        return b""


def _git_place(row: str) -> str:
    return f"module_versions.git_url/{row}"
