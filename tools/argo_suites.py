"""Runs Argo Workflows' own end-to-end suites against the embedded cluster: `python -m tools.argo_suites`.

It runs the tests that tests/conformance/argo_suites.yaml lists as passing, and fails if one of them fails. That list
may only grow. Some tests race with workflows that take Argo seconds and Muster less, or compare times in whole seconds:
a listed test that fails runs again, twice at most, and the report says so. With `--all` it runs the others as well, and
says which of them pass now; `--update` adds those to the list. With words, it runs the tests whose names contain one of
them.

The suites are built on the first use, from the Go module of Argo Workflows, into the cache of the test cluster
(15 minutes of CPU time). Nothing in them is changed but the addresses of the servers that they talk to. Argo's own
manifests set the cluster up, with these exceptions: CustomResourceDefinitions and Deployments are left out, because
Muster serves these kinds and does that work itself; the S3 server is versitygw, because MinIO's releases are not Go
modules; and the artifact repository names this server directly instead of a plugin that does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp
import yaml
from aiohttp import web

from muster.kube.builtin import POD, SECRET
from muster.kube.errors import AlreadyExists
from muster.kube.objects import Object, name_of, status_of
from muster.kube.remote.client import RemoteCluster
from muster.workflows.kinds import workflow_kinds
from tests.chaos.real_server import RealServer
from tests.http_server import reserve_port, serve_http
from tools.argo_cli import ARGO_CLI
from tools.cluster.build import build, cache_folder, program
from tools.cluster.progress import say, step
from tools.cluster.sources import KUBERNETES, Source
from tools.kubernetes_conformance import with_section

ROOT: Final = Path(__file__).parents[1]
LIST: Final = ROOT / "tests" / "conformance" / "argo_suites.yaml"
REPORT: Final = ROOT / "docs" / "conformance.md"
LOGS: Final = ROOT / "dist" / "argo-suites"
NAMESPACE: Final = "argo"
TAGS: Final = ("api", "artifacts", "cli", "corefunctional", "cron", "executor", "functional", "metrics")
"""The suites. The others need what is out of scope: executor plugins, a database for semaphores."""
BEFORE: Final = {
    "api": 11, "artifacts": 10, "cli": 46, "corefunctional": 48, "executor": 16, "functional": 52, "metrics": 0,
}  # fmt: skip
"""What passed when the suites were first run, by hand."""
TEST_SECONDS: Final = 240
START_SECONDS: Final = 180
ATTEMPTS: Final = 3
CRON_SECONDS: Final = 900
"""Tests of cron workflows wait for whole minutes."""

S3 = Source(
    name="versitygw",
    module="github.com/versity/versitygw",
    version="v1.8.0",
    programs={"versitygw": "cmd/versitygw"},
)
HTTPBIN = Source(
    name="go-httpbin",
    module="github.com/mccutchen/go-httpbin/v2",
    version="v2.22.1",
    programs={"go-httpbin": "cmd/go-httpbin"},
)
KUBECTL = replace(KUBERNETES, programs={"kubectl": "cmd/kubectl"})
MUSTER_KINDS = tuple(f"{kind.plural}.argoproj.io" for kind in workflow_kinds())
EVENTS_KINDS = ("eventsources", "sensors")
BUCKETS = ("my-bucket", "my-bucket-2", "my-bucket-3", "plugin-bucket")

_ADDRESSES = """package fixtures

import "os"

