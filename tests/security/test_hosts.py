"""Names in /etc/hosts: nobody's Pod answers for somebody else's name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster.embedded.node.hosts import HostsFiles, PodHost
from muster.kube.objects import Object

VICTIM, ATTACKER = "127.1.0.1", "127.1.0.66"


def pod(name: str, namespace: str = "team", labels: dict[str, str] | None = None, job: str = "", **spec: Any) -> Object:
    owners = [{"kind": "PyTorchJob", "name": job, "uid": f"uid-{job}", "controller": True}] if job else []
    metadata = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}", "labels": labels or {}}
    return {"metadata": {**metadata, "ownerReferences": owners}, "spec": spec}


def service(name: str, selector: dict[str, str], namespace: str = "team", job: str = "") -> Object:
    owners = [{"kind": "PyTorchJob", "name": job, "uid": f"uid-{job}", "controller": True}] if job else []
    return {
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": owners},
        "spec": {"selector": selector},
    }


class Names:
    """The hosts files of all namespaces, in which `member-*` are restricted."""

    def __init__(self, folder: Path) -> None:
        self.files = HostsFiles(
            folder, lambda: None, is_restricted=lambda name: name.startswith("member-"), reserved=["api.example.com"]
        )
        self._paths: dict[str, str] = {}

    def add(self, given: Object, address: str) -> None:
        self._paths[given["metadata"]["namespace"]] = self.files.add(PodHost.of(given, address))

    def resolve(self, name: str, namespace: str = "team") -> list[str]:
        """All addresses of a name, before and after the file is written anew. Some resolvers use the first one, others
        all."""
        found = self._read(name, namespace)
        self.files.flush()
        for each in self._read(name, namespace):
            if each not in found:
                found.append(each)
        return found

    def text(self, namespace: str = "team") -> str:
        self.files.flush()
        return Path(self._paths[namespace]).read_text()

    def _read(self, name: str, namespace: str) -> list[str]:
        lines = [line.partition("#")[0].split() for line in Path(self._paths[namespace]).read_text().splitlines()]
        return [words[0] for words in lines if words and not words[0].startswith("::") and name in words[1:]]


@pytest.fixture
def names(tmp_path: Path) -> Names:
    return Names(tmp_path)


def test_the_replicas_of_a_job_know_each_other_by_name(names: Names) -> None:
    """Kept working: the replicas of a job know each other by name"""
    labels = {"training.kubeflow.org/job-name": "mnist", "training.kubeflow.org/replica-type": "master"}
    names.files.set_service(service("mnist-master-0", labels, job="mnist"))
    names.add(pod("mnist-master-0", labels=labels, job="mnist"), VICTIM)
    names.add(pod("mnist-worker-0", job="mnist"), "127.1.0.2")
    assert set(names.resolve("mnist-master-0")) == {VICTIM}
    assert names.resolve("mnist-worker-0") == ["127.1.0.2"]


def test_labels_make_a_pod_the_master_of_a_job_of_another_namespace(names: Names) -> None:
    """Labels put a Pod into another user's /etc/hosts as their master"""
    labels = {"training.kubeflow.org/job-name": "mnist", "training.kubeflow.org/replica-type": "master"}
    names.files.set_service(service("mnist-master-0", labels, "member-ada", job="mnist"))
    names.add(pod("mnist-master-0", "member-ada", labels, job="mnist"), VICTIM)
    names.add(pod("mnist-master-0", "member-eve", labels), ATTACKER)
    assert set(names.resolve("mnist-master-0", "member-ada")) == {VICTIM}
    assert ATTACKER not in names.text("member-ada")


def test_labels_make_a_pod_the_master_of_a_job_of_the_same_namespace(names: Names) -> None:
    """Labels make a Pod that a job does not control the master of that job"""
    labels = {"job": "mnist", "role": "master"}
    names.add(pod("aaa", labels=labels), ATTACKER)
    names.files.set_service(service("mnist-master-0", labels, job="mnist"))
    names.add(pod("mnist-master-0", labels=labels, job="mnist"), VICTIM)
    names.files.flush()
    assert set(names.resolve("mnist-master-0")) == {VICTIM}


def test_a_pod_of_another_job_has_the_labels_of_a_master(names: Names) -> None:
    """The Pod of another job has the labels of a master"""
    labels = {"job": "mnist", "role": "master"}
    names.add(pod("evil-master-0", labels=labels, job="evil"), ATTACKER)
    names.add(pod("mnist-master-0", labels=labels, job="mnist"), VICTIM)
    names.files.set_service(service("mnist-master-0", labels, job="mnist"))
    assert set(names.resolve("mnist-master-0")) == {VICTIM}


HOSTNAMES = {
    "another Pod's name, before it starts": ({"hostname": "victim"}, "victim"),
    "localhost": ({"hostname": "localhost"}, "localhost"),
    "ip6-localhost": ({"hostname": "ip6-localhost"}, "ip6-localhost"),
    "a Service of the namespace": ({"hostname": "web"}, "web"),
    "a Service of another namespace": ({"hostname": "db", "subdomain": "shared"}, "db.shared"),
    "the long name of a Service of another namespace": (
        {"hostname": "db", "subdomain": "shared"}, "db.shared.svc.cluster.local",
    ),
    "the API server": ({"hostname": "kubernetes", "subdomain": "default"}, "kubernetes.default"),
    "the API server's long name": (
        {"hostname": "kubernetes", "subdomain": "default"}, "kubernetes.default.svc.cluster.local",
    ),
    "a public domain": ({"hostname": "example", "subdomain": "org"}, "example.org"),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "name"), HOSTNAMES.values(), ids=list(HOSTNAMES))
