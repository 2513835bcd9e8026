"""Graphs that must give the same nodes, states, outputs and logs on every cluster: a table of what docs/graph.md
promises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from muster.platform.graphs.model import Document
from tests.platform.graphs.samples import graph, node, seed_example

NASTY = """it's "quoted" \\n \\ `tick` $HOME #x; & | > < * ? [a] {b} ~ %s 你好 \t end"""


class Case(NamedTuple):
    document: Document
    values: Mapping[str, str] = {}


def text(name: str, path: str = "/tmp/out") -> dict[str, Any]:
    return {"name": name, "path": path}


def file(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "path": path, "type": "file"}


def output(name: str, of: str, output: str) -> dict[str, Any]:
    return {"name": name, "from": {"node": of, "output": output}}


def value(name: str, said: str) -> dict[str, Any]:
    return {"name": name, "value": said}


def parameter(name: str, of: str) -> dict[str, Any]:
    return {"name": name, "from": {"parameter": of}}


def show(*names: str) -> str:
    return "; ".join(f'printf "%s\\n" "{name}=$' + f'{name}"' for name in names)


def told(said: str) -> Document:
    """A text from one node's output to another's input."""
    write = f"printf '%s' \"$said\" > /tmp/out; {show('said')}"
    first = node("first", command=write, inputs=[value("said", said)], outputs=[text("out")])
    return graph(
        first, node("second", command=show("got"), inputs=[output("got", "first", "out")]), edges="first>second"
    )


def handed(command: str, path: str, look: str) -> Document:
    """A file or folder from one node to another."""
    first = node("first", command=command, outputs=[file("made", path)])
    second = node("second", command=look, inputs=[output("made", "first", "made")])
    return graph(first, second, edges="first>second")


def echoing(names: str, edges: str) -> Document:
    return graph(*(node(name, command=f"echo {name}") for name in names), edges=edges)


def with_parameter(**more: Any) -> Document:
    taking = node("say", command=show("who"), inputs=[parameter("who", "name")])
    return graph(taking, parameters=[{"name": "name", **more}])


def compare(left: dict[str, Any], operator: str, right: str) -> dict[str, Any]:
    """`left`: an input, of which only the source counts."""
    return {"left": {"from": left["from"]}, "operator": operator, "right": {"value": right}}


def deciding(said: str, *comparisons: tuple[str, str], match: str = "all") -> Document:
    """A node that runs if a text fits, one that uses its output, and one that only comes after it."""
    terms = [compare(output("x", "first", "out"), operator, right) for operator, right in comparisons]
    first = node(
        "first", command="printf '%s' \"$said\" > /tmp/out", inputs=[value("said", said)], outputs=[text("out")]
    )
    second = node(
        "second",
        command="echo ran; echo it > /tmp/out",
        outputs=[text("out")],
        condition={"match": match, "comparisons": terms},
    )
    using = node("using", command=show("x"), inputs=[output("x", "second", "out")])
    after = node("after", command="echo after")
    return graph(first, second, using, after, edges="first>second second>using second>after")


def repeating(loop: dict[str, Any], **more: Any) -> Document:
    """A node that runs once per item, and one that gets all its outputs."""
    make = node(
        "make", command="printf '%s' '[\"x\", 2, {\"k\": [1]}]' > /tmp/list", outputs=[text("list", "/tmp/list")]
    )
    each = node(
        "each",
        command="printf '%s' \"$item\" > /tmp/out; printf '%s' \"$item\" | od -An -tx1",
        outputs=[text("out")],
        loop=loop,
        **more,
    )
    joined = node("all", command=show("x"), inputs=[output("x", "each", "out")])
    return graph(
        make, each, joined, edges="make>each each>all", parameters=[{"name": "list", "default": '["a", "b c"]'}]
    )


STEPS = """
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: hello-}
spec:
  entrypoint: main
  arguments: {parameters: [{name: word, value: hello}]}
  templates:
  - name: main
    steps:
    - - {name: one, template: say, arguments: {parameters: [{name: it, value: "{{workflow.parameters.word}} 1"}]}}
    - - {name: two, template: say, arguments: {parameters: [{name: it, value: "{{item}}"}]}, withItems: [a, b]}
  - name: say
    inputs: {parameters: [{name: it}]}
    container: {image: "busybox:1.35", command: [echo], args: ["{{inputs.parameters.it}}"]}
"""

