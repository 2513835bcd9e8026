"""Runs the Argo examples that other people wrote, on this machine, and says of each what became of it.

    python -m tools.conformance [FOLDER] [--only NAME...] [--all]

A workflow has to end Succeeded, one that is labelled an expected failure has to end Failed or Error, unless it
tolerates failures or tries again. Those that their authors have labelled as not to be tested (they need an environment,
a long time or luck) are skipped, unless `--all`.
Images that this machine cannot run are replaced by what tests/conformance/images.yaml says; the report counts the
workflows that ran with such a substitute.
The folder is the one beside the project, or what MUSTER_CONFORMANCE names.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import uvloop
import yaml

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.node.images import match_image
from muster.embedded.settings import ImageSettings
from muster.kube.errors import AlreadyExists, ApiError
from muster.kube.manifests import Document, ManifestError, load_manifest_files
from muster.kube.objects import Object, annotations_of, key_of, labels_of, name_of, namespace_of, status_of
from muster.server.embedded_server import run_server
from muster.server.settings import read_settings
from muster.workflows.kinds import WORKFLOW

NO_TEST = "workflows.argoproj.io/no-test"
REASONS = tuple(f"workflows.argoproj.io/no-test-{word}" for word in ("reason", "reasons", "resons"))
ENDS = ("Succeeded", "Failed", "Error")
SURROUNDINGS: Sequence[Object] = (
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "simple-parameters",
            "namespace": "default",
            "labels": {"workflows.argoproj.io/configmap-type": "Parameter"},
        },
        "data": {"msg": "hello world"},
    },
)
"""What upstream's own tests set up before they run the examples."""
INTERNET = "https://raw.githubusercontent.com"
NEEDS = {
    "artifact-passing-explicit-plugin.yaml": "an artifact plugin",
    "input-artifact-http.yaml": "the internet",
}
"""For files without labels: what they need that a machine without internet access does not have."""
SUBSTITUTES = Path(__file__).parents[1] / "tests" / "conformance" / "images.yaml"
AT_ONCE = 4
PATIENCE = 120.0


class Case(NamedTuple):
    file: str
    workflow: Object

    @property
    def label(self) -> str:
        return str(labels_of(self.workflow).get(NO_TEST) or "")

    @property
    def may_succeed(self) -> bool:
        """Succeeds although something in it fails."""
        written = str(self.workflow.get("spec"))
        return "continueOn" in written or "retryStrategy" in written

    @property
    def reason(self) -> str:
        notes = annotations_of(self.workflow)
        return " ".join(next((notes[name] for name in REASONS if name in notes), "").split())


class Outcome(NamedTuple):
    case: Case
    result: str
    seconds: float
    why: str = ""
    substitutes: tuple[str, ...] = ()
    """The images of the workflow that were replaced."""

    @property
    def is_right(self) -> bool:
        if self.case.label == "expected-failure":
            return self.result in ("Failed", "Error") or (self.result == "Succeeded" and self.case.may_succeed)
        return self.result in ("Succeeded", "skipped")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=default_folder())
    parser.add_argument("--only", nargs="*", default=(), help="files whose path contains one of these")
    parser.add_argument("--all", action="store_true", help="also those that are labelled as not to be tested")
    chosen = parser.parse_args()
    if not chosen.folder.is_dir():
        raise SystemExit(f"{chosen.folder} is not here; set MUSTER_CONFORMANCE to where the manifests are")
    outcomes = uvloop.run(run(chosen.folder, chosen.only, everything=chosen.all))
    report(outcomes)
    sys.exit(not all(outcome.is_right for outcome in outcomes))


def default_folder() -> Path:
    given = os.environ.get("MUSTER_CONFORMANCE")
    return (Path(given) if given else Path(__file__).parents[2] / "shared" / "conformance") / "argo"


async def run(folder: Path, only: Sequence[str] = (), *, everything: bool = False) -> list[Outcome]:
    """Creates the templates and other objects that the workflows refer to before the first one starts."""
    documents: list[tuple[str, Document]] = []
    unreadable: list[Outcome] = []
    for file in sorted(folder.rglob("*.yaml")):
        name = str(file.relative_to(folder))
        try:
            documents += [(name, document) for document in load_manifest_files([file], named=False)]
        except ManifestError as error:
            unreadable.append(Outcome(Case(name, {}), "unreadable", 0.0, str(error)))
    cases = [
        Case(name, document.object)
        for name, document in documents
        if document.object.get("kind") == "Workflow" and (not only or any(word in name for word in only))
    ]
    with TemporaryDirectory(prefix="muster-conformance-") as home:
        capacity = {"cpu": "1000", "memory": "1Ti", "pods": "1000"}
        settings = read_settings(Path(home), {"node": {"capacity": capacity}, "images": substitute_images()})
        async with run_server(settings) as server:
            for thing in SURROUNDINGS:
                await _apply(server.cluster, thing)
            for _, document in documents:
                if document.object.get("kind") != "Workflow":
                    await _apply(server.cluster, document.object)
            gate = asyncio.Semaphore(AT_ONCE)
            outcomes = await asyncio.gather(*(_run(server.cluster, case, gate, everything) for case in cases))
            ran = [
                o if o.result == "skipped" else o._replace(substitutes=substitutes_in(o.case.workflow))
                for o in outcomes
            ]
            return [*unreadable, *ran]


