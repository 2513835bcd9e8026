"""Secrets at rest: whoever gets a copy of a database must not get what is secret in it."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import Connection, insert, select, update

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.store.database import Database as StoreDatabase
from muster.embedded.store.database import Row, StoreUnreadable
from muster.kube.builtin import SECRET, new_catalogue
from muster.kube.encryption import KEY_FILE, KEY_VARIABLE, EncryptionError, KeyRing, add_key, key_of, new_key
from muster.platform.database.database import Database, DatabaseError, sqlite_url
from muster.platform.database.encrypted_columns import seal, seal_document, unseal, unseal_document
from muster.platform.database.tables import module_versions, now, run_orders, runs, settings, users, versions, workflows
from muster.platform.graphs.document import content_hash, to_canonical
from muster.platform.runs.controller import RunController
from muster.platform.runs.create import find_requests
from muster.server.pidfile import claim_home
from tests.platform.graphs.samples import graph, node
from tests.server.platform.served import Served, serving

HIDDEN = "hunter2-the-secret-value"
ENV = [{"name": "API_TOKEN", "value": HIDDEN, "secret": True}, {"name": "ROWS", "value": "1000"}]
DOCUMENT: dict[str, Any] = to_canonical(graph(node("train", env=ENV)))


@pytest.fixture
async def served(tmp_path: Path, migrated_sqlite: Path) -> AsyncIterator[Served]:
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(migrated_sqlite, home / "platform.db")
    keys = KeyRing.load(home / KEY_FILE)
    database = await Database.open(sqlite_url(home / "platform.db"), keys=keys, survives_power_cut=False)
    try:
        async with serving(database, home) as running:
            yield running
    finally:
        database.close()


def everything(folder: Path) -> bytes:
    """All that is in the files of a folder, except the key."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.name != KEY_FILE)


def appears(folder: Path, text: str = HIDDEN) -> bool:
    whole = everything(folder)
    return text.encode() in whole or base64.b64encode(text.encode()) in whole


async def test_secret_variables_of_a_version(served: Served) -> None:
    """A copy of platform.db shows the secret environment variables of workflows"""
    made = await served.admin.post("workflows", {"name": "w", "version": {"document": DOCUMENT}})
    shown = await served.admin.get(f"workflows/{made['workflow_id']}/versions/latest")
    assert HIDDEN in orjson.dumps(shown).decode(), "its owner can still read it"
    assert not appears(served.folder.parent)


async def test_hash_of_a_version(served: Served) -> None:
    """A member guesses a secret by the hash of the version, which all users see"""
    document = await _stored_document(served, "one", HIDDEN)
    other = await _stored_document(served, "two", "another value")
    assert document["hash"] == other["hash"]


async def _stored_document(served: Served, name: str, value: str) -> Any:
    document = orjson.loads(orjson.dumps(DOCUMENT).replace(HIDDEN.encode(), value.encode()))
    made = await served.admin.post("workflows", {"name": name, "version": {"document": document}})
    return made["version"]


async def test_module_secrets(served: Served) -> None:
    """A copy of platform.db shows the secrets and the git password of a module"""
    category = (await served.admin.post("categories", {"name": "c"}))["id"]
    source = {
        "git_url": f"https://robot:{HIDDEN}@git.example/x.git",
        "git_ref": "main",
        "env": [{"name": "API_TOKEN", "value": HIDDEN, "secret": True}],
    }
    made = await served.admin.post("modules", {"name": "m", "category": category, **source})
    assert made, "it is created"
    rows = await served.platform.database.read(
        lambda connection: connection.execute(select(module_versions.c.git_url, module_versions.c.env)).all()
    )
    assert HIDDEN not in str(rows)
    assert not appears(served.folder.parent)


