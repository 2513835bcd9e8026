from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from muster.embedded.node.hosts import WELL_KNOWN, AddressPool, HostsFiles, PodHost, hostname_of, pod_line
from muster.kube.objects import Object


def pod(name: str, namespace: str = "team", labels: dict[str, str] | None = None, **spec: Any) -> Object:
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels or {}},
        "spec": spec,
    }


def service(name: str, selector: dict[str, str], namespace: str = "team") -> Object:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"selector": selector}}


def names(path: str) -> dict[str, list[str]]:
    """address -> names, as a resolver reads the file."""
    found: dict[str, list[str]] = {}
    for line in Path(path).read_text().splitlines():
        words = line.partition("#")[0].split()
        if words and not words[0].startswith("::"):
            found.setdefault(words[0], []).extend(words[1:])
    return found


class Files(HostsFiles):
    """Counts the calls of `schedule`."""

    def __init__(self, folder: Path) -> None:
        self.wishes = 0
        super().__init__(folder, self._wish)

    def _wish(self) -> None:
        self.wishes += 1


def test_addresses_are_local_unique_and_come_back_last() -> None:
    addresses = AddressPool()
    taken = [addresses.allocate() for _ in range(600)]
    assert len(set(taken)) == 600
    assert not [a for a in taken if a.endswith((".0", ".255")) or a.startswith("127.0.")]
    addresses.release(taken[0])
    assert addresses.allocate() not in taken
    with socket.socket() as server:
        server.bind((taken[-1], 0))


def test_addresses_from_before_a_restart_are_reserved() -> None:
    addresses = AddressPool()
    addresses.reserve("127.1.0.1")
    addresses.reserve("127.1.0.7")
    assert [addresses.allocate() for _ in range(2)] == ["127.1.0.8", "127.1.0.9"]


def test_host_names() -> None:
    assert hostname_of(pod("web-0")) == "web-0"
    assert hostname_of(pod("x" * 62 + "-y")) == "x" * 62
    assert hostname_of(pod("web-0", hostname="w")) == "w"
    stateful = PodHost.of(pod("web-0", hostname="w", subdomain="web"), "127.1.0.1")
    assert (
        pod_line(stateful, stateful.names)
        == "127.1.0.1 w.web.team.svc.cluster.local w.web.team.svc w.web.team w.web w web-0\n"
    )


def test_a_pod_is_known_at_once_and_costs_nothing_more_without_services(tmp_path: Path) -> None:
    files = Files(tmp_path)
    path = files.add(PodHost.of(pod("a"), "127.1.0.1"))
    assert files.add(PodHost.of(pod("b"), "127.1.0.2")) == path
    assert names(path) == {"127.0.0.1": ["localhost"], "127.1.0.1": ["a"], "127.1.0.2": ["b"]}
    assert files.wishes == 0
    other = files.add(PodHost.of(pod("a", "other"), "127.1.0.3"))
    assert other != path and "127.1.0.1" not in names(other)


def test_services_lead_to_their_pods_from_every_namespace(tmp_path: Path) -> None:
    files = Files(tmp_path)
    here = files.add(PodHost.of(pod("a", labels={"app": "web", "i": "0"}), "127.1.0.1"))
    files.add(PodHost.of(pod("b", labels={"app": "web", "i": "1"}), "127.1.0.2"))
    there = files.add(PodHost.of(pod("c", "other", {"app": "web"}), "127.1.0.3"))
    files.set_service(service("web", {"app": "web"}))
    files.set_service(service("first", {"app": "web", "i": "0"}))
    files.set_service(service("nobody", {}))
    assert files.wishes > 0
    files.flush()
    long = ["web.team.svc.cluster.local", "web.team.svc", "web.team"]
    first = ["first.team.svc.cluster.local", "first.team.svc", "first.team"]
    assert names(here)["127.1.0.1"] == [*long, "web", *first, "first", "a"]
    assert names(here)["127.1.0.2"] == [*long, "web", "b"]
    assert names(there) == {
        "127.0.0.1": ["localhost"], "127.1.0.1": [*long, *first], "127.1.0.2": long, "127.1.0.3": ["c"],
    }  # fmt: skip

    files.add(PodHost.of(pod("d", labels={"app": "web"}), "127.1.0.4"))
    files.remove("uid-a")
    files.remove_service("team", "first")
    files.flush()
    assert names(here) == {
        "127.0.0.1": ["localhost"],
        "127.1.0.2": [*long, "web", "b"],
        "127.1.0.4": [*long, "web", "d"],
    }


def test_the_file_stays_the_same_file(tmp_path: Path) -> None:
    files = Files(tmp_path)
    path = Path(files.add(PodHost.of(pod("a", labels={"app": "web"}), "127.1.0.1")))
    inode = path.stat().st_ino
    files.set_service(service("web", {"app": "web"}))
    files.flush()
    files.remove_service("team", "web")
    files.flush()
    assert path.stat().st_ino == inode
    assert names(str(path)) == {"127.0.0.1": ["localhost"], "127.1.0.1": ["a"]}


