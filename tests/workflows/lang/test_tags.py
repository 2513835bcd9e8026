"""Template tags, with the results of Argo 4.0's own package."""

from __future__ import annotations

from typing import Any

import pytest

from muster.workflows.lang.errors import ExpressionError, MissingVariable
from muster.workflows.lang.tags import Tag, find_tags, find_tags_in, resolve, substitute
from tests.workflows.lang.sample_scope import fixed_clock

SCOPE: dict[str, Any] = {
    "x": "val",
    "inputs.parameters": '[{"name":"n","value":"5"}]',
    "inputs.parameters.message": 'say "hi"\n<&>',
    "inputs.parameters.n": "5",
    "workflow.parameters.json": '[{"value":"true"}]',
    "tasks.a.outputs.result": "3",
    "tasks.absent.outputs.parameters.msg": None,
    "item.name": "n",
    "my-param": "p",
    "empty": "",
    "unicode": "é日本😀",
    "artifact": {"s3": {"key": "k"}},
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("plain", "plain"),
        ("{{x}}", "val"),
        ("{{ x }}", "val"),
        ("a{{x}}b{{x}}c", "avalbvalc"),
        ("{{empty}}", ""),
        ("{{my-param}}", "p"),
        ("{{inputs.parameters}}", '[{"name":"n","value":"5"}]'),
        ("{{inputs.parameters.message}}", 'say "hi"\n<&>'),
        ("{{unicode}}", "é日本😀"),
        ("{{x}}}}", "val}}"),
        ("${{ x }}", "$val"),
        ("{{=x}}", "val"),
        ("{{= x + '!' }}", "val!"),
        ("{{=1 + \n1}}", "2"),
        ("{{=1.5}}", "1.5"),
        ("{{=1e21}}", "1e+21"),
        ("{{=true == false}}", "false"),
        ("{{=[1, 'a', nil]}}", '[1,"a",null]'),
        ("{{={'b': '<', 'a': 1} }}", '{"a":1,"b":"\\u003c"}'),
        ("{{=toJson({'a': 1})}}", '{"a":1}'),
        ("{{=toJson('test')}}", '"test"'),
        ("{{='\"'}}", '"'),
        ("{{='some\\\\path'}}", "some\\path"),
        ("{{='a\\nb'}}", "a\nb"),
        ("{{=inputs.parameters['message']}}", 'say "hi"\n<&>'),
        ("{{=asInt(inputs.parameters.n) + 1}}", "6"),
        ("{{=jsonpath(workflow.parameters.json, '$[0].value') == 'true'}}", "true"),
        ("{{=sprig.trunc(3, x)}}-{{x}}", "val-val"),
        ("{{=map([1, 2], {# * 2})}}", "[2,4]"),
        ("{{=let a = 1; a + 1}}", "2"),
        ("{{=date('2024-01-02')}}", "2024-01-02T00:00:00Z"),
        ("{{=now()}}", "2023-11-14T22:13:20Z"),
        ("{{=duration('1h')}}", "3600000000000"),
        ("{{=tasks.absent.outputs.parameters.msg ?? 'fallback'}}", "fallback"),
        ("{{=artifact.s3.key}}", "k"),
    ],
)
def test_tags_that_resolve(template: str, text: str) -> None:
    assert substitute(template, SCOPE, clock=fixed_clock()) == text
    assert substitute(template, SCOPE, allow_unresolved=True, clock=fixed_clock()) == text


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{nope}}", "failed to resolve {{nope}}"),
        ("{{ nope }}", "failed to resolve {{ nope }}"),
        ("{{ =x}}", "failed to resolve {{ =x}}"),
        ("{{\nx\t}}", "failed to resolve {{\nx\t}}"),
        ("{{}}", "failed to resolve {{}}"),
        ("{{tasks.z.outputs.artifacts.f}}", "failed to resolve {{tasks.z.outputs.artifacts.f}}"),
        ("{{=nope}}", "failed to evaluate expression: nope is missing"),
        ("{{=tasks.z.outputs.result}}", "failed to evaluate expression: tasks.z is missing"),
        ("{{=item.age}}", "failed to evaluate expression: item.age is missing"),
        ("{{=workflow.status == 'x'}}", "failed to evaluate expression: workflow.status is missing"),
    ],
)
def test_a_variable_that_is_missing(template: str, message: str) -> None:
    with pytest.raises(MissingVariable) as caught:
        substitute(template, SCOPE)
    assert caught.value.message == message
    assert substitute(template, SCOPE, allow_unresolved=True) == template


