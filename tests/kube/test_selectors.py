from __future__ import annotations

from typing import Any

import pytest

from muster.kube import builtin
from muster.kube.errors import BadRequest
from muster.kube.kinds import Kind
from muster.kube.selectors import (
    compile_expressions,
    label_selector_from,
    match_expressions,
    parse_fields,
    parse_labels,
    parse_toleration,
)

LABELS = {"app": "web", "tier": "front", "gpus": "4", "empty": "", "example.com/team": "red", "in": "notin"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("  ", True),
        ("app=web", True),
        ("app==web", True),
        (" app = web ", True),
        ("app=db", False),
        ("missing=web", False),
        ("app!=db", True),
        ("app!=web", False),
        ("missing!=web", True),
        ("app in (web,db)", True),
        ("app in(web)", True),
        ("app in ( db , cache )", False),
        ("app notin (db,cache)", True),
        ("app notin (web)", False),
        ("missing notin (web)", True),
        ("missing in (web)", False),
        ("app", True),
        ("missing", False),
        ("!missing", True),
        ("! missing", True),
        ("!app", False),
        ("app=web,tier=front", True),
        ("app=web, tier=back", False),
        ("app in (web, db),tier notin (back),!missing,gpus", True),
        ("gpus>3", True),
        ("gpus > 4", False),
        ("gpus<5", True),
        ("app>3", False),
        ("missing<3", False),
        ("empty=", True),
        ("empty==", True),
        ("empty=,app=web", True),
        ("app=", False),
        ("empty in ()", True),
        ("empty in (,x)", True),
        ("example.com/team=red", True),
        ("in=notin", True),
        ("in in (in,notin)", True),
        ("in notin (in)", True),
    ],
)
def test_label_selectors(text: str, matches: bool) -> None:
    assert parse_labels(text).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("app=web,", "found the end, expected a label after ','"),
        (",app", "found ',' at position 1, expected a label name or '!'"),
        ("app in", "found the end, expected '('"),
        ("app in web", "found 'web' at position 8, expected '('"),
        ("app in (web", "expected ',' or ')'"),
        ("app in (web db)", "found 'db' at position 13, expected ',' or ')'"),
        ("app web", "found 'web' at position 5, expected one of ="),
        ("app=web db", "found 'db' at position 9, expected ',' or the end"),
        ("app=(web)", "found '(' at position 5, expected a value"),
        ("app===web", "found '=' at position 6, expected a value"),
        ("!", "expected a label name after '!'"),
        ("!app=web", "found '=' at position 5, expected ',' or the end"),
        ("gpus>many", "Gt needs exactly one value, an integer"),
        ("gpus>", "found the end, expected an integer"),
        ("app=-web", '"-web" is not a label value'),
        ("app=" + "x" * 64, "at most 63 characters"),
        ("-app=web", '"-app" is not a label name'),
        ("Example.COM/app=web", "DNS name in lower case"),
        ("/app=web", "DNS name in lower case"),
        ("a/b/c=web", "DNS name in lower case"),
        ("app=wéb", '"wéb" is not a label value'),
    ],
)
def test_a_bad_label_selector_says_what_is_wrong(text: str, complaint: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_labels(text)
    assert complaint in caught.value.message


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", ""),
        (" app == web , tier!=x", "app=web,tier!=x"),
        ("app in (b,a), x notin (c, d)", "app in (a,b),x notin (c,d)"),
        ("app,!db,gpus>3, gpus < 9", "app,!db,gpus>3,gpus<9"),
        ("app in (web)", "app=web"),
        ("app=", "app="),
    ],
)
def test_a_selector_prints_so_that_it_reads_the_same(text: str, printed: str) -> None:
    assert str(parse_labels(text)) == printed
    assert parse_labels(printed).requirements == parse_labels(str(parse_labels(printed))).requirements


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ({}, True),
        ({"matchLabels": {}}, True),
        ({"matchLabels": None, "matchExpressions": None}, True),
        ({"matchLabels": {"app": "web", "tier": "front"}}, True),
        ({"matchLabels": {"app": "web", "tier": "back"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist", "values": []}]}, False),
        ({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]}, False),
    ],
)
def test_selectors_inside_objects(selector: dict[str, Any], matches: bool) -> None:
    assert label_selector_from(selector).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("selector", "field", "complaint"),
    [
        ({"app": "web"}, "app", "it has matchLabels and matchExpressions"),
        ({"matchLabels": ["app"]}, "matchLabels", "must be a map"),
        ({"matchLabels": {"gpus": 4}}, "matchLabels", 'put it in quotes, "4"'),
        ({"matchLabels": {"on": True}}, "matchLabels", 'put it in quotes, "true"'),
        ({"matchExpressions": {"key": "app"}}, "matchExpressions", "must be a list"),
        ({"matchExpressions": [{"operator": "Exists"}]}, "matchExpressions[0].key", "a key is required"),
        (
            {"matchExpressions": [{"key": "app", "operator": "Gt", "values": ["1"]}]},
            "matchExpressions[0].operator",
            '"Gt" is not an operator; one of In, NotIn, Exists, DoesNotExist',
        ),
        ({"matchExpressions": [{"key": "app", "operator": "In"}]}, "app", "In needs at least one value"),
        (
            {"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["x"]}]},
            "app",
            "Exists takes no values",
        ),
        (
            {"matchExpressions": [{"key": "app", "operator": "In", "values": "web"}]},
            "matchExpressions[0].values",
            "values must be a list",
        ),
    ],
)
def test_a_bad_selector_in_an_object_names_the_field(selector: dict[str, Any], field: str, complaint: str) -> None:
    with pytest.raises(BadRequest) as caught:
        label_selector_from(selector)
    assert caught.value.causes[0].field == field
    assert complaint in caught.value.message


