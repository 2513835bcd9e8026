"""Pod affinity, anti-affinity and topology spread."""

from __future__ import annotations

from typing import Any

import pytest

from muster.kube.objects import Object
from tests.embedded.scheduler.objects import Bench, a_group, a_node, a_pod

HOST = "kubernetes.io/hostname"


def terms(side: str, key: str, app: str, **more: Any) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}
    return {side: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def app(name: str, label: str = "web", **spec: Any) -> Object:
    return a_pod(name, labels={"app": label}, **spec)


def zones() -> list[Object]:
    return [a_node(f"{zone}{n}", labels={"zone": zone}) for zone in "ab" for n in (1, 2)]


def test_anti_affinity_keeps_equals_apart() -> None:
    pods = [app(f"p{n}", affinity=terms("podAntiAffinity", HOST, "web")) for n in range(3)]
    bench = Bench(a_node("a"), a_node("b"), *pods)
    assert sorted(bench.run().values()) == ["a", "b"]
    [message] = bench.reasons.values()
    assert message == "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."


def test_anti_affinity_of_an_existing_pod_keeps_others_away() -> None:
    bench = Bench(a_node(), app("hermit", "hermit", affinity=terms("podAntiAffinity", HOST, "web")))
    assert bench.run() == {"hermit": "node"}
    bench.put(app("web"), app("db", "db"))
    assert bench.run() == {"db": "node"}
    words = "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules."
    assert bench.reasons == {"web": words}
    bench.remove("hermit")
    assert bench.run() == {"web": "node"}


def test_affinity_follows_the_other_into_its_zone() -> None:
    bench = Bench(*zones(), app("follower", "db", affinity=terms("podAffinity", "zone", "web")))
    assert bench.run() == {}
    assert bench.reasons == {"follower": "0/4 nodes are available: 4 node(s) didn't match pod affinity rules."}
    bench.put(app("leader", nodeName="b1"))
    assert bench.run()["follower"] in ("b1", "b2")


def test_the_first_of_a_kind_that_wants_its_own_kind_may_go_anywhere() -> None:
    pods = [app(f"p{n}", affinity=terms("podAffinity", "zone", "web")) for n in range(4)]
    bench = Bench(*zones(), *pods)
    assert len({node[0] for node in bench.run().values()}) == 1


@pytest.mark.parametrize(
    ("more", "placed"),
    [({}, True), ({"namespaces": ["other"]}, True), ({"namespaces": ["default"]}, False),
     ({"namespaceSelector": {}}, False)],
)  # fmt: skip
def test_namespaces_of_affinity_terms(more: dict[str, Any], placed: bool) -> None:
    stranger = app("stranger", affinity=terms("podAntiAffinity", HOST, "web", **more))
    stranger["metadata"]["namespace"] = "other"
    bench = Bench(a_node(), app("web", nodeName="node"), stranger)
    assert bool(bench.run()) is placed


def test_selecting_namespaces_by_label_is_refused_by_name() -> None:
    rule = terms("podAntiAffinity", HOST, "web", namespaceSelector={"matchLabels": {"team": "a"}})
    bench = Bench(a_node(), app("web", affinity=rule))
    assert bench.run() == {}
    assert "podAntiAffinity" in bench.reasons["web"]
    assert "namespaceSelector" in bench.reasons["web"]


def spread(key: str, **more: Any) -> list[dict[str, Any]]:
    selector = {"matchLabels": {"app": "web"}}
    return [{"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector, **more}]


def test_spread_over_zones() -> None:
    pods = [app(f"p{n}", cpu=1, topologySpreadConstraints=spread("zone")) for n in range(5)]
    bench = Bench(*zones(), *pods)
    found = [node[0] for node in bench.run().values()]
    assert sorted(found.count(zone) for zone in "ab") == [2, 3]


def test_spread_waits_when_the_emptier_zone_is_full() -> None:
    nodes = [a_node("a1", labels={"zone": "a"}), a_node("b1", labels={"zone": "b"}, pods=1), a_node("stray")]
    pods = [app(f"p{n}", topologySpreadConstraints=spread("zone")) for n in range(4)]
    bench = Bench(*nodes, *pods)
    assert sorted(bench.run().values()) == ["a1", "a1", "b1"]
    assert list(bench.reasons.values()) == [
        "0/3 nodes are available: 1 Too many pods, 1 node(s) didn't match pod topology spread constraints, "
        "1 node(s) didn't match pod topology spread constraints (missing required label)."
    ]


def test_fewer_domains_than_wanted_count_as_an_empty_one() -> None:
    pods = [app(f"p{n}", topologySpreadConstraints=spread("zone", minDomains=3)) for n in range(4)]
    assert len(Bench(*zones(), *pods).run()) == 2


def test_preferences_about_neighbours_are_named_not_dropped() -> None:
    rule = {"weight": 1, "podAffinityTerm": {"topologyKey": HOST}}
    pod = app(
        "p",
        affinity={"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [rule]}},
        topologySpreadConstraints=spread("zone", whenUnsatisfiable="ScheduleAnyway"),
    )
    bench = Bench(a_node(), pod)
    assert bench.run() == {"p": "node"}
    [notice] = bench.result.notices
    assert notice.reason == "PreferenceNotConsidered"
    assert "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution" in notice.message
    assert "spec.topologySpreadConstraints[0]" in notice.message


def test_a_gang_apart_is_placed_whole_or_not_at_all() -> None:
    pods = [app(f"p{n}", group="gang", affinity=terms("podAntiAffinity", HOST, "web")) for n in range(3)]
    bench = Bench(a_node("a"), a_node("b"), a_group(min_member=3), *pods)
    assert bench.run() == {}
    bench.put(a_node("c"))
    assert sorted(bench.run().values()) == ["a", "b", "c"]