// Address returns the address of a server that the suites talk to.
func Address(name string) string { return os.Getenv(name) }
"""
_PATCHES: Final[Mapping[str, tuple[str, str]]] = {
    "argo_server_test.go": (
        'const baseURL = "http://localhost:2746"',
        'var baseURL = fixtures.Address("MUSTER_ARGO_URL")',
    ),
    "cli_test.go": ('"localhost:2746"', 'fixtures.Address("MUSTER_ARGO_SERVER")'),
    "artifacts_test.go": ('"localhost:9000"', 'fixtures.Address("MUSTER_ARGO_S3")'),
    "fixtures/then.go": ('"localhost:9000"', 'Address("MUSTER_ARGO_S3")'),
    "metrics_test.go": (
        'const baseURLMetrics = "https://localhost:9090/metrics"',
        'var baseURLMetrics = fixtures.Address("MUSTER_ARGO_METRICS")',
    ),
}


class SuiteTest(NamedTuple):
    suite: str
    """The build tag, such as `functional`."""
    name: str
    """As `go test -run` takes it: `TestFunctionalSuite/TestHooks`."""


class Outcome(NamedTuple):
    test: SuiteTest
    result: str
    """passed, failed or skipped"""
    why: str = ""
    attempts: int = 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*", help="tests whose names contain one of these words")
    parser.add_argument("--all", action="store_true", help="also those that are known to fail")
    parser.add_argument("--update", action="store_true", help="add the tests that pass to the list")
    parser.add_argument("--report", action="store_true", help="run nothing; write docs/conformance.md from the list")
    parser.add_argument("--jobs", type=int, default=1, help="how many servers to run tests against at the same time")
    chosen = parser.parse_args()
    if chosen.report:
        write_report()
        return
    for name, package in (("busybox", "busybox-static"), ("bash-static", "bash-static")):
        if shutil.which(name) is None:
            raise SystemExit(f"{name} is missing: apt-get install {package}")
    build([ARGO_CLI, KUBECTL, S3, HTTPBIN])
    build_suites()
    known = read_list()
    tests = [test for test in find_tests(e2e_folder()) if is_chosen(test, known, chosen.only, everything=chosen.all)]
    outcomes = asyncio.run(run(tests, chosen.jobs, known.passing))
    passed = {outcome.test for outcome in outcomes if outcome.result == "passed"}
    expected = {test for test in tests if test.name in known.passing}
    report(outcomes, known)
    if chosen.update:
        write_list(known, outcomes)
        write_report()
    if expected - passed:
        raise SystemExit(f"{len(expected - passed)} tests of {LIST.relative_to(ROOT)} no longer pass")


class KnownTests(NamedTuple):
    passing: frozenset[str]
    failing: Mapping[str, str]
    """The reason why each of the others fails."""


def read_list() -> KnownTests:
    found = yaml.safe_load(LIST.read_text()) if LIST.exists() else {}
    passing = frozenset(name for names in (found.get("passing") or {}).values() for name in names)
    failing = {name: reason for names in (found.get("failing") or {}).values() for name, reason in names.items()}
    return KnownTests(passing, failing)


def write_list(known: KnownTests, outcomes: Iterable[Outcome]) -> None:
    """Moves the tests that passed to `passing`. Tests that failed get a place for their reason."""
    by_suite: dict[str, list[str]] = {}
    for test in find_tests(e2e_folder()):
        by_suite.setdefault(test.suite, []).append(test.name)
    results = {outcome.test.name: outcome for outcome in outcomes}
    passing = known.passing | {name for name, outcome in results.items() if outcome.result == "passed"}
    reasons = {name: outcome.why for name, outcome in results.items()} | dict(known.failing)
    document = {
        "passing": {suite: [name for name in names if name in passing] for suite, names in by_suite.items()},
        "failing": {
            suite: {name: reasons[name] for name in names if name not in passing and name in reasons}
            for suite, names in by_suite.items()
        },
    }
    comments = [line for line in LIST.read_text().splitlines() if line.startswith("#")] if LIST.exists() else []
    text = yaml.safe_dump(document, sort_keys=False, width=118, allow_unicode=True)
    LIST.write_text("\n".join([*comments, text]))


_INTRODUCTION = """## Argo Workflows

