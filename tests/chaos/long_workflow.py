"""A workflow that uses most features. Each task appends the name of its Pod to a file, so a task that ran twice cannot
be hidden. `faults` checks the file and the nodes at the end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from muster.kube.objects import Object, name_of, status_of
from muster.workflows.engine.node_tree import pod_name
from muster.workflows.kinds import WORKFLOW

BOOK = "book"
OVERLAPS = "overlaps"
_WIDTH = 15


class Size(NamedTuple):
    layers: int
    fan: int
    locked: int
    flaky: int
    branches: int


LARGE = Size(layers=6, fan=32, locked=8, flaky=6, branches=4)
"""More than 200 nodes."""
SMALL = Size(layers=2, fan=8, locked=3, flaky=2, branches=1)


def long_workflow(name: str, books: Path, size: Size) -> Object:
    """Every task records the name of its Pod, which stands for one attempt of one node."""
    return {
        "apiVersion": WORKFLOW.api_version,
        "kind": "Workflow",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "entrypoint": "main",
            "onExit": "bye",
            "parallelism": 8,
            "volumes": [{"name": "books", "hostPath": {"path": str(books), "type": "Directory"}}],
            "templates": [_main(size), *_templates(books, size)],
        },
    }


def faults(workflow: Object, books: Path) -> list[str]:
    """Returns the Pods that ran twice, did not run, or ran at the same time although a lock forbids it."""
    ran = Counter((books / BOOK).read_text().split())
    found = [f"{pod} ran {times} times" for pod, times in ran.items() if times > 1]
    wanted = {
        pod_name(name_of(workflow), node["name"], node["templateName"])
        for node in status_of(workflow)["nodes"].values()
        if node["type"] == "Pod" and node["templateName"] != "made"
    } | {f"{name_of(workflow)}-made"}
    found += [f"{pod} did not run" for pod in wanted - ran.keys()]
    found += [f"{pod} ran, and is no node's" for pod in ran.keys() - wanted]
    if (books / OVERLAPS).exists():
        found.append(f"ran together: {(books / OVERLAPS).read_text()}")
    return found


def comparable_status(workflow: Object) -> dict[str, Any]:
    """Returns the part of the status that is the same in every run of the workflow, whatever its name."""
    nodes = status_of(workflow)["nodes"]
    names = {node["id"]: node["name"].replace(name_of(workflow), "*") for node in nodes.values()}
    return {
        "phase": status_of(workflow)["phase"],
        "progress": status_of(workflow)["progress"],
        "outputs": _anonymous(status_of(workflow).get("outputs"), name_of(workflow)),
        "synchronization": status_of(workflow).get("synchronization"),
        "nodes": {
            names[node["id"]]: {
                **{field: node.get(field) for field in ("type", "phase", "message", "progress", "templateName")},
                "inputs": _anonymous(node.get("inputs"), name_of(workflow)),
                "outputs": _anonymous(node.get("outputs"), name_of(workflow)),
                "children": sorted(names[child] for child in node.get("children") or ()),
                "ends": sorted(names[end] for end in node.get("outboundNodes") or ()),
            }
            for node in nodes.values()
        },
    }


def _anonymous(value: Any, name: str) -> Any:
    """Removes what depends on the name of the workflow: the keys of artifacts, and the names of Pods, which end in a
    hash of it."""
    if isinstance(value, dict):
        return {key: _anonymous(each, name) for key, each in value.items() if key != "s3"}
    if isinstance(value, list):
        return [_anonymous(each, name) for each in value]
    return value.replace(name, "*") if isinstance(value, str) else value


def _main(size: Size) -> Object:
    def task(name: str, template: str, depends: str = "", **more: Any) -> Object:
        found: Object = {"name": name, "template": template, **more}
        return {**found, "depends": depends} if depends else found

    tasks = [
        task("items", "items"),
        task("fan", "square", "items", withParam="{{tasks.items.outputs.result}}", arguments=_values(n="{{item}}")),
        task("gather", "gather", "fan", arguments=_values(all="{{tasks.fan.outputs.parameters.squared}}")),
        task("locked", "locked", withSequence={"count": str(size.locked)}),
        task("flaky", "flaky", withSequence={"count": str(size.flaky)}),
        task("made", "made", "items"),
        task("wrong", "wrong"),
        task("tolerant", "quick", "wrong.Failed"),
        task("pause", "pause", "made"),
        task("never", "quick", "pause", when="{{tasks.items.exitCode}} != 0"),
        *(
            task(f"branch-{n}", "branch", "pause && flaky", arguments=_values(number=str(n)))
            for n in range(size.branches)
        ),
    ]
    for layer in range(size.layers):
        for column in range(_WIDTH):
            above = [f"l{layer - 1}-{column}", f"l{layer - 1}-{(column + 1) % _WIDTH}"] if layer else []
            tasks.append(task(f"l{layer}-{column}", "quick", " && ".join(above)))
    return {"name": "main", "dag": {"tasks": tasks}}


def _templates(books: Path, size: Size) -> list[Object]:
    overlap = f"mkdir /books/held || echo {{{{pod.name}}}} >> /books/{OVERLAPS}; sleep 0.05; rmdir /books/held"
    square = _task("square", "echo $(({{inputs.parameters.n}} * {{inputs.parameters.n}})) > /tmp/squared", ["n"])
    square["outputs"] = {"parameters": [{"name": "squared", "valueFrom": {"path": "/tmp/squared"}}]}
    gather = _task("gather", "echo '{{inputs.parameters.all}}' | tr -cd '0-9,' > /tmp/total", ["all"])
    total = {"name": "total", "globalName": "total", "valueFrom": {"path": "/tmp/total"}}
    gather["outputs"] = {"parameters": [total]}
    numbers = ",".join(map(str, range(size.fan)))
    make = _task("make", "mkdir /tmp/model; echo weights-{{inputs.parameters.number}} > /tmp/model/weights", ["number"])
    make["outputs"] = {"artifacts": [{"name": "model", "path": "/tmp/model"}]}
    use = _task("use", "cat /in/model/weights > /tmp/read")
    use["inputs"] = {"artifacts": [{"name": "model", "path": "/in/model"}]}
    use["outputs"] = {"parameters": [{"name": "read", "valueFrom": {"path": "/tmp/read"}}]}
    return [
        _task("quick", "true"),
        _task("items", f"echo '[{numbers}]'"),
        square,
        gather,
        {**_task("locked", overlap), "synchronization": {"mutexes": [{"name": "{{workflow.name}}-one"}]}},
        {**_task("flaky", "test {{retries}} = 2"), "retryStrategy": {"limit": "3"}},
        _task("wrong", "exit 3"),
        {"name": "pause", "suspend": {"duration": "1"}},
        _made(books),
        make,
        use,
        {
            "name": "branch",
            "inputs": {"parameters": [{"name": "number"}]},
            "steps": [
                [{"name": "make", "template": "make", "arguments": _values(number="{{inputs.parameters.number}}")}],
                [
                    {
                        "name": "use",
                        "template": "use",
                        "arguments": {
                            "artifacts": [{"name": "model", "from": "{{steps.make.outputs.artifacts.model}}"}]
                        },
                    },
                    {"name": "skipped", "template": "quick", "when": "{{inputs.parameters.number}} > 1000"},
                    {"name": "twice", "template": "quick", "withItems": ["a", "b"]},
                ],
                [
                    {
                        "name": "last",
                        "template": "said",
                        "arguments": _values(text="{{steps.use.outputs.parameters.read}}"),
                    }
                ],
            ],
        },
        _task("said", "echo '{{inputs.parameters.text}}'", ["text"]),
        _task("bye", "echo {{workflow.status}} > /books/{{workflow.name}}-status"),
    ]  # fmt: skip


def _task(name: str, script: str, parameters: list[str] | None = None) -> Object:
    made: Object = {
        "name": name,
        "container": {
            "image": "busybox",
            "command": ["sh", "-ec", f"echo {{{{pod.name}}}} >> /books/{BOOK}\n{script}"],
            "volumeMounts": [{"name": "books", "mountPath": "/books"}],
        },
    }
    if parameters:
        made["inputs"] = {"parameters": [{"name": name} for name in parameters]}
    return made


def _made(books: Path) -> Object:
    """A Pod that the workflow creates with a resource template."""
    manifest = f"""
        apiVersion: v1
        kind: Pod
        metadata:
          generateName: made-
          labels: {{of: "{{{{workflow.name}}}}"}}
        spec:
          restartPolicy: Never
          volumes: [{{name: books, hostPath: {{path: {books}, type: Directory}}}}]
          containers:
            - name: main
              image: busybox
              command: [sh, -c, "echo {{{{workflow.name}}}}-made >> /books/{BOOK}"]
              volumeMounts: [{{name: books, mountPath: /books}}]
    """
    return {
        "name": "made",
        "resource": {
            "action": "create",
            "manifest": manifest,
            "successCondition": "status.phase == Succeeded",
            "failureCondition": "status.phase == Failed",
        },
        "outputs": {"parameters": [{"name": "of", "valueFrom": {"jsonPath": "{.metadata.labels.of}"}}]},
    }


def _values(**parameters: str) -> Object:
    return {"parameters": [{"name": name, "value": value} for name, value in parameters.items()]}