CASES: Mapping[str, Case] = {
    "the example of the seed": Case(seed_example()),
    "one node": Case(graph(node("a", command="echo a"))),
    "a chain": Case(echoing("abc", "a>b b>c")),
    "a diamond": Case(echoing("abcd", "a>b a>c b>d c>d")),
    "a fan": Case(echoing("abcdef", "a>b a>c a>d a>e a>f")),
    "islands": Case(echoing("abcd", "a>b c>d")),
    "a text": Case(told("hello")),
    "an empty text": Case(told("")),
    "a text of several lines": Case(told("one\ntwo\n\nfour\n")),
    "a text that looks like JSON": Case(told('{"a": [1, null, "x"], "b": true}')),
    "a text that looks like a number": Case(told("007")),
    "a nasty text": Case(told(NASTY)),
    "a text of 900 characters": Case(told("长" * 900)),
    "a value with tags": Case(graph(node("a", command=show("x"), inputs=[value("x", "{{workflow.name}} {{=1+1}}")]))),
    "a value with dollars": Case(graph(node("a", command=show("x"), inputs=[value("x", "$(HOME) $$ $1 ${x}")]))),
    "a command with dollars": Case(graph(node("a", command="x=1; echo '$$' \"$(echo $x)\" '$(HOME)' \"${x}2\""))),
    "a command with tags": Case(graph(node("a", command="echo '{{workflow.name}}' '{{=1+1}}'"))),
    "a command of several lines": Case(graph(node("a", command="if true; then\n  echo yes\nfi\ncat <<X\n  text\nX\n"))),
    "a file": Case(handed("echo content > /tmp/made", "/tmp/made", 'echo "$made"; cat "$made"')),
    "a file in the workspace": Case(handed("echo x > made", "/tmp/workflow_space/made", "pwd; cat made")),
    "an empty file": Case(handed("touch /tmp/made", "/tmp/made", "wc -c < $made | tr -d ' '")),
    "a program": Case(handed("printf '#!/bin/sh\\necho run\\n' > /tmp/p; chmod 755 /tmp/p", "/tmp/p", "$made")),
    "a binary file": Case(
        handed(
            "for i in 0 1 2 3; do printf '\\000\\377\\012\\015'; done > /tmp/b",
            "/tmp/b",
            "od -An -tx1 < $made | tr -d ' \\n'; echo",
        )
    ),
    "a folder": Case(
        handed(
            "mkdir -p /tmp/d/a/b /tmp/d/empty; echo 1 > /tmp/d/x; echo 2 > '/tmp/d/a/b/y z'; ln -s x /tmp/d/link",
            "/tmp/d",
            "cd $made; find . | sort; cat x 'a/b/y z' link",
        )
    ),
    "a file through three nodes": Case(
        graph(
            node("a", command="echo a > /tmp/f", outputs=[file("f", "/tmp/f")]),
            node(
                "b",
                command="cat $f > /tmp/g; echo b >> /tmp/g",
                inputs=[output("f", "a", "f")],
                outputs=[file("g", "/tmp/g")],
            ),
            node("c", command="cat $f $g", inputs=[output("f", "a", "f"), output("g", "b", "g")]),
            edges="a>b b>c a>c",
        )
    ),
    "an output for two": Case(
        graph(
            node("a", command="echo it > /tmp/out", outputs=[text("out")]),
            node("b", command=show("x"), inputs=[output("x", "a", "out")]),
            node("c", command=show("y"), inputs=[output("y", "a", "out")]),
            edges="a>b a>c",
        )
    ),
    "five outputs": Case(
        graph(
            node(
                "a",
                command="for n in 1 2 3 4 5; do echo $n > /tmp/$n; done",
                outputs=[text(f"n{n}", f"/tmp/{n}") for n in range(1, 6)],
            ),
            node("b", command=show("v5", "v1"), inputs=[output("v5", "a", "n5"), output("v1", "a", "n1")]),
            edges="a>b",
        )
    ),
    "a default": Case(with_parameter(default="somebody")),
    "a given value": Case(with_parameter(required=True), {"name": "Ann"}),
    "a nasty value": Case(with_parameter(default="x"), {"name": NASTY}),
    "a value of a run with tags": Case(with_parameter(default="x"), {"name": "{{workflow.name}} $(x) $$"}),
    "a long value": Case(with_parameter(), {"name": "0123456789" * 500}),
    "variables": Case(
        graph(node("a", command=show("PLAIN"), env=[{"name": "PLAIN", "value": "a b"}])),
    ),
    "a secret variable": Case(
        graph(
            node(
                "a",
                command='echo "the key has ${#KEY} letters: $KEY"',
                env=[{"name": "KEY", "value": "hunter2-{{x}}-$$", "secret": True}],
            )
        )
    ),
    "the variables of the platform": Case(
        graph(node("a", command='echo "$AI_HUB_WORKFLOW_RUN_ID $AI_HUB_USER_ID ${#AI_HUB_TOKEN}"'))
    ),
    "the workspace": Case(graph(node("a", command="pwd; ls -A; echo x > y; ls"))),
    "a failure": Case(graph(node("a", command="echo trying; exit 3"), node("b"), node("c"), edges="a>b b>c")),
    "a failure beside a success": Case(
        graph(node("a", command="exit 1"), node("b", command="echo b"), node("c"), edges="a>c")
    ),
    "a node that is retried": Case(graph(node("a", command="echo trying; exit 4", retries=2), node("b"), edges="a>b")),
    "a node that need not be retried": Case(graph(node("a", command="echo fine", retries=3))),
    "a text that is missing": Case(graph(node("a", outputs=[text("out")]), node("b"), edges="a>b")),
    "a file that is missing": Case(graph(node("a", outputs=[file("out", "/tmp/none")]), node("b"), edges="a>b")),
    "a condition that holds": Case(deciding("0.95", (">=", "0.9"), ("!=", "1"))),
    "a condition that does not hold": Case(deciding("0.85", (">=", "0.9"))),
    "one of two conditions": Case(deciding("b", ("==", "a"), ("contains", "b"), match="any")),
    "a condition about no number": Case(deciding("many", (">", "0"))),
    "a condition about a nasty text": Case(deciding(NASTY, ("==", NASTY))),
    "a condition about an injection": Case(deciding("' == '' || true || '", ("==", "x"))),
    "a condition about a parameter": Case(
        graph(
            node("on", condition={"comparisons": [compare(parameter("x", "mode"), "==", "{{it's}} on")]}),
            node("off", condition={"comparisons": [compare(parameter("x", "mode"), "!=", "{{it's}} on")]}),
            parameters=[{"name": "mode"}],
        ),
        {"mode": "{{it's}} on"},
    ),
    "a loop over texts": Case(repeating({"items": ["a", "b c", "长", '{"k": 1}', ""]})),
    "a loop over nasty texts": Case(repeating({"items": [NASTY, "x\n y \n", "a\\u0026b"]})),
    # Not as an output: Argo replaces tags in those, as docs/graph.md says.
    "a loop over tags": Case(
        graph(node("a", command=show("item"), loop={"items": ["{{workflow.name}} {{=1}} {{item}}", "{{"]}))
    ),
    "a loop over numbers": Case(repeating({"count": 3, "start": 9})),
    "a loop over a parameter": Case(repeating({"from": {"parameter": "list"}})),
    "a loop over an output": Case(repeating({"from": {"node": "make", "output": "list"}})),
    "a loop over nothing": Case(repeating({"from": {"parameter": "list"}}), {"list": "[]"}),
    "a loop that is skipped": Case(
        repeating({"items": ["a", "b"]}, condition={"comparisons": [compare(parameter("x", "list"), "==", "x")]})
    ),
    "a loop that is not skipped": Case(
        repeating({"items": ["a", "it's"]}, condition={"comparisons": [compare(parameter("x", "list"), "!=", "x")]})
    ),
    "a loop that fails once": Case(
        graph(
            node("a", command='test "$item" != b', loop={"items": ["a", "b", "c"]}, retries=1), node("b"), edges="a>b"
        )
    ),
    "a timeout": Case(graph(node("a", command="echo begun; sleep 600", timeout="30s"), node("b"), edges="a>b")),
    "names in Chinese": Case(
        graph(
            node("准备 数据", command="echo 好 > /tmp/out", outputs=[text("out")]),
            node("训练", command=show("x"), inputs=[output("x", "准备 数据", "out")]),
            edges="准备 数据>训练",
        )
    ),
    "names that differ little": Case(graph(node("Step 1", command="echo A"), node("step-1", command="echo b"))),
    "many lines": Case(graph(node("a", command="i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done"))),
    "no last line break": Case(graph(node("a", command="printf 'one\\ntwo'"))),
    "errors are shown, too": Case(graph(node("a", command="echo problem >&2"))),
    "a manifest": Case({"format": 1, "type": "yaml", "manifest": STEPS}, {"word": "bye"}),
}

FAILING = {
    "a failure",
    "a failure beside a success",
    "a loop that fails once",
    "a timeout",
    "a node that is retried",
    "a text that is missing",
    "a file that is missing",
}
"""The cases whose runs fail; all others succeed."""