def test_a_service_whose_wiring_stays_changes_nothing(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.add(PodHost.of(pod("a"), "127.1.0.1"))
    files.set_service(service("web", {"app": "web"}))
    wishes = files.wishes
    files.set_service({**service("web", {"app": "web"}), "status": {"loadBalancer": {}}})
    assert files.wishes == wishes


def test_a_new_pod_under_an_old_name_wins(tmp_path: Path) -> None:
    files = Files(tmp_path)
    path = files.add(PodHost.of(pod("a"), "127.1.0.1"))
    files.remove("uid-a")
    again = pod("a")
    again["metadata"]["uid"] = "uid-2"
    files.add(PodHost.of(again, "127.1.0.2"))
    assert files.wishes == 1
    files.flush()
    assert names(path) == {"127.0.0.1": ["localhost"], "127.1.0.2": ["a"]}


def test_lines_of_deleted_pods_are_removed(tmp_path: Path) -> None:
    files = Files(tmp_path)
    path = ""
    for number in range(200):
        path = files.add(PodHost.of(pod(f"p-{number}"), f"127.2.0.{number}"))
        files.remove(f"uid-p-{number}")
        if files.wishes:
            files.flush()
            files.wishes = 0
    assert len(names(path)) < 70


def test_host_aliases_are_the_pods_own(tmp_path: Path) -> None:
    files = Files(tmp_path)
    aliases = [{"ip": "10.1.1.1", "hostnames": ["db", "db.local"]}]
    own = files.add(PodHost.of(pod("a", hostAliases=aliases), "127.1.0.1"))
    shared = files.add(PodHost.of(pod("b", labels={"app": "b"}), "127.1.0.2"))
    assert own != shared
    assert names(own)["10.1.1.1"] == ["db", "db.local"]
    assert "\n# Entries added by HostAliases.\n10.1.1.1\tdb\tdb.local\n" in Path(own).read_text()
    assert Path(own).read_text().startswith("# Kubernetes-managed hosts file.\n"), "programs look for this line"
    assert "10.1.1.1" not in names(shared)
    files.set_service(service("b-svc", {"app": "b"}))
    files.flush()
    assert "b-svc" in names(own)["127.1.0.2"]
    files.remove("uid-a")
    assert not Path(own).exists()


def test_after_a_restart_names_are_never_missing(tmp_path: Path) -> None:
    before = Files(tmp_path)
    path = before.add(PodHost.of(pod("a"), "127.1.0.1"))
    before.add(PodHost.of(pod("b"), "127.1.0.2"))

    after = Files(tmp_path)
    after.add(PodHost.of(pod("a"), "127.1.0.1"))
    assert "127.1.0.2" in names(path)
    after.flush()
    assert names(path) == {"127.0.0.1": ["localhost"], "127.1.0.1": ["a"]}


def test_a_subdomain_that_looks_public_needs_its_service(tmp_path: Path) -> None:
    files = Files(tmp_path)
    path = files.add(PodHost.of(pod("web-0", labels={"app": "web"}, hostname="w", subdomain="web"), "127.1.0.1"))
    assert "w.web" not in names(path)["127.1.0.1"]
    files.set_service(service("web", {"app": "web"}))
    files.flush()
    assert "w.web" in names(path)["127.1.0.1"]
    files.set_service(service("web", {"app": "other"}))
    files.flush()
    assert "w.web" not in names(path)["127.1.0.1"]
    assert "w.web.team.svc.cluster.local" in names(path)["127.1.0.1"]


def server_service(name: str, address: str, namespace: str = "kube-system", **labels: str) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"metadata": metadata, "spec": {"clusterIP": address}}


def test_a_service_without_a_selector_has_the_address_that_it_names(tmp_path: Path) -> None:
    files = Files(tmp_path)
    file = files.add(PodHost.of(pod("a"), "127.1.0.1"))
    files.set_service(server_service("backend", "127.0.50.2", "team"))
    for nonsense in ("None", "", "10.0.0.1\n127.0.0.9 evil", "127.0.0.1/8"):
        files.set_service(server_service("other", nonsense, "team"))
    files.flush()
    assert names(file)["127.0.50.2"][-1] == "backend"
    assert not [address for address in names(file) if address not in ("127.0.0.1", "127.1.0.1", "127.0.50.2")]


def test_a_well_known_service_has_its_plain_name_everywhere_unless_it_is_taken(tmp_path: Path) -> None:
    files = Files(tmp_path)
    one = files.add(PodHost.of(pod("a", "one"), "127.1.0.1"))
    own = files.add(PodHost.of(pod("b", "own", {"app": "b"}), "127.1.0.2"))
    files.set_service(server_service("backend", "127.0.50.2", **{WELL_KNOWN: "true"}))
    files.set_service(server_service("hidden", "127.0.50.3"))
    files.set_service(service("backend", {"app": "b"}, "own"))
    files.flush()
    assert "backend" in names(one)["127.0.50.2"]
    assert "hidden" not in names(one)["127.0.50.3"]
    text = Path(own).read_text()
    assert text.index("127.1.0.2 backend.own") < text.index("127.0.50.2")  # the first line with a name counts
    files.set_service(server_service("backend", "127.0.50.9", **{WELL_KNOWN: "true"}))
    files.flush()
    assert "backend" in names(one)["127.0.50.9"]


def test_a_member_cannot_give_away_a_well_known_name(tmp_path: Path) -> None:
    files = HostsFiles(tmp_path, lambda: None, is_restricted=lambda namespace: namespace == "member")
    file = files.add(PodHost.of(pod("a"), "127.1.0.1"))
    files.set_service(server_service("backend", "127.0.50.2", "member", **{WELL_KNOWN: "true"}))
    files.flush()
    assert "127.0.50.2" not in names(file)