def report(outcomes: Sequence[Outcome]) -> None:
    width = max((len(outcome.case.file) for outcome in outcomes), default=0)
    for outcome in outcomes:
        mark = " " if outcome.is_right else "!"
        taken = f"{outcome.seconds:6.1f} s" if outcome.seconds else " " * 8
        why = " ".join(outcome.why.split())
        if outcome.substitutes:
            why = f"[substitute: {', '.join(outcome.substitutes)}] {why}"
        print(f"{mark} {outcome.case.file:<{width}}  {outcome.result:<10} {taken}  {why[:300]}".rstrip())
    counts = {r: sum(o.result == r for o in outcomes) for r in sorted({o.result for o in outcomes})}
    wrong = sum(not outcome.is_right for outcome in outcomes)
    substituted = sum(bool(outcome.substitutes) for outcome in outcomes)
    print(
        "\n" + ", ".join(f"{count} {result}" for result, count in counts.items()) + f"; {wrong} not as they should be"
    )
    print(f"ran with a substitute: {substituted}")


def _with_substitutes(outcome: Outcome) -> Outcome:
    return (
        outcome if outcome.result == "skipped" else outcome._replace(substitutes=substitutes_in(outcome.case.workflow))
    )


def substitute_images() -> dict[str, Any]:
    """The `images` of the settings, with absolute paths."""
    found: dict[str, Any] = {}
    for image, substitute in _read_substitutes().items():
        paths = [str(SUBSTITUTES.parent / path) for path in substitute.get("path") or ()]
        found[image] = {**{k: v for k, v in substitute.items() if k != "onlyIf"}, "path": paths}
    return found


def substitutes_in(workflow: Object) -> tuple[str, ...]:
    """The images of a workflow that are replaced."""
    substitutes = _read_substitutes()
    patterns = dict.fromkeys(substitutes, ImageSettings())
    text = str(workflow.get("spec"))
    return tuple(
        image
        for image in sorted(set(images_in(workflow.get("spec"))))
        if (pattern := match_image(image, patterns)) and str(substitutes[pattern].get("onlyIf") or "") in text
    )


def images_in(value: Any) -> Iterator[str]:
    """All images that a manifest names."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "image" and isinstance(inner, str):
                yield inner
            yield from images_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from images_in(inner)


def _read_substitutes() -> Mapping[str, Mapping[str, Any]]:
    substitutes: Mapping[str, Mapping[str, Any]] = yaml.safe_load(SUBSTITUTES.read_text())
    return substitutes


async def _apply(cluster: EmbeddedCluster, obj: Object) -> None:
    try:
        await cluster.create(obj)
    except AlreadyExists:
        return
    except ApiError as error:
        print(f"  {obj.get('kind')} {name_of(obj)}: {error}", file=sys.stderr)


async def _run(cluster: EmbeddedCluster, case: Case, gate: asyncio.Semaphore, everything: bool) -> Outcome:
    if case.label and case.label != "expected-failure" and not everything:
        return Outcome(case, "skipped", 0.0, f"labelled {case.label}: {case.reason}".rstrip(": "))
    if lacking := _lacking(case):
        return Outcome(case, "skipped", 0.0, f"needs {lacking}")
    async with gate:
        started = time.monotonic()
        try:
            made = await cluster.create(case.workflow)
        except ApiError as error:
            return Outcome(case, "Error" if case.label == "expected-failure" else "refused", 0.0, str(error))
        try:
            async with asyncio.timeout(PATIENCE):
                ended = await _ended(cluster, made)
        except TimeoutError:
            ended = await cluster.get(WORKFLOW, name_of(made), namespace_of(made))
            await cluster.delete(WORKFLOW, name_of(made), namespace_of(made))
            return Outcome(case, "unfinished", time.monotonic() - started, _why(cluster, ended))
        status = status_of(ended)
        why = "" if status.get("phase") == "Succeeded" else _why(cluster, ended)
        return Outcome(case, str(status.get("phase")), time.monotonic() - started, why)


def _lacking(case: Case) -> str:
    if INTERNET in str(case.workflow.get("spec")):
        return "the internet"
    return NEEDS.get(case.file, "")


async def _ended(cluster: EmbeddedCluster, workflow: Object) -> Object:
    key = key_of(workflow)
    last = workflow
    async for event in cluster.watch(WORKFLOW, key.namespace, fields=f"metadata.name={key.name}"):
        if event.type == "DELETED" and status_of(last).get("phase") in ENDS:
            return last
        last = event.object
        if status_of(last).get("phase") in ENDS:
            return last
    raise AssertionError("a watch does not end")


def _why(cluster: EmbeddedCluster, workflow: Object) -> str:
    """The message of the workflow and of its first failed node."""
    whole = cluster.with_status_rows(workflow, WORKFLOW)
    message = str(status_of(whole).get("message") or "")
    for node in (status_of(whole).get("nodes") or {}).values():
        if node.get("phase") not in ("Succeeded", "Skipped", "Omitted") and not node.get("children"):
            return f"{message} [{node['displayName']}: {node['phase']} {node.get('message', '')}]".strip()
    return message


if __name__ == "__main__":
    main()