@pytest.mark.parametrize(
    ("expressions", "matches"),
    [
        ([], True),
        ([{"key": "gpus", "operator": "Gt", "values": ["3"]}], True),
        ([{"key": "gpus", "operator": "Gt", "values": ["4"]}], False),
        ([{"key": "gpus", "operator": "Lt", "values": ["5"]}], True),
        ([{"key": "gpus", "operator": "Lt", "values": ["-5"]}], False),
        ([{"key": "app", "operator": "Lt", "values": ["5"]}], False),
        ([{"key": "missing", "operator": "Gt", "values": ["0"]}], False),
        ([{"key": "app", "operator": "In", "values": ["web"]}, {"key": "tier", "operator": "Exists"}], True),
    ],
)
def test_node_affinity_expressions(expressions: list[dict[str, Any]], matches: bool) -> None:
    assert match_expressions(expressions, LABELS) is matches


@pytest.mark.parametrize("values", [[], ["1", "2"], ["x"], ["1.5"], [""]])
def test_gt_needs_one_integer(values: list[str]) -> None:
    with pytest.raises(BadRequest, match="exactly one value, an integer"):
        compile_expressions([{"key": "gpus", "operator": "Gt", "values": values}])


POD = {
    "metadata": {"name": "web-0", "namespace": "prod"},
    "spec": {"nodeName": "n1", "priority": 5, "hostNetwork": True, "schedulerName": "a=b,c"},
    "status": {"phase": "Running"},
}
EVENT = {"involvedObject": {"kind": "Pod", "name": "web-0", "uid": "u1"}, "type": "Warning"}


@pytest.mark.parametrize(
    ("text", "obj", "matches"),
    [
        ("", POD, True),
        ("metadata.name=web-0", POD, True),
        (" metadata.name = web-0 ", POD, True),
        (".metadata.name=web-0", POD, True),
        ("metadata.name==web-1", POD, False),
        ("metadata.name!=web-1", POD, True),
        ("metadata.namespace=prod,spec.nodeName=n1", POD, True),
        ("metadata.namespace=prod,spec.nodeName=n2", POD, False),
        ("status.phase!=Running,metadata.name=web-0", POD, False),
        ("spec.nodeName=", {"spec": {}}, True),
        ("spec.nodeName=", {}, True),
        ("spec.nodeName=", POD, False),
        ("spec.nodeName!=", POD, True),
        ("spec.priority=5", POD, True),
        ("spec.hostNetwork=true", POD, True),
        ("spec.nodeName.deeper=x", POD, False),
        (r"spec.schedulerName=a\=b\,c", POD, True),
        ("involvedObject.name=web-0,involvedObject.kind=Pod,type=Warning", EVENT, True),
        ("involvedObject.uid=u2", EVENT, False),
        (",metadata.name=web-0,", POD, True),
    ],
)
def test_field_selectors(text: str, obj: dict[str, Any], matches: bool) -> None:
    assert parse_fields(text).matches(obj) is matches