The end-to-end suites of Argo Workflows {version}, changed only in the addresses that they talk to.
**{count} of {total} tests pass** on the embedded cluster; `tests/conformance/argo_suites.yaml` lists them, and may only
grow. `make test-argo-suites` builds the suites, sets a server up with Argo's own manifests, runs the listed tests, and
fails if one of them fails. `python -m tools.argo_suites --all --update` also runs the others, and adds what passes. The
suites `plugins` and `dbsemaphore` are left out: executor plugins and semaphores in a database are not supported.
"""


def write_report() -> None:
    REPORT.write_text(with_section(REPORT.read_text(), describe(yaml.safe_load(LIST.read_text()))))


def describe(listed: Mapping[str, Any]) -> str:
    """Returns the section of docs/conformance.md: how many tests pass, and why the others do not."""
    passing, failing = listed["passing"], listed["failing"]
    count = sum(map(len, passing.values()))
    total = count + sum(map(len, failing.values()))
    lines = [
        _INTRODUCTION.format(version=ARGO_CLI.version, count=count, total=total),
        "| suite | pass | of | before |",
        "| --- | ---: | ---: | ---: |",
    ]
    for suite, names in passing.items():
        number = len(names) + len(failing.get(suite) or ())
        lines.append(f"| {suite} | {len(names)} | {number} | {BEFORE.get(suite, '')} |")
    reasons: dict[str, list[str]] = {}
    for tests in failing.values():
        for name, reason in tests.items():
            reasons.setdefault(reason, []).append(name.removeprefix("Test").replace("Suite/Test", "/"))
    lines += ["", "Why the others do not pass:", "", "| reason | tests |", "| --- | --- |"]
    lines += [f"| {reason} | {', '.join(names)} |" for reason, names in sorted(reasons.items())]
    return "\n".join(lines) + "\n"


def is_chosen(test: SuiteTest, known: KnownTests, only: Sequence[str], *, everything: bool) -> bool:
    if only:
        return any(word == test.suite or word in test.name for word in only)
    return everything or test.name in known.passing


def find_tests(folder: Path) -> list[SuiteTest]:
    """Reads the tests of all suites from their sources."""
    found = []
    for file in sorted(folder.glob("*_test.go")):
        text = file.read_text()
        tag = re.search(r"^//go:build (\w+)$", text, re.MULTILINE)
        if tag is None or tag[1] not in TAGS:
            continue
        runs = re.findall(r"^func (Test\w+)\(t [^\n]*\n\s+suite\.Run\(t, new\((\w+)\)\)", text, re.MULTILINE)
        entries = {suite: name for name, suite in runs}
        for suite, method in re.findall(r"^func \(\w+ \*(\w+)\) (Test\w+)\(\)", text, re.MULTILINE):
            if suite in entries:  # Go never runs the others either
                found.append(SuiteTest(tag[1], f"{entries[suite]}/{method}"))
    return sorted(found)


def report(outcomes: Sequence[Outcome], known: KnownTests) -> None:
    for outcome in outcomes:
        if outcome.result != "passed":
            print(f"{outcome.result}  {outcome.test.suite}  {outcome.test.name}  {outcome.why}")
        elif outcome.test.name not in known.passing:
            print(f"passes now  {outcome.test.suite}  {outcome.test.name}")
        elif outcome.attempts > 1:
            print(f"passed at attempt {outcome.attempts}  {outcome.test.suite}  {outcome.test.name}")
    for suite in TAGS:
        results = [outcome.result for outcome in outcomes if outcome.test.suite == suite]
        if results:
            print(f"{suite:<16}{results.count('passed')} of {len(results)} passed, {results.count('skipped')} skipped")


# Building.


def e2e_folder() -> Path:
    return cache_folder() / ARGO_CLI.key / "module" / "test" / "e2e"


def suites_program() -> Path:
    return cache_folder() / ARGO_CLI.key / "bin" / "e2e.test"


def build_suites() -> None:
    if suites_program().exists():
        return
    module, log = e2e_folder().parents[1], cache_folder() / ARGO_CLI.key / "e2e.log"
    with (
        tempfile.TemporaryDirectory(prefix="muster-argo-suites-") as folder,
        step("Building Argo's suites", lambda: ""),
    ):
        unfinished = suites_program().with_name(".e2e.test.unfinished")
        overlay = Path(folder) / "overlay.json"
        overlay.write_text(json.dumps({"Replace": patch_addresses(Path(folder))}))
        command = [
            "nice", "-n", "10", "go", "test", "-c", "-vet=off", "-buildvcs=false", "-ldflags", "-s -w",
            "-overlay", str(overlay), "-tags", ",".join(TAGS), "-o", str(unfinished), "./test/e2e",
        ]  # fmt: skip
        with log.open("w") as out:
            environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
            status = subprocess.run(command, cwd=module, env=environment, stdout=out, stderr=out).returncode
        if status:
            raise SystemExit(f"Argo's suites could not be built; see {log}")
        unfinished.rename(suites_program())


def patch_addresses(folder: Path) -> dict[str, str]:
    """Writes the changed sources into `folder`. Returns which file each of them replaces, for `go build -overlay`."""
    replaced = {}
    for number, (name, (old, new)) in enumerate(_PATCHES.items()):
        text = (e2e_folder() / name).read_text()
        if old not in text:
            raise SystemExit(f"{name} of Argo's suites no longer contains {old}")
        patched = folder / f"{number}.go"
        patched.write_text(text.replace(old, new))
        replaced[str(e2e_folder() / name)] = str(patched)
    added = folder / "addresses.go"
    added.write_text(_ADDRESSES)
    return {**replaced, str(e2e_folder() / "fixtures" / "addresses.go"): str(added)}


# Running.


async def run(tests: Sequence[SuiteTest], jobs: int, passing: frozenset[str]) -> list[Outcome]:
    """The tests of one server run one after the other: each begins by deleting what the one before has left."""
    LOGS.mkdir(parents=True, exist_ok=True)
    argo = e2e_folder().parents[1] / "dist" / "argo"
    argo.parent.mkdir(exist_ok=True)
    if not argo.exists():
        argo.symlink_to(program(ARGO_CLI, "argo"))
    restore_links()
    waiting, outcomes = list(reversed(tests)), []

    async def work() -> None:
        async with serve_suites() as environment:
            while waiting:
                test = waiting.pop()
                outcome = await run_test(test, environment)
                while test.name in passing and outcome.result == "failed" and outcome.attempts < ATTEMPTS:
                    again = await run_test(test, environment)
                    outcome = again._replace(attempts=outcome.attempts + 1)
                outcomes.append(outcome)
                say(f"{len(outcomes)} of {len(tests)}: {outcome.result} {outcome.test.name} {outcome.why}")

    async with asyncio.TaskGroup() as group:
        for _ in range(min(jobs, len(tests))):
            group.create_task(work())
    return sorted(outcomes)


def restore_links() -> None:
    """Some files of the suites are links to Argo's examples, and module zips carry no links."""
    examples = e2e_folder().parents[1] / "examples"
    for source in e2e_folder().glob("*_test.go"):
        for path in re.findall(r'"@([a-z-]+/[a-z0-9-]+\.yaml)"', source.read_text()):
            file = e2e_folder() / path
            if not file.exists() and (examples / file.name).exists():
                file.symlink_to(examples / file.name)