async def test_run_orders(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of platform.db shows the Secret of a run that waits to be created"""
    made = await served.admin.post("workflows", {"name": "w", "version": {"document": DOCUMENT}})

    async def begin_later(controller: RunController, run_id: str) -> None:
        """As if the server were killed before the Secret is created."""

    monkeypatch.setattr(RunController, "begin", begin_later)
    run = (await served.admin.post("runs", {"workflow": made["workflow_id"]}))["id"]
    (request,) = await served.platform.database.read(find_requests)
    assert request.run_id == run
    assert base64.b64encode(HIDDEN.encode()).decode() in str(request.secret), "the next start can read it"
    assert not appears(served.folder.parent)


async def test_secret_objects(tmp_path: Path) -> None:
    """A copy of the cluster's database shows Kubernetes Secrets, also those that were changed or deleted"""
    async with EmbeddedCluster(tmp_path / "store", new_catalogue(), durability="process") as cluster:
        for name in ("kept", "gone"):
            await cluster.create(_secret(name, HIDDEN))
        await cluster.patch(SECRET, "kept", "default", {"stringData": {"password": f"{HIDDEN} changed"}})
        await cluster.delete(SECRET, "gone", "default")
    assert not appears(tmp_path / "store")
    assert base64.b64encode(HIDDEN.encode())[:20] not in everything(tmp_path / "store")
    async with EmbeddedCluster(tmp_path / "store", new_catalogue(), durability="process") as cluster:
        found = await cluster.get(SECRET, "kept", "default")
        assert base64.b64decode(found["data"]["password"]).decode() == f"{HIDDEN} changed"


def _secret(name: str, value: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "default"},
        "data": {"password": base64.b64encode(value.encode()).decode()},
    }


