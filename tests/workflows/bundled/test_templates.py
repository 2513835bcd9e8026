"""Rules that all bundled templates obey."""

from __future__ import annotations

import subprocess
import sys

import pytest

from muster.kube.objects import Object, annotations_of, name_of, namespace_of, spec_of
from muster.workflows.bundled import list_bundles, load_bundle

TEMPLATES = [document.object for bundle in list_bundles() for document in load_bundle(bundle)]


def arguments(template: Object) -> dict[str, str]:
    return {each["name"]: str(each.get("value", "")) for each in spec_of(template)["arguments"]["parameters"]}


@pytest.mark.parametrize("template", TEMPLATES, ids=name_of)
def test_a_template(template: Object) -> None:
    assert template["kind"] == "WorkflowTemplate"
    assert not namespace_of(template), "the user chooses the namespace"
    assert annotations_of(template)["workflows.argoproj.io/description"]
    (entrypoint,) = (each for each in spec_of(template)["templates"] if each["name"] == spec_of(template)["entrypoint"])
    inputs = {each["name"]: each["value"] for each in entrypoint["inputs"]["parameters"]}
    assert inputs.keys() == arguments(template).keys(), "what `argo submit --from` takes, a templateRef takes as well"
    for name, value in inputs.items():
        assert value.startswith("{{=workflow.parameters?."), f"{name} has no default of the workflow"
        assert " ?? " in value, f"{name} has no default for workflows without such a parameter"
    source = entrypoint["script"]["source"]
    assert "{{" not in source, "values come through variables and are never pasted into the source"
    checked = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", "--select=E,F,B,I,UP", "--target-version=py39",
         "--line-length=120", "-"],
        input=source, text=True, capture_output=True,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout
