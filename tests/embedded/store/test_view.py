from __future__ import annotations

from random import Random

from muster.embedded.store.view import ResourceKey, View
from muster.kube.objects import Key, Object


def thing(namespace: str, name: str, *owners: str) -> Object:
    refs = [{"apiVersion": "v1", "kind": "Thing", "name": uid, "uid": uid} for uid in owners]
    return {"metadata": {"namespace": namespace, "name": name, "ownerReferences": refs}}


def put(view: View, obj: Object) -> None:
    view.put("things", Key(obj["metadata"]["namespace"], obj["metadata"]["name"]), obj)


def keys(view: View, namespace: str = "") -> list[tuple[str, str]]:
    return [(o["metadata"]["namespace"], o["metadata"]["name"]) for o in view.objects("things", namespace)]


def test_objects_come_in_order_of_namespace_and_name() -> None:
    view = View()
    for namespace, name in [("b", "2"), ("a", "9"), ("b", "1"), ("a", "10"), ("a-b", "1")]:
        put(view, thing(namespace, name))
    assert keys(view) == [("a", "10"), ("a", "9"), ("a-b", "1"), ("b", "1"), ("b", "2")]
    assert keys(view, "b") == [("b", "1"), ("b", "2")]
    assert keys(view, "nowhere") == []
    assert view.namespaces("things") == ["a", "a-b", "b"]
    assert (view.count("things"), view.count("things", "a"), view.count("things", "nowhere")) == (5, 2, 0)


def test_order_and_contents_stay_right_through_any_changes() -> None:
    random = Random(7)
    view, expected = View(), dict[tuple[str, str], Object]()
    for step in range(20_000):
        place = (random.choice("ab"), str(random.randrange(600)))
        if random.random() < 0.5:
            obj = thing(*place)
            before = view.put("things", Key(*place), obj)
            assert before is expected.get(place)
            expected[place] = obj
        else:
            assert view.remove("things", Key(*place)) is expected.pop(place, None)
        if step % random.choice([1, 3, 100]) == 0:
            assert keys(view) == sorted(expected)
    assert keys(view) == sorted(expected)


def test_a_shelf_that_is_never_listed_does_not_collect_names() -> None:
    view = View()
    put(view, thing("a", "keep"))
    assert keys(view) == [("a", "keep")]
    for number in range(5000):
        put(view, thing("a", f"passing-{number}"))
        view.remove("things", Key("a", f"passing-{number}"))
    bucket = view.in_namespace("things", "a")
    assert bucket is not None
    assert len(bucket._changed) < 2000
    assert keys(view) == [("a", "keep")]


def test_dependents_are_found_by_their_owners_uid() -> None:
    view = View()
    put(view, thing("a", "one", "u1", "u2"))
    put(view, thing("a", "two", "u1"))
    assert view.dependents("u1") == [ResourceKey("things", Key("a", "one")), ResourceKey("things", Key("a", "two"))]
    put(view, thing("a", "one", "u2"))
    assert view.dependents("u1") == [ResourceKey("things", Key("a", "two"))]
    view.remove("things", Key("a", "two"))
    assert view.dependents("u1") == []
    assert view.dependents("u2") == [ResourceKey("things", Key("a", "one"))]


def test_a_resource_without_objects_is_not_listed() -> None:
    view = View()
    put(view, thing("a", "one"))
    assert view.resources() == ["things"]
    view.remove("things", Key("a", "one"))
    assert view.resources() == []
    assert view.get("things", Key("a", "one")) is None
    assert view.remove("things", Key("a", "one")) is None