@pytest.mark.parametrize(
    ("kind", "text", "obj", "matches"),
    [
        (builtin.NODE, "spec.unschedulable=false", {"spec": {}}, True),
        (builtin.NODE, "spec.unschedulable=false", {"spec": {"unschedulable": True}}, False),
        (builtin.NODE, "spec.unschedulable!=true", {}, True),
        (builtin.POD, "spec.hostNetwork=false", {"spec": {}}, True),
        (builtin.POD, "spec.hostNetwork=true", {"spec": {"hostNetwork": True}}, True),
        (builtin.POD, "spec.serviceAccountName=default", {"spec": {}}, True),
        (builtin.POD, "spec.serviceAccountName=other", {"spec": {}}, False),
        (builtin.POD, "spec.nodeName=", {"spec": {}}, True),
        (builtin.JOB, "status.successful=0", {}, True),
        (builtin.JOB, "status.successful=2", {"status": {"succeeded": 2}}, True),
        (builtin.EVENT, "source=kubelet", {"source": {"component": "kubelet"}}, True),
        (builtin.CONFIG_MAP, "metadata.namespace=a", {"metadata": {"namespace": "a"}}, True),
    ],
)
def test_field_selectors_of_a_kind_know_its_defaults(kind: Kind, text: str, obj: dict[str, Any], matches: bool) -> None:
    assert parse_fields(text).select_from(kind.selectable_fields).matches(obj) is matches


@pytest.mark.parametrize(
    ("kind", "text", "unknown"),
    [
        (builtin.POD, "spec.foo=1", "spec.foo"),
        (builtin.CONFIG_MAP, "metadata.name=a,spec.nodeName=b", "spec.nodeName"),
        (builtin.NODE, "status.phase=Running", "status.phase"),
    ],
)
def test_a_field_that_cannot_be_selected_is_an_error_and_not_an_empty_list(kind: Kind, text: str, unknown: str) -> None:
    with pytest.raises(BadRequest, match=f"field label not supported: {unknown}; this kind has metadata.name"):
        parse_fields(text).select_from(kind.selectable_fields)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("metadata.name", '"metadata.name" is not path=value'),
        ("metadata.name=a=b", "is not path=value"),
        ("=x", "is not path=value"),
        ("a..b=x", '"a..b" is not the path of a field'),
        ("metadata.name in (a)", "is not path=value"),
        (r"metadata.name=a\b", "a backslash may only stand before"),
    ],
)
def test_a_bad_field_selector_says_what_is_wrong(text: str, complaint: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_fields(text)
    assert complaint in caught.value.message


def test_a_field_that_must_have_one_value_is_known() -> None:
    selector = parse_fields("metadata.name=web-0,status.phase!=Failed")
    assert selector.exact("metadata.name") == "web-0"
    assert selector.exact("status.phase") is None
    assert str(selector) == "metadata.name=web-0,status.phase!=Failed"
    assert str(parse_fields(r"a=x\,y")) == r"a=x\,y"


def test_an_empty_selector_restricts_nothing() -> None:
    assert not parse_labels("")
    assert not parse_fields("")
    assert parse_labels("a")
    assert parse_fields("a=b")
    assert parse_labels("").matches(None)


@pytest.mark.parametrize(
    ("taint", "toleration"),
    [
        ("gpu", {"key": "gpu", "operator": "Exists"}),
        ("gpu:NoSchedule", {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}),
        ("pool=ml", {"key": "pool", "operator": "Equal", "value": "ml"}),
        ("example.com/pool=:NoExecute",
         {"key": "example.com/pool", "operator": "Equal", "value": "", "effect": "NoExecute"}),
        ("", None),
        ("=ml", None),
        ("pool=ml:Never", None),
        ("pool=a b", None),
    ],
)  # fmt: skip
def test_tolerations_of_taints(taint: str, toleration: dict[str, str] | None) -> None:
    assert parse_toleration(taint) == toleration
