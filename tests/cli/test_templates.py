"""`muster templates` as users run it."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.cli.errors import CommandError
from muster.cli.session import Session
from muster.cli.templates import install_bundle
from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import new_catalogue
from muster.kube.manifests import load_manifests
from muster.kube.objects import name_of
from tests.cli.commands import Muster

TEMPLATES = ["aihc-training-job", "mlp-cooker-training-job"]


def test_list_names_the_templates_of_each_bundle(muster: Muster) -> None:
    header, *rows = muster("templates", "list").ok().out.splitlines()
    assert header.split() == ["BUNDLE", "TEMPLATE", "DESCRIPTION"]
    assert [row.split()[:2] for row in rows] == [["mlp-cooker", name] for name in TEMPLATES]


def test_show_prints_manifests_for_kubectl(muster: Muster) -> None:
    shown = muster("templates", "show", "mlp-cooker").ok().out
    assert [name_of(document.object) for document in load_manifests(shown, "shown")] == TEMPLATES


@pytest.mark.parametrize(
    ("bundle", "hint"), [("mlp-coker", "did you mean mlp-cooker?"), ("nothing", "use one of mlp-cooker")]
)
def test_a_bundle_that_does_not_exist(muster: Muster, bundle: str, hint: str) -> None:
    failed = muster("templates", "install", bundle)
    assert failed.code == 1
    assert failed.err == f'error: there is no bundle of templates "{bundle}"; {hint}\n'


async def test_a_cluster_without_argo(tmp_path: Path) -> None:
    async with EmbeddedCluster(tmp_path, new_catalogue(), durability="process") as cluster:
        with pytest.raises(CommandError, match="the cluster has no WorkflowTemplates; install Argo Workflows first"):
            await install_bundle(Session(cluster, "default"), "mlp-cooker")