@pytest.mark.parametrize(
    "template",
    ["{{=inputs.zz.yy}}", "{{=sprig.int(retries)}}", "{{=item.age}}", "{{=tasks.absent.outputs.parameters.msg}}", "{{"],
)
def test_what_stays_where_it_may(template: str) -> None:
    assert substitute(template, SCOPE, allow_unresolved=True) == template


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (
            "{{tasks.absent.outputs.parameters.msg}}",
            "unable to substitute {{tasks.absent.outputs.parameters.msg}}: output is an absent optional "
            "(skipped/omitted node with no default)",
        ),
        (
            "{{o-{{tasks.absent.outputs.parameters.msg}}}}",
            "unable to substitute nested tag {{o-{{tasks.absent.outputs.parameters.msg}}: "
            '"tasks.absent.outputs.parameters.msg" is an absent optional',
        ),
        ("{{artifact}}", "failed to resolve {{artifact}} to string"),
        ("{{=!}}", "failed to evaluate expression: unexpected token EOF, expected a value"),
        ("{{=}}", "failed to evaluate expression: unexpected token EOF, expected a value"),
        ("{{={'a': {'b': 1}}}}", "failed to evaluate expression: unexpected token EOF, expected ',' or '}'"),
    ],
)
def test_what_is_wrong_in_every_mode(template: str, message: str) -> None:
    for allow_unresolved, required in ((False, None), (True, None), (False, ["tasks"])):
        with pytest.raises(ExpressionError) as caught:
            substitute(template, SCOPE, allow_unresolved=allow_unresolved, required=required)
        assert caught.value.message == message
        assert not isinstance(caught.value, MissingVariable)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{", "the tag that starts here has no '}}'"),
        ("{{x}} {{y", "the tag that starts here has no '}}'"),
        (
            "{{=tasks.absent.outputs.parameters.msg}}",
            'failed to evaluate expression "tasks.absent.outputs.parameters.msg"',
        ),
        ("{{=x + 1}}", "failed to evaluate expression: invalid operation: + (mismatched types string and int)"),
        ("{{=sprig.fail('no')}}", "failed to evaluate expression: no"),
        ("{{=1 / 0}}", "failed to marshal evaluated expression: json: unsupported value: +Inf"),
    ],
)
def test_what_is_wrong_when_everything_must_resolve(template: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        substitute(template, SCOPE)
    assert caught.value.message == message


def test_an_error_is_shown_in_the_string_that_holds_the_tag() -> None:
    with pytest.raises(ExpressionError) as caught:
        substitute({"args": ["echo {{= x + 1 }}"]}, SCOPE)
    assert str(caught.value) == (
        "failed to evaluate expression: invalid operation: + (mismatched types string and int) (1:12)\n"
        " | echo {{= x + 1 }}\n"
        " | ...........^"
    )


def test_braces_that_end_a_tag_too_early_get_a_hint() -> None:
    with pytest.raises(ExpressionError) as caught:
        substitute("{{={'a': {'b': 1}}}}", {})
    assert caught.value.hint == "A tag ends at the first '}}': put a space between the closing braces of an expression."
    assert substitute("{{={'a': {'b': 1} } }}", {}) == '{"a":{"b":1}}'


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{outer-{{x}}}}", "{{outer-val}}"),
        ("{{A {{B {{x}}}}}}", "{{A {{B val}}}}"),
        ('{{- with secret "{{inputs.parameters.n}}" -}}', '{{- with secret "5" -}}'),
        ("{{outer-{{nope}}}}", "{{outer-{{nope}}}}"),
    ],
)
def test_a_tag_inside_a_tag_needs_another_substitution(template: str, text: str) -> None:
    assert substitute(template, SCOPE, allow_unresolved=True) == text


def test_replacements_are_not_searched_for_tags() -> None:
    assert substitute("{{a}}", {"a": "{{b}}", "b": "no"}) == "{{b}}"


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{nope}}", "{{nope}}"),
        ("{{x}}", "val"),
        ("{{tasksx.a}}", "{{tasksx.a}}"),
        ("{{tasks.z.outputs.artifacts.f}}", "{{tasks.z.outputs.artifacts.f}}"),
        ("{{=nope}}", "{{=nope}}"),
        ("{{=tasks.absent.outputs.parameters.msg ?? 'd'}}", "d"),
        ("{{=tasks.z?.outputs?.result ?? 'd'}}", "d"),
        ("{{unclosed", "{{unclosed"),
    ],
)
def test_only_what_is_required_must_resolve(template: str, text: str) -> None:
    assert substitute(template, SCOPE, required=["tasks", "steps"]) == text


@pytest.mark.parametrize("template", ["{{tasks.z.outputs.result}}", "{{=tasks.z.outputs.result}}", "{{tasks}}"])
def test_what_is_required_and_missing(template: str) -> None:
    with pytest.raises(MissingVariable):
        substitute(template, SCOPE, required=["tasks", "steps"])


def test_any_json_like_value_keys_included() -> None:
    template = {"name": "{{x}}", "{{x}}": [1, None, True, {"deep": ["{{x}}-{{=1 + 1}}"]}], "n": 2.5}
    assert substitute(template, SCOPE) == {"name": "val", "val": [1, None, True, {"deep": ["val-2"]}], "n": 2.5}
    assert template["name"] == "{{x}}"


def test_the_tags_of_a_value() -> None:
    assert list(find_tags("a {{ x }} {{=y + 1}}")) == [Tag(" x ", False, 2), Tag("y + 1", True, 10)]
    assert [tag.path for tag in find_tags_in({"k": ["{{ a.b }}"], "{{c}}": 1})] == ["a.b", "c"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{artifact}}", {"s3": {"key": "k"}}),
        ("{{ x }}", "val"),
        ("x", "val"),
        ("{{tasks.absent.outputs.parameters.msg}}", None),
        ("{{=asInt(inputs.parameters.n) * 2}}", 10),
        ("{{=artifact}}", {"s3": {"key": "k"}}),
    ],
)
def test_the_value_itself_of_one_tag(text: str, value: Any) -> None:
    assert resolve(text, SCOPE) == value


@pytest.mark.parametrize("text", ["{{nope}}", "{{=nil}}", "{{=nope.x}}"])
def test_one_tag_without_a_value(text: str) -> None:
    with pytest.raises(ExpressionError):
        resolve(text, SCOPE)
