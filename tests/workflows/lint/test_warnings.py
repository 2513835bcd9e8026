from __future__ import annotations

from typing import Any

import pytest
import yaml

from muster.workflows.lint import find_warnings

T = "spec.templates[0]"
ON_PROCESSES = "has no effect on processes on this machine"


def told(text: str) -> list[tuple[str, str]]:
    obj: dict[str, Any] = yaml.safe_load(text)
    return [(cause.field, cause.message) for cause in find_warnings({"kind": "Workflow", **obj})]


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ("{podDisruptionBudget: {minAvailable: 1}}", "spec.podDisruptionBudget", "everything runs on this machine"),
        ("{imagePullSecrets: [{name: a}]}", "spec.imagePullSecrets", "unless images are run by podman"),
        ("{dnsConfig: {nameservers: [a]}}", "spec.dnsConfig", "names are resolved by this machine"),
        ("{executor: {serviceAccountName: a}}", "spec.executor", "there is no executor"),
        (
            "{retryStrategy: {affinity: {nodeAntiAffinity: {}}}}",
            "spec.retryStrategy.affinity",
            "everything runs on this machine",
        ),
        ("{synchronization: {mutex: {name: a}}}", "spec.synchronization.mutex", "write mutexes: [...]"),
        (
            "{templates: [{retryStrategy: {affinity: {nodeAntiAffinity: {}}}}]}",
            f"{T}.retryStrategy.affinity",
            "everything runs on this machine",
        ),
        ("{templates: [{plugin: {mine: {}}}]}", f"{T}.plugin", "needs an executor plugin"),
        (
            "{templates: [{inputs: {artifacts: [{name: a, hdfs: {path: /a}}]}}]}",
            f"{T}.inputs.artifacts[0].hdfs",
            "hdfs artifacts are not supported here",
        ),
        (
            "{templates: [{container: {securityContext: {privileged: true}}}]}",
            f"{T}.container.securityContext.privileged",
            ON_PROCESSES,
        ),
        (
            "{templates: [{sidecars: [{name: a, volumeDevices: [{}]}]}]}",
            f"{T}.sidecars[0].volumeDevices",
            ON_PROCESSES,
        ),
        (
            "{templates: [{steps: [[{inline: {container: {resizePolicy: [{}]}}}]]}]}",
            f"{T}.steps[0][0].inline.container.resizePolicy",
            ON_PROCESSES,
        ),
        (
            "{volumes: [{name: work}], templates: [{container: {volumeMounts: [{name: wrok, mountPath: /a}]}}]}",
            f"{T}.container.volumeMounts[0].name",
            "there is no volume 'wrok'; did you mean \"work\"?",
        ),
        (
            "{templates: [{steps: [[{template: a, arguments: {parameters: [{name: mesage, value: 1}]}}]]},"
            " {name: a, inputs: {parameters: [{name: message}]}}]}",
            f"{T}.steps[0][0].arguments.parameters[0].name",
            'has no effect: the template has no inputs.parameters.mesage; did you mean "message"?',
        ),
        (
            "{templates: [{container: {args: ['{{input.parameters.x}}']}}]}",
            f"{T}.container.args[0]",
            "{{input.parameters.x}} is not substituted; did you mean {{inputs.parameters.x}}?",
        ),
        (
            "{templates: [{container: {args: ['{{parameters.x}}']}}]}",
            f"{T}.container.args[0]",
            "did you mean {{inputs.parameters.x}}?",
        ),
        (
            "{templates: [{container: {args: ['{{=fromJson(inputs.parameters.x).a}}']}}]}",
            f"{T}.container.args[0]",
            "is not substituted: there is no function fromJson; did you mean fromJSON?",
        ),
        (
            "{templates: [{container: {args: ['{{=sprig.fromJason(inputs.parameters.x)}}']}}]}",
            f"{T}.container.args[0]",
            "there is no function sprig.fromJason; did you mean sprig.fromJson?",
        ),
        (
            "{templates: [{container: {args: ['{{inputs.parameters.x}} {{inputs.parameters.x']}}]}",
            f"{T}.container.args[0]",
            "never closed",
        ),
    ],
)  # fmt: skip
def test_says_what_has_no_effect(spec: str, field: str, message: str) -> None:
    ((found, text),) = told(f"spec: {spec}")
    assert found == field
    assert message in text


def test_an_old_spelling_of_a_schedule() -> None:
    found = told("kind: CronWorkflow\nspec: {schedule: '@daily', workflowSpec: {dnsConfig: {nameservers: [a]}}}")
    assert [field for field, _ in found] == ["spec.schedule", "spec.workflowSpec.dnsConfig"]


@pytest.mark.parametrize(
    "spec",
    [
        "{}",
        "{templates: [{container: {args: ['{{ .Values.x }} {{foo}} {{item}} {{inputs.parameters.x}}']}}]}",
        "{volumeClaimTemplates: [{metadata: {name: a}}], templates: [{volumes: [{name: b}], container: {volumeMounts: "
        "[{name: a, mountPath: /a}, {name: b, mountPath: /b}, {name: '{{item}}', mountPath: /c}]}}]}",
        "{templates: [{container: {args: ['{{=let up = 1; asInt(\"1\") + up}} {{=now().Year()}}']}}]}",
        "{templates: [{container: {args: ['{{=sprig.upper(inputs.parameters.x)}}']}}]}",
        "{podSpecPatch: '{}', templates: [{container: {volumeMounts: [{name: a, mountPath: /a}]}}]}",
        "{arguments: {parameters: [{name: kubeflow-pipeline}]}, templates: [{plugin: {kubeflow-importer: {}}}]}",
        "{templates: [{steps: [[{template: elsewhere, arguments: {parameters: [{name: a}]}}]]}]}",
    ],
)
def test_has_nothing_to_say_of_the_rest(spec: str) -> None:
    assert told(f"spec: {spec}") == []
