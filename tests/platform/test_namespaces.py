"""Namespaces on the cluster follow the database, whatever happened in between."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import Connection

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import NAMESPACE, PERSISTENT_VOLUME_CLAIM, ROLE_BINDING, SERVICE_ACCOUNT, new_catalogue
from muster.kube.errors import Forbidden, NotFound, Unavailable
from muster.kube.objects import Object, labels_of
from muster.kube.pod_security import read_grants
from muster.kube.rbac import AUTHENTICATED, MASTERS
from muster.platform.database.database import Database
from muster.platform.namespace_objects import NamespaceParts
from muster.platform.namespaces import NamespaceOwner, Namespaces, change_for, cluster_user, is_foreign
from muster.platform.permissions import SYSTEM, Actor
from muster.platform.resources.resources import NewRoot, create_root, delete_root
from muster.platform.users.accounts import insert_user
from muster.platform.users.teams import create_team, delete_team, set_member


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(tmp_path / "cluster", new_catalogue(), durability="process") as cluster:
        yield cluster


def namespace(name: str, **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


async def test_what_is_missing_or_was_changed_is_restored(database: Database, cluster: EmbeddedCluster) -> None:
    """A server that was killed between two steps, or an admin who removed a label: the next look repairs it."""

    def people(connection: Connection) -> None:
        insert_user(connection, SYSTEM, "ann")
        insert_user(connection, SYSTEM, "root", admin=True)
        team = create_team(connection, SYSTEM, "vision")
        set_member(connection, SYSTEM, team.id, "ann", "member")
        create_root(connection, SYSTEM, NewRoot("data", "/data", team="vision"))
        create_root(connection, SYSTEM, NewRoot("reference", "/reference", read_only=True))

    await database.write(people)
    namespaces = Namespaces(database, cluster)
    await namespaces.sync()
    for name, paths in (
        ("user-ann", {"/data": False, "/reference": True}),
        ("team-vision", {"/data": False, "/reference": True}),
    ):
        found = await cluster.get(NAMESPACE, name)
        assert labels_of(found)["muster.dev/isolation"] == "restricted"
        assert read_grants(found).paths == paths
    assert "muster.dev/isolation" not in labels_of(await cluster.get(NAMESPACE, "user-root"))
    with pytest.raises(NotFound):
        await cluster.get(ROLE_BINDING, "muster-member", "user-root")

    await cluster.patch(NAMESPACE, "user-ann", "", {"metadata": {"labels": {"muster.dev/isolation": None}}})
    await cluster.delete(ROLE_BINDING, "muster-member", "user-ann")
    await database.write(lambda connection: delete_root(connection, SYSTEM, "data"))
    await Namespaces(database, cluster).sync()
    found = await cluster.get(NAMESPACE, "user-ann")
    assert labels_of(found)["muster.dev/isolation"] == "restricted"
    assert read_grants(found).paths == {"/reference": True}
    binding = await cluster.get(ROLE_BINDING, "muster-member", "user-ann")
    assert binding["subjects"][0]["name"].startswith("muster:user:")


async def test_a_namespace_of_somebody_else_is_not_taken(database: Database, cluster: EmbeddedCluster) -> None:
    """An account whose namespace would be one that exists on the cluster does not get its content."""
    await cluster.create(namespace("user-ann"))
    await database.write(lambda connection: insert_user(connection, SYSTEM, "ann"))
    namespaces = Namespaces(database, cluster)
    with pytest.raises(Forbidden, match="does not belong to the platform"):
        await namespaces.ensure("user-ann")
    assert not [name for name in labels_of(await cluster.get(NAMESPACE, "user-ann")) if name.startswith("muster.dev/")]


async def test_the_namespace_of_a_deleted_team_is_deleted_when_no_volume_is_left(
    database: Database, cluster: EmbeddedCluster
) -> None:
    await database.write(lambda connection: create_team(connection, SYSTEM, "vision"))
    namespaces = Namespaces(database, cluster)
    await namespaces.sync()
    await cluster.get(NAMESPACE, "team-vision")
    metadata = {"name": "lab-home", "namespace": "team-vision"}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await cluster.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})
    await database.write(lambda connection: delete_team(connection, SYSTEM, "vision"))
    await namespaces.sync()
    assert "deletionTimestamp" not in (await cluster.get(NAMESPACE, "team-vision"))["metadata"]
    await cluster.delete(PERSISTENT_VOLUME_CLAIM, "lab-home", "team-vision")
    await namespaces.sync()
    assert "deletionTimestamp" in (await cluster.get(NAMESPACE, "team-vision"))["metadata"]


@pytest.mark.parametrize(
    ("there", "owner", "expected"),
    [
        (namespace("user-a", **{"muster.dev/owner": "1"}), NamespaceOwner("1"), False),
        (namespace("user-a", **{"muster.dev/owner": "2"}), NamespaceOwner("1"), True),
        (namespace("user-a", **{"muster.dev/team": "1"}), NamespaceOwner("1"), True),
        (namespace("user-a"), NamespaceOwner("1"), True),
        (namespace("default"), NamespaceOwner("1"), False),
    ],
)
def test_a_namespace_belongs_to_its_label(there: Object, owner: NamespaceOwner, expected: bool) -> None:
    assert is_foreign(there, owner) is expected


def test_only_what_differs_is_patched() -> None:
    wanted = namespace("a", **{"muster.dev/owner": "1", "muster.dev/isolation": "restricted"})
    assert change_for(wanted, wanted) is None
    assert change_for(namespace("a", **{"muster.dev/owner": "1"}), wanted) == {
        "metadata": {"labels": {"muster.dev/isolation": "restricted"}, "annotations": {}}
    }
    free = namespace("a", **{"muster.dev/owner": "1"})
    assert change_for(wanted, free) == {"metadata": {"labels": {"muster.dev/isolation": None}, "annotations": {}}}


@pytest.mark.parametrize(
    ("actor", "groups"),
    [
        (Actor("1", "ann", teams={"t": "member"}), {AUTHENTICATED, "muster:user:1", "muster:team:t"}),
        (Actor("1", "ann", scopes=frozenset({"read"})), {AUTHENTICATED}),
        (Actor("1", "ann", admin=True, scopes=frozenset({"read", "write"})), {AUTHENTICATED, "muster:user:1"}),
        (Actor("1", "ann", admin=True), {AUTHENTICATED, "muster:user:1", MASTERS}),
        (Actor("1", "ann", scopes=frozenset({"run"}), run="r"), None),
    ],
)
def test_the_rights_of_a_token_on_the_cluster(actor: Actor, groups: set[str] | None) -> None:
    user = cluster_user(actor)
    assert (None if user is None else user.groups) == groups


async def test_a_run_waits_until_its_namespace_has_everything(
    database: Database, cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The namespace alone is not enough: a Pod without its service account would fail for good."""
    await database.write(lambda connection: insert_user(connection, SYSTEM, "ann"))
    namespaces = Namespaces(database, cluster, parts=NamespaceParts(run_account=True))
    create = cluster.create

    async def without_accounts(obj: Object, *, dry_run: bool = False) -> Object:
        if obj["kind"] == "ServiceAccount":
            raise Unavailable("not now")
        return await create(obj, dry_run=dry_run)

    monkeypatch.setattr(cluster, "create", without_accounts)
    with pytest.raises(Unavailable, match="does not have all that runs need"):
        await namespaces.ensure("user-ann")
    assert await cluster.get(NAMESPACE, "user-ann")
    monkeypatch.setattr(cluster, "create", create)
    await namespaces.ensure("user-ann")
    assert await cluster.get(SERVICE_ACCOUNT, "muster-run", "user-ann")
