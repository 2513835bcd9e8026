"""What namespaces hold so that runs can run in them."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

import pytest
import yaml

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import CONFIG_MAP, NAMESPACE, ROLE, SECRET, SERVICE_ACCOUNT, new_catalogue
from muster.kube.objects import Object, name_of
from muster.platform.namespace_objects import (
    NamespaceParts,
    artifact_repository,
    plan_objects,
    run_account,
    run_rules,
    sync_objects,
)
from muster.platform.settings import S3Settings
from muster.training.registry import training_kinds

S3 = S3Settings("s3:9000", "muster-{namespace}", insecure=True, access_key="key", secret_key="secret")


def test_the_repository_is_one_that_argo_reads() -> None:
    secret, config = artifact_repository("team-a", S3)
    assert {name: b64decode(value) for name, value in secret["data"].items()} == {
        "accessKey": b"key",
        "secretKey": b"secret",
    }
    default = config["metadata"]["annotations"]["workflows.argoproj.io/default-artifact-repository"]
    assert name_of(config) == "artifact-repositories"
    assert yaml.safe_load(config["data"][default]) == {
        "archiveLogs": True,
        "s3": {
            "endpoint": "s3:9000",
            "bucket": "muster-team-a",
            "insecure": True,
            "keyFormat": "{{workflow.namespace}}/{{workflow.name}}/"
            "{{workflow.annotations.muster.dev/retries}}/{{pod.name}}",
            "accessKeySecret": {"name": "muster-artifacts", "key": "accessKey"},
            "secretKeySecret": {"name": "muster-artifacts", "key": "secretKey"},
        },
    }


def test_keys_of_a_namespace_of_its_own_are_not_distributed() -> None:
    (config,) = artifact_repository("team-a", S3Settings("s3", "b", secret_name="own"))
    assert yaml.safe_load(config["data"]["muster"])["s3"]["accessKeySecret"] == {"name": "own", "key": "accessKey"}


def test_runs_may_report_results_and_create_training_jobs_and_nothing_else() -> None:
    rules = run_rules()
    allowed = {(group, name) for rule in rules for group in rule["apiGroups"] for name in rule["resources"]}
    kinds = {(kind.group, kind.plural) for kind in training_kinds()}
    assert allowed == {("argoproj.io", "workflowtaskresults"), *kinds}
    assert not any("delete" in rule["verbs"] or "*" in rule["verbs"] for rule in rules)


@pytest.mark.parametrize(
    ("there", "wanted", "changes"),
    [
        ([], run_account("a"), (3, 0, 0, 0)),
        (run_account("a"), run_account("a"), (0, 0, 0, 0)),
        (run_account("a"), [], (0, 0, 0, 3)),
        (run_account("a"), run_account("b"), (3, 0, 0, 3)),
        (
            artifact_repository("a", S3),
            artifact_repository("a", S3Settings("other", "b", access_key="k", secret_key="s")),
            (0, 2, 0, 0),
        ),
    ],
)
def test_only_what_differs_is_changed(
    there: list[Object], wanted: list[Object], changes: tuple[int, int, int, int]
) -> None:
    found = plan_objects(there, wanted)
    assert (len(found.create), len(found.patch), len(found.replace), len(found.delete)) == changes


def test_what_cannot_be_changed_is_replaced() -> None:
    binding = run_account("a")[2]
    annotations = {**binding["metadata"]["annotations"], "muster.dev/content": "old"}
    old = {**binding, "metadata": {**binding["metadata"], "annotations": annotations}, "roleRef": {"name": "another"}}
    assert plan_objects([old], [binding]).replace == [binding]


async def test_the_cluster_follows(tmp_path: Path) -> None:
    async with EmbeddedCluster(tmp_path / "cluster", new_catalogue(), durability="process") as cluster:
        await cluster.create({"apiVersion": NAMESPACE.api_version, "kind": "Namespace", "metadata": {"name": "a"}})
        parts = NamespaceParts(run_account=True, repository=S3)
        assert await sync_objects(cluster, parts.objects("a"), {"a"}) == {}
        before = await cluster.get(ROLE, "muster-run", "a")
        assert await sync_objects(cluster, parts.objects("a"), {"a"}) == {}
        assert await cluster.get(ROLE, "muster-run", "a") == before, "nothing was written"
        other = NamespaceParts(run_account=True, repository=S3Settings("new:1", "b", secret_name="own"))
        assert await sync_objects(cluster, other.objects("a"), {"a"}) == {}
        assert "new:1" in (await cluster.get(CONFIG_MAP, "artifact-repositories", "a"))["data"]["muster"]
        assert not (await cluster.list(SECRET, "a")).items, "keys that are no longer used are removed"
        assert set(await sync_objects(cluster, parts.objects("missing"), {"missing"})) == {"missing"}


async def test_namespaces_of_another_platform_are_left_alone(tmp_path: Path) -> None:
    """Two platforms may share a cluster. A service account that is deleted and made again has tokens that no longer
    count, and Pods that run with them fail."""
    async with EmbeddedCluster(tmp_path / "cluster", new_catalogue(), durability="process") as cluster:
        for name in ("mine", "theirs"):
            await cluster.create({"apiVersion": NAMESPACE.api_version, "kind": "Namespace", "metadata": {"name": name}})
        parts = NamespaceParts(run_account=True, repository=S3)
        assert await sync_objects(cluster, parts.objects("theirs"), {"theirs"}) == {}
        before = await cluster.get(SERVICE_ACCOUNT, "muster-run", "theirs")
        assert await sync_objects(cluster, parts.objects("mine"), {"mine"}) == {}
        assert await cluster.get(SERVICE_ACCOUNT, "muster-run", "theirs") == before
        assert await sync_objects(cluster, [], {"mine"}) == {}
        assert not [each for each in (await cluster.list(SERVICE_ACCOUNT, "mine")).items if name_of(each) != "default"]