def test_secrets_of_an_older_release(tmp_path: Path) -> None:
    """The file still has the Secrets that an older release wrote in plain text, in rows and in free pages"""
    path = tmp_path / "cluster.db"
    with StoreDatabase(path, format=1)._connection as connection:
        for version, resource in ((1, "secrets"), (2, "pods"), (3, "secrets")):
            row = Row(version, resource, "default", f"x{version}", 0, orjson.dumps({"data": HIDDEN * 50}))
            connection.execute("INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        connection.execute("DELETE FROM versions WHERE version IN (2, 3)")
    connection.close()
    assert appears(tmp_path)
    database = StoreDatabase(path)
    assert [orjson.loads(row.object)["data"] for row in database.rows()] == [HIDDEN * 50]
    database.close()
    assert not appears(tmp_path)


@pytest.mark.parametrize("when", ["rows", "vacuum"], ids=lambda when: f"The server is killed while it encrypts: {when}")
def test_killed_migration(tmp_path: Path, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cluster.db"
    old = StoreDatabase(path, format=1)
    rows = [(version, "secrets", "ns", f"x{version}", 0, orjson.dumps({"data": HIDDEN})) for version in range(1, 50)]
    old._connection.executemany("INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?, NULL)", rows)
    old.close()
    script = f"""
import os, signal, sqlite3
from muster.embedded.store import database
class Killed(sqlite3.Connection):
    def executemany(self, sql, rows):
        if {when!r} == "rows":
            super().execute(sql, rows[0])
            os.kill(os.getpid(), signal.SIGKILL)
        return super().executemany(sql, rows)
    def execute(self, sql, *more):
        if {when!r} == "vacuum" and sql == "VACUUM":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().execute(sql, *more)
connect = sqlite3.connect
sqlite3.connect = lambda *a, **k: connect(*a, factory=Killed, **k)
from pathlib import Path
database.Database(Path({str(path)!r}))
"""
    killed = subprocess.run([sys.executable, "-c", script], check=False)
    assert killed.returncode == -signal.SIGKILL
    database = StoreDatabase(path)
    assert [orjson.loads(row.object)["data"] for row in database.rows()] == [HIDDEN] * 49
    database.close()
    assert not appears(tmp_path)


async def test_platform_rows_of_an_older_release(tmp_path: Path, migrated_sqlite: Path) -> None:
    """platform.db still has the secrets that an older release wrote in plain text, in rows and in free pages"""
    folder = tmp_path / "platform"
    folder.mkdir()
    shutil.copy(migrated_sqlite, folder / "platform.db")
    _write_as_older_release(folder / "platform.db")
    assert appears(folder)
    keys = KeyRing.load(tmp_path / KEY_FILE)
    database = await Database.open(sqlite_url(folder / "platform.db"), keys=keys)
    await database.reseal()
    hashed = await database.read(lambda connection: connection.execute(select(versions.c.hash)).scalar_one())
    stored = await database.read(lambda connection: connection.execute(select(versions.c.document)).scalar_one())
    database.close()
    assert not appears(folder)
    assert unseal_document(keys, stored, "v1") == DOCUMENT
    assert hashed != content_hash(DOCUMENT), "the hash no longer depends on the secret"
    again = await Database.open(sqlite_url(folder / "platform.db"), keys=KeyRing.load(tmp_path / KEY_FILE))
    await again.reseal()
    kept = await again.read(lambda connection: connection.execute(select(versions.c.document)).scalar_one())
    again.close()
    assert kept == stored, "nothing is left to do"


def _write_as_older_release(path: Path) -> None:
    from sqlalchemy import create_engine

    engine = create_engine(sqlite_url(path))
    at = now()
    with engine.begin() as connection:
        connection.execute(
            insert(users).values(
                id="u1", name="ann", display_name="", email="", admin=False, disabled=False, issuer="", created=at,
                revision=1,
            )
        )  # fmt: skip
        connection.execute(
            insert(workflows).values(
                id="w1", name="w", description="", owner_id="u1", created=at, updated=at, versions=1, revision=1
            )
        )
        connection.execute(
            insert(versions).values(
                id="v1", workflow_id="w1", number=1, name="v1", description="", type="graph", document=DOCUMENT,
                hash=content_hash(DOCUMENT), nodes=1, author_id="u1", copied_from="", created=at,
            )
        )  # fmt: skip
        connection.execute(
            insert(runs).values(
                id="r1", name="r", workflow_id="w1", version_id="v1", owner_id="u1", parameters={}, copied_from="",
                state="waiting", message="", nodes=0, done=0, retries=0, created=at, seen="", revision=1,
            )
        )  # fmt: skip
        connection.execute(
            insert(run_orders).values(run_id="r1", workflow={}, secret=_secret("r1", HIDDEN), created=at)
        )
    engine.dispose()


async def test_lost_key(tmp_path: Path, migrated_sqlite: Path) -> None:
    """The key file is lost: the server says which file, and changes nothing"""
    shutil.copy(migrated_sqlite, tmp_path / "platform.db")
    url = sqlite_url(tmp_path / "platform.db")
    database = await Database.open(url, keys=KeyRing.load(tmp_path / KEY_FILE))
    await database.reseal()
    database.close()
    (tmp_path / KEY_FILE).rename(tmp_path / "elsewhere")
    before = (tmp_path / "platform.db").read_bytes()
    with pytest.raises(DatabaseError, match=rf"{tmp_path / KEY_FILE} does not exist: restore it from a backup"):
        await Database.open(url, keys=KeyRing.load(tmp_path / KEY_FILE))
    assert not (tmp_path / KEY_FILE).exists(), "no other key takes its place"
    assert (tmp_path / "platform.db").read_bytes() == before
    (tmp_path / "elsewhere").rename(tmp_path / KEY_FILE)
    (await Database.open(url, keys=KeyRing.load(tmp_path / KEY_FILE))).close()


async def test_lost_key_of_the_cluster(tmp_path: Path) -> None:
    """The key file of the cluster is lost or another one: the server says which file, and changes nothing"""
    async with EmbeddedCluster(tmp_path, new_catalogue(), durability="process") as cluster:
        await cluster.create(_secret("a", HIDDEN))
    key = (tmp_path / KEY_FILE).read_text()
    (tmp_path / KEY_FILE).write_text(new_key())
    with pytest.raises(StoreUnreadable, match=rf"{tmp_path / KEY_FILE} does not have it: restore it from a backup"):
        EmbeddedCluster(tmp_path, new_catalogue())
    (tmp_path / KEY_FILE).write_text(key)
    async with EmbeddedCluster(tmp_path, new_catalogue(), durability="process") as cluster:
        await cluster.get(SECRET, "a", "default")


@pytest.mark.parametrize(
    ("sealed_for", "read_as"),
    [
        pytest.param(
            "versions.document/v1/a/X", "versions.document/v2/a/X", id="A sealed value is copied to another row"
        ),
        pytest.param(
            "versions.document/v1/a/X", "versions.document/v1/b/X", id="A sealed value is copied to another node"
        ),
        pytest.param("run_orders.secret/r1", "module_versions.env/r1", id="A sealed value is copied to another column"),
    ],
)
def test_copied_values(tmp_path: Path, sealed_for: str, read_as: str) -> None:
    keys = KeyRing.load(tmp_path / KEY_FILE)
    stored = seal(keys, HIDDEN, sealed_for)
    assert unseal(keys, stored, sealed_for) == HIDDEN
    with pytest.raises(EncryptionError, match="copied from another place"):
        unseal(keys, stored, read_as)


def test_changed_value(tmp_path: Path) -> None:
    """An attacker with write access to the database changes a sealed value"""
    keys = KeyRing.load(tmp_path / KEY_FILE)
    stored = bytearray(keys.encrypt(b"x" * 40, "place"))
    stored[-1] ^= 1
    with pytest.raises(EncryptionError, match="was changed"):
        keys.decrypt(bytes(stored), "place")


async def test_copied_row_over_the_api(served: Served) -> None:
    """An attacker with write access to the database moves another user's sealed secret into their own version"""
    theirs = await served.admin.post("workflows", {"name": "theirs", "version": {"document": DOCUMENT}})
    mallory = await served.user("mallory")
    mine = await mallory.post("workflows", {"name": "mine", "version": {"document": DOCUMENT}})

    def copy(connection: Connection) -> None:
        document = connection.execute(
            select(versions.c.document).where(versions.c.id == theirs["version"]["id"])
        ).scalar_one()
        connection.execute(update(versions).where(versions.c.id == mine["version"]["id"]).values(document=document))

    await served.platform.database.write(copy)
    refused = await mallory("GET", f"workflows/{mine['workflow_id']}/versions/latest")
    assert refused.refused(503)["code"] == "encryption"


async def test_rotation(tmp_path: Path, migrated_sqlite: Path) -> None:
    """A key that leaked is replaced: afterwards it decrypts nothing that is in the databases"""
    shutil.copy(migrated_sqlite, tmp_path / "platform.db")
    _write_as_older_release(tmp_path / "platform.db")
    url = sqlite_url(tmp_path / "platform.db")
    database = await Database.open(url, keys=KeyRing.load(tmp_path / KEY_FILE))
    await database.reseal()
    database.close()
    async with EmbeddedCluster(tmp_path / "store", new_catalogue(), keys=KeyRing.load(tmp_path / KEY_FILE)) as cluster:
        await cluster.create(_secret("a", HIDDEN))
    new = add_key(tmp_path / KEY_FILE)
    ring = KeyRing.load(tmp_path / KEY_FILE)
    assert (ring.current, ring.has_old_keys) == (new, True)
    database = await Database.open(url, keys=ring)
    await database.reseal()
    document = await database.read(lambda connection: connection.execute(select(versions.c.document)).scalar_one())
    order = await database.read(lambda connection: connection.execute(select(run_orders.c.secret)).scalar_one())
    database.close()
    async with EmbeddedCluster(tmp_path / "store", new_catalogue(), keys=ring):
        pass
    only_new = (tmp_path / KEY_FILE).read_text().splitlines()[0]
    (tmp_path / KEY_FILE).write_text(only_new)
    ring = KeyRing.load(tmp_path / KEY_FILE)
    assert unseal_document(ring, document, "v1") == DOCUMENT
    assert unseal(ring, order, "run_orders.secret/r1") == _secret("r1", HIDDEN)
    async with EmbeddedCluster(tmp_path / "store", new_catalogue(), keys=ring) as cluster:
        await cluster.get(SECRET, "a", "default")
    with sqlite3.connect(tmp_path / "store" / "cluster.db") as connection:
        used = {key_of(row[0]) for row in connection.execute("SELECT object FROM versions WHERE resource = 'secrets'")}
    connection.close()
    assert used == {new}


def test_key_file_of_others(tmp_path: Path) -> None:
    """Other accounts of the machine read the key file"""
    ring = KeyRing.load(tmp_path / KEY_FILE)
    old = os.umask(0)
    try:
        ring.encrypt(b"", "")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600
    (tmp_path / KEY_FILE).chmod(0o644)
    with pytest.raises(EncryptionError, match=f"can be read by other users: run `chmod 600 {tmp_path / KEY_FILE}`"):
        KeyRing.load(tmp_path / KEY_FILE)


def test_key_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key from the environment leaves no file in the data directory"""
    keys = [new_key(), new_key()]
    monkeypatch.setenv(KEY_VARIABLE, ",".join(keys))
    ring = KeyRing.load(tmp_path / KEY_FILE)
    stored = KeyRing(None, [keys[1]]).encrypt(b"old", "p")
    assert ring.decrypt(stored, "p") == b"old"
    assert key_of(ring.encrypt(b"new", "p")) == ring.current == KeyRing(None, [keys[0]]).current
    assert not (tmp_path / KEY_FILE).exists()


@pytest.mark.parametrize(
    "text",
    ["short", "", "#", base64.b64encode(bytes(range(16))).decode(), "!" * 44],
    ids=["a word", "nothing", "a comment", "half a key", "no base64"],
)
def test_malformed_key(tmp_path: Path, text: str) -> None:
    """A key file that was cut off or overwritten is not taken for a key"""
    (tmp_path / KEY_FILE).write_text(text)
    (tmp_path / KEY_FILE).chmod(0o600)
    with pytest.raises(EncryptionError, match=str(tmp_path / KEY_FILE)):
        KeyRing.load(tmp_path / KEY_FILE)


def test_a_text_that_looks_sealed(tmp_path: Path) -> None:
    """A member writes a value that looks like a sealed one, to make a version unreadable or to have it decrypted"""
    keys = KeyRing.load(tmp_path / KEY_FILE)
    looks_sealed = seal(keys, HIDDEN, "versions.document/other/train/X")["$sealed"]
    env = [{"name": "X", "value": looks_sealed, "secret": True}, {"name": "Y", "value": f"sealed:{looks_sealed}"}]
    document = {"nodes": [{"name": "train", "env": env}]}
    assert unseal_document(keys, seal_document(keys, document, "v1"), "v1") == document


async def test_settings_hold_no_key(served: Served) -> None:
    """The database has a hint of the key beside the data"""
    await served.platform.database.reseal()
    stored = await served.platform.database.read(lambda connection: connection.execute(select(settings)).all())
    key = (served.folder.parent / KEY_FILE).read_text().strip()
    assert key not in str(stored)
    assert key.encode() not in everything(served.folder.parent)


def test_files_of_the_data_directory(tmp_path: Path) -> None:
    """Other accounts of the machine read the databases and logs of a data directory that was created too open"""
    home = tmp_path / "home"
    for name in ("store", "platform"):
        (home / name).mkdir(parents=True)
    files = [home / "store" / "cluster.db", home / "platform" / "platform.db-wal", home / "server.log"]
    for path in files:
        path.touch(0o644)
    for path in (home, home / "store", home / "platform"):
        path.chmod(0o755)
    with claim_home(home):
        folders = [stat.S_IMODE(path.stat().st_mode) for path in (home, home / "store", home / "platform")]
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (*files, home / "server.json")]
    assert (set(folders), set(modes)) == ({0o700}, {0o600})


def test_rotate_key_command(tmp_path: Path) -> None:
    """The command that replaces the key loses the old key, shows a key, or leaves it readable for others"""
    home = {"MUSTER_HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    old = KeyRing.load(tmp_path / KEY_FILE)
    stored = old.encrypt(b"x", "place")
    command = [sys.executable, "-m", "muster", "rotate-key"]
    said = subprocess.run(command, env=home, capture_output=True, text=True, check=True).stdout
    ring = KeyRing.load(tmp_path / KEY_FILE)
    assert ring.decrypt(stored, "place") == b"x"
    assert ring.current != old.current
    assert not [key for key in (tmp_path / KEY_FILE).read_text().split() if key in said]
    assert ring.current in said
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600
    refused = subprocess.run(
        command, env={**home, KEY_VARIABLE: new_key()}, capture_output=True, text=True, check=False
    )
    assert refused.returncode != 0
    assert KEY_VARIABLE in refused.stderr