async def run_test(test: SuiteTest, environment: Mapping[str, str]) -> Outcome:
    suite, method = test.name.split("/")
    process = await asyncio.create_subprocess_exec(
        str(suites_program()), "-test.v", "-test.count=1", f"-test.run=^{suite}$/^{method}$",
        f"-test.timeout={CRON_SECONDS if test.suite == 'cron' else TEST_SECONDS}s",
        cwd=e2e_folder(), env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    output = (await process.communicate())[0].decode(errors="replace")
    (LOGS / f"{suite}-{method}.log").write_text(output)
    if process.returncode:
        return Outcome(test, "failed", failure_of(output))
    if re.search(rf"--- SKIP: {test.name}", output):
        return Outcome(test, "skipped", "skipped by the suite itself")
    is_run = re.search(rf"--- PASS: {test.name} ", output) is not None
    return Outcome(test, "passed") if is_run else Outcome(test, "failed", "the suite has no such test")


def failure_of(output: str) -> str:
    """Returns the first message of a failed test, on one line."""
    output = "\n".join(line for line in output.splitlines() if "to learn how to diagnose" not in line)
    for pattern in (
        r"Error:\s+(.+?)\n\s+(?:Test:|Messages:)",
        r"e2e_suite\.go:\d+: (.*)",
        r"\.go:\d+: (.*(?:timeout|failed|error|not found|condition).*)",
        r"panic: (.*)",
    ):
        found = re.search(pattern, output, re.DOTALL if "Test:" in pattern else 0)
        if found:
            return " ".join(found[1].split())[:200]
    return " ".join(output.split())[-200:]


@asynccontextmanager
async def serve_suites() -> AsyncIterator[dict[str, str]]:
    """Runs a server that Argo's manifests have set up, for as long as the block lasts. Yields the environment of the
    tests."""
    folder = Path(tempfile.mkdtemp(prefix="muster-argo-suites-"))
    port = reserve_port()
    server = RealServer(folder / "home", **server_settings(folder, port))
    try:
        async with AsyncExitStack() as stack:
            await server.start()
            cluster = await stack.enter_async_context(server.client())
            ports = {"minio": reserve_port(), "httpbin": reserve_port()}
            await set_up(cluster, folder, ports)
            await started(cluster, "httpbin")
            address = status_of(await started(cluster, "minio"))["podIP"]
            await filled_token(cluster)
            url = f"http://127.0.0.1:{port}"
            kubeconfig = yaml.safe_load((server.home / "kubeconfig").read_text())
            kubeconfig["contexts"][0]["context"]["namespace"] = NAMESPACE
            (folder / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
            admin = kubeconfig["users"][0]["user"]["token"]
            metrics = await stack.enter_async_context(forward_metrics(url, admin))
            yield {
                **os.environ,
                "KUBECONFIG": str(folder / "kubeconfig"),
                "PATH": f"{program(KUBECTL, 'kubectl').parent}:{os.environ['PATH']}",
                "MUSTER_ARGO_URL": url,
                "MUSTER_ARGO_SERVER": f"127.0.0.1:{port}",
                "MUSTER_ARGO_S3": f"{address}:{ports['minio']}",
                "MUSTER_ARGO_METRICS": metrics,
            }
    finally:
        shutil.copyfile(server.home / "server.log", LOGS / f"server-{port}.log")
        server.end()
        shutil.rmtree(folder, ignore_errors=True)


def server_settings(folder: Path, port: int) -> dict[str, Any]:
    """The images of the tests, argosay, are a root file system with BusyBox, Bash and the script of that name."""
    rootfs = folder / "argosay"
    for name in ("bin", "tmp", "etc"):
        (rootfs / name).mkdir(parents=True)
    busybox = rootfs / "bin" / "busybox"
    shutil.copy(shutil.which("busybox") or "", busybox)
    shutil.copy(shutil.which("bash-static") or "", rootfs / "bin" / "bash")
    subprocess.run(["chroot", str(rootfs), "/bin/busybox", "--install", "-s", "/bin"], check=True)
    shutil.copy(e2e_folder() / "images" / "argosay" / "v2" / "argosay", rootfs / "argosay")
    (rootfs / "argosay").chmod(0o755)
    shutil.copy(ROOT / "tests" / "conformance" / "programs" / "whalesay" / "cowsay", rootfs / "bin")
    programs = [str(program(source, name).parent) for source, name in ((S3, "versitygw"), (HTTPBIN, "go-httpbin"))]
    argo, kubectl = str(program(ARGO_CLI, "argo").parent), str(program(KUBECTL, "kubectl").parent)
    return {
        "node": {"capacity": {"cpu": "100", "memory": "100Gi", "pods": "500"}},
        "listen": {"httpPort": port},
        "durability": "process",
        "images": {
            "docker/whalesay": {"rootfs": str(rootfs)},
            "argoproj/argosay:v1": {"rootfs": str(rootfs), "args": ["cowsay"]},
            "argoproj/argosay": {"rootfs": str(rootfs), "command": ["/argosay"]},
            "quay.io/argoproj/argocli": {"path": [argo], "command": ["argo"]},
            "bitnamilegacy/kubectl": {"path": [kubectl], "command": ["kubectl"]},
            "servers": {"path": programs},
        },
    }


async def set_up(cluster: RemoteCluster, folder: Path, ports: Mapping[str, int]) -> None:
    """`ports` are those of the servers that Argo's manifests run as Deployments. They are not the usual ones: Pods of
    another server on this machine may have the same address."""
    for obj in (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        *(adapt(obj, ports) for obj in await asyncio.to_thread(manifests, folder)),
        server_pod("minio", ports["minio"], "versitygw --access admin --secret password --port $ADDRESS posix /data"),
        server_pod("httpbin", ports["httpbin"], "go-httpbin -host $POD_IP -port $PORT"),
    ):
        try:
            await cluster.create(obj)
        except AlreadyExists:
            continue


def manifests(folder: Path) -> list[Object]:
    """Returns the objects that Argo's own developers set their cluster up with."""
    minimal, base = e2e_folder() / "manifests" / "minimal", e2e_folder() / "manifests" / "components" / "base"
    names = [
        "argo-workflows-agent-ca-certificates.yaml", "argo.service-account-token-secret.yaml", "get-cm-rbac.yaml",
        "e2e-secrets-rbac.yaml",
    ]  # fmt: skip
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": NAMESPACE,
        "resources": [os.path.relpath(path, folder) for path in (*(minimal / name for name in names), *events_kinds())],
        "components": [os.path.relpath(base, folder)],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    command = [str(program(KUBECTL, "kubectl")), "kustomize", "--load-restrictor=LoadRestrictionsNone", str(folder)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    # The definitions of Argo's own kinds are 11 MB of YAML, and Muster serves these kinds anyway.
    documents = [part for part in text.split("\n---\n") if not any(f"name: {name}\n" in part for name in MUSTER_KINDS)]
    return [obj for obj in map(yaml.safe_load, documents) if obj["kind"] != "Deployment"]


def events_kinds() -> list[Path]:
    """Returns the definitions of Argo Events' kinds. The suites delete such objects before every test."""
    command = ["go", "list", "-m", "-f", "{{.Dir}}", "github.com/argoproj/argo-events"]
    found = subprocess.run(command, cwd=e2e_folder(), capture_output=True, text=True, check=True).stdout.strip()
    return [Path(found) / "manifests" / "base" / "crds" / f"argoproj.io_{kind}.yaml" for kind in EVENTS_KINDS]


def adapt(obj: Object, ports: Mapping[str, int]) -> Object:
    """Returns an object of Argo's manifests as this cluster needs it."""
    if obj["kind"] == "Service" and name_of(obj) in ports:
        port = {**obj["spec"]["ports"][0], "targetPort": ports[name_of(obj)]}
        return {**obj, "spec": {**obj["spec"], "ports": [port]}}
    if obj["kind"] != "ConfigMap":
        return obj
    data = dict(obj["data"])
    for key, text in data.items():
        setting = yaml.safe_load(text)
        if isinstance(setting, dict) and "plugin" in setting:
            plugin = setting.pop("plugin")
            data[key] = yaml.safe_dump({**setting, "s3": yaml.safe_load(plugin["configuration"])})
    return {**obj, "data": data}


def server_pod(name: str, port: int, command: str) -> Object:
    """A server that Argo's manifests run as a Deployment."""
    script = f"mkdir -p {' '.join(f'/data/{bucket}' for bucket in BUCKETS)} && exec {command}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": name}},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "servers",
                    "command": ["sh", "-c", script],
                    "env": [
                        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                        {"name": "PORT", "value": str(port)},
                        {"name": "ADDRESS", "value": "$(POD_IP):$(PORT)"},
                    ],
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                    "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1},
                }
            ],
            "volumes": [{"name": "data", "emptyDir": {}}],
        },
    }


async def started(cluster: RemoteCluster, name: str) -> Object:
    """Returns the Pod when it is ready."""
    async with asyncio.timeout(START_SECONDS):
        while True:
            pod = await cluster.get(POD, name, NAMESPACE)
            conditions = {c["type"]: c["status"] for c in status_of(pod).get("conditions") or ()}
            if conditions.get("Ready") == "True":
                return pod
            await asyncio.sleep(0.2)


async def filled_token(cluster: RemoteCluster) -> None:
    """Waits for the token that the suites use."""
    async with asyncio.timeout(START_SECONDS):
        async for event in cluster.watch(SECRET, NAMESPACE, fields="metadata.name=argo-server.service-account-token"):
            if event.object.get("data"):
                return


@asynccontextmanager
async def forward_metrics(url: str, token: str) -> AsyncIterator[str]:
    """Serves the metrics without a token, as Argo's controller does. Yields the address."""
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session:

        async def forward(request: web.Request) -> web.Response:
            async with session.get(f"{url}/metrics") as response:
                return web.Response(status=response.status, text=await response.text())

        async with serve_http(forward) as port:
            yield f"http://127.0.0.1:{port}/metrics"


if __name__ == "__main__":
    main()