def test_a_hostname_shadows(names: Names, spec: dict[str, Any], name: str) -> None:
    """A Pod takes the name of another as its hostname and subdomain"""
    names.files.set_service(service("web", {"app": "web"}))
    names.files.set_service(service("db", {"app": "db"}, "shared"))
    names.add(pod("evil", **spec), ATTACKER)
    names.add(pod("victim"), VICTIM)
    names.add(pod("db-0", "shared", {"app": "db"}), "127.1.0.2")
    names.files.flush()
    assert ATTACKER not in names.resolve(name)
    assert ATTACKER in names.resolve("evil")


@pytest.mark.parametrize(
    "name", ["example.org", "localhost", "localhost.localdomain", "api.example.com", "github.com", "x.xn--p1ai"]
)
def test_the_name_of_a_pod_shadows_a_host(names: Names, name: str) -> None:
    """The name of a Pod, which may contain dots, shadows a host that teammates send passwords to"""
    names.add(pod(name), ATTACKER)
    assert ATTACKER not in names.resolve(name)


def test_the_name_of_a_pod_shadows_a_service(names: Names) -> None:
    """The name of a Pod shadows a Service"""
    names.files.set_service(service("db", {"app": "db"}))
    names.add(pod("db-0", labels={"app": "db"}), VICTIM)
    names.add(pod("db"), ATTACKER)
    assert set(names.resolve("db")) == {VICTIM}


def test_a_service_shadows_localhost(names: Names) -> None:
    """A Service shadows localhost"""
    names.files.set_service(service("localhost", {"app": "evil"}))
    names.add(pod("evil", labels={"app": "evil"}), ATTACKER)
    assert ATTACKER not in names.resolve("localhost")


def test_a_service_without_the_namespace_of_its_pods(names: Names) -> None:
    """A Service of one member selects the Pods of another."""
    names.files.set_service(service("all", {"app": "web"}, "member-eve"))
    names.add(pod("web", "member-ada", {"app": "web"}), VICTIM)
    names.add(pod("own", "member-eve"), ATTACKER)
    assert VICTIM not in names.text("member-eve")


def test_members_list_the_services_of_others(names: Names) -> None:
    """A member reads the names of all others' Services in /etc/hosts"""
    names.files.set_service(service("secret-project", {"app": "web"}, "member-ada"))
    names.files.set_service(service("shared", {"app": "web"}))
    names.add(pod("web", "member-ada", {"app": "web"}), VICTIM)
    names.add(pod("web", "team", {"app": "web"}), "127.1.0.2")
    names.add(pod("own", "member-eve"), ATTACKER)
    assert "secret-project" not in names.text("member-eve") + names.text("team")
    assert "secret-project" in names.text("member-ada")
    assert names.resolve("shared.team", "member-eve") == ["127.1.0.2"]


ALIASES = {
    "a line break in the address": {"ip": "10.0.0.1 x\n127.1.0.66 victim", "hostnames": ["a"]},
    "a line break in a name": {"ip": "10.0.0.1", "hostnames": ["a\n127.1.0.66 victim"]},
    "a space in a name": {"ip": "10.0.0.1", "hostnames": ["a\t127.1.0.66 victim"]},
    "a comment": {"ip": "127.1.0.66 victim #", "hostnames": ["a"]},
    "a zone": {"ip": "fe80::1%\n127.1.0.66", "hostnames": ["victim"]},
    "no text": {"ip": None, "hostnames": [None, 5, "victim"]},
}


@pytest.mark.parametrize("alias", ALIASES.values(), ids=list(ALIASES))
def test_a_host_alias_starts_another_line(names: Names, alias: dict[str, Any]) -> None:
    """A host alias starts another line of /etc/hosts"""
    names.add(pod("victim"), VICTIM)
    names.add(pod("evil", hostAliases=[alias]), ATTACKER)
    assert names.resolve("victim") == [VICTIM]


def test_a_host_alias_changes_localhost_for_others(names: Names) -> None:
    """A host alias changes localhost for other Pods"""
    names.add(pod("evil", hostAliases=[{"ip": "10.0.0.1", "hostnames": ["localhost", "victim"]}]), ATTACKER)
    own = names.text()
    names.add(pod("victim"), VICTIM)
    assert own.index("127.0.0.1 localhost") < own.index("10.0.0.1\tlocalhost")
    assert "10.0.0.1" not in names.text()
    assert names.resolve("victim") == [VICTIM]


def test_a_name_is_free_again_when_its_pod_has_ended(names: Names) -> None:
    """Kept working: the next attempt of an indexed Job has the hostname of the last one"""
    names.add(pod("job-0-abcde", hostname="job-0"), VICTIM)
    names.files.remove("team-job-0-abcde")
    names.add(pod("job-0-fghij", hostname="job-0"), "127.1.0.2")
    names.files.flush()
    assert names.resolve("job-0") == ["127.1.0.2"]
