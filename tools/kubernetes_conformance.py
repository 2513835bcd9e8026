"""Runs Kubernetes' own conformance suite against the embedded cluster: `python -m tools.kubernetes_conformance`.

It runs the specs of tests/conformance/kubernetes.txt, and fails if one of them fails. That list may only grow. With
`--all`, it runs every spec of an area in scope, adds those that pass to the list, and writes docs/conformance.md.

The suite and the program of its test image are built on the first use, from the Go module of Kubernetes, into the cache
of the test cluster. The suite takes about 20 minutes of CPU time to build. Running the list needs root, because some of
its Pods run as other users.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from xml.etree import ElementTree

import uvloop
import yaml

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import POD
from muster.kube.errors import ApiError
from muster.kube.objects import name_of, namespace_of
from muster.server.embedded_server import run_server
from muster.server.settings import read_settings
from tools.cluster.build import build, cache_folder, manifest, program
from tools.cluster.progress import say
from tools.cluster.sources import AGNHOST, KUBERNETES, KUBERNETES_E2E
from tools.schemas import module_folder

ROOT: Final = Path(__file__).parents[1]
LIST: Final = ROOT / "tests" / "conformance" / "kubernetes.txt"
REPORT: Final = ROOT / "docs" / "conformance.md"
HEADING: Final = "## Kubernetes"
BEFORE: Final = 165
_STOP_SECONDS = 3.0

_WEBHOOKS = "admission webhooks are not wanted: a slow client could stop every write of the cluster"
_APPS = "apps/v1 is not wanted: Muster runs work that ends"
_NETWORK = "all Pods share the machine's network, so there is no cluster network to test"
_NO_CSI = "no CSI drivers: volumes are folders of this machine"

OUT_OF_SCOPE: Final[Mapping[str, str]] = {
    "apimachinery/aggregator.go": "no aggregated API servers: there is one process",
    "apimachinery/crd_conversion_webhook.go": "conversion webhooks are refused with a warning, as admission webhooks",
    "apimachinery/flowcontrol.go": "no FlowSchemas: budgets limit what one user may ask for",
    "apimachinery/validatingadmissionpolicy.go": "admission policies are not wanted, as admission webhooks",
    "apimachinery/webhook.go": _WEBHOOKS,
    "apps/controller_revision.go": _APPS,
    "apps/daemon_set.go": _APPS,
    "apps/deployment.go": _APPS,
    "apps/disruption.go": "no PodDisruptionBudgets: there is one machine, and nothing drains it",
    "apps/rc.go": "ReplicationController is the forerunner of ReplicaSet, see apps/v1",
    "apps/replica_set.go": _APPS,
    "apps/statefulset.go": _APPS,
    "auth/certificates.go": "no certificate signing requests: clients authenticate with tokens",
    "common/network/networking.go": _NETWORK,
    "common/node/ephemeral_containers.go": "ephemeral containers are refused: use `kubectl exec -it`",
    "common/node/pod_resize.go": "Pods are not resized in place: their limits are set when they start",
    "common/node/runtimeclass.go": "no RuntimeClasses: `runtime` in the settings says what runs Pods",
    "common/node/sysctl.go": "sysctls are refused: Pods share the machine's kernel",
    "dra/dra.go": "no dynamic resource allocation: GPUs are counted resources",
    "network/dns.go": "no DNS server: names of Services and Pods are in /etc/hosts of each Pod",
    "network/endpointslicemirroring.go": "Endpoints that users write are not copied: nothing here reads them",
    "network/hostport.go": _NETWORK,
    "network/ingress.go": "no Ingress: the platform's own proxy leads to notebooks and TensorBoards",
    "network/ingressclass.go": "no Ingress: the platform's own proxy leads to notebooks and TensorBoards",
    "network/service_cidrs.go": "addresses of Services come from 127.0.0.0/8, and cannot be configured",
    "scheduling/preemption.go": "no preemption: a running job is never stopped for another one",
    "storage/csi_inline.go": _NO_CSI,
    "storage/csi_node.go": _NO_CSI,
    "storage/csistoragecapacity.go": _NO_CSI,
    "storage/volume_attachment.go": _NO_CSI,
    "storage/volumeattributesclass.go": _NO_CSI,
}
"""Files of the suite to the reason why none of their specs can pass. They are not run."""

_DISCOVERY = "asks for kinds that are not wanted (apps/v1, admission webhooks)"
_NEEDS_APPS = "creates a Deployment, ReplicaSet or ReplicationController, which are not wanted"
PARTLY: Final[Mapping[str, str]] = {
    "apimachinery/aggregated_discovery.go": _DISCOVERY,
    "apimachinery/chunking.go": "a list can always be continued: tokens do not expire",
    "apimachinery/crd_publish_openapi.go": "wants Kubernetes' own sentences in `kubectl explain`",
    "apimachinery/crd_selectable_fields.go": _NEEDS_APPS,
    "apimachinery/discovery.go": _DISCOVERY,
    "apimachinery/field_validation.go": f"{_NEEDS_APPS}; a duplicate key of YAML is reported in other words",
    "apimachinery/garbage_collector.go": _NEEDS_APPS,
    "apimachinery/resource_quota.go": _NEEDS_APPS,
    "auth/service_accounts.go": "no OIDC discovery: tokens are signed with a secret key",
    "common/node/kubelet.go": "the stand-in for the test image has another shell",
    "common/node/kubelet_etc_hosts.go": "Pods with the machine's network have the hosts file of their namespace",
    "kubectl/kubectl.go": _NEEDS_APPS,
    "network/endpointslice.go": "EndpointSlices that users write do not route traffic",
    "network/proxy.go": f"{_NEEDS_APPS}; one spec waits for a redirect that the proxy does not make",
    "network/service.go": f"Services have no cluster address of their own; {_NEEDS_APPS}",
    "network/service_latency.go": _NEEDS_APPS,
    "node/taints.go": "a taint does not evict Pods that run",
    "storage/empty_dir_wrapper.go": _NEEDS_APPS,
}
"""The same for files of which some specs cannot pass."""


LISTENING: Final = frozenset({
    "common/node/container_probe.go", "common/node/lifecycle_hook.go", "common/node/pods.go",
    "common/node/security_context.go", "instrumentation/events.go", "kubectl/kubectl.go", "kubectl/logs.go",
    "network/endpointslice.go", "network/proxy.go", "network/service.go", "network/service_latency.go",
    "node/pre_stop.go", "storage/empty_dir_wrapper.go",
})  # fmt: skip
"""Files whose Pods have servers. All Pods share the machine's network, so two of them cannot have the same port."""


class Spec(NamedTuple):
    name: str
    file: str
    """Relative to test/e2e."""

    @property
    def area(self) -> str:
        found = re.match(r"\[sig-([\w-]+)\]", self.name)
        return found[1] if found else ""

    @property
    def runs_alone(self) -> bool:
        return "[Serial]" in self.name or "[Disruptive]" in self.name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="all specs in scope; adds those that pass to the list")
    parser.add_argument("--new", action="store_true", help="with --all: only those that are not in the list yet")
    parser.add_argument("--only", nargs="*", default=(), help="specs whose name or file contains one of these")
    parser.add_argument("--logs", type=Path, help="keep the suite's output in this folder")
    parser.add_argument("--processes", type=int, default=4, help="how many specs run at the same time")
    parser.add_argument("--report", action="store_true", help="run nothing; write docs/conformance.md from the list")
    chosen = parser.parse_args()
    if chosen.report:
        write_report()
        return
    if os.geteuid() != 0:
        raise SystemExit("the conformance suite needs root: some of its Pods run as other users")
    build([KUBERNETES, KUBERNETES_E2E, AGNHOST])
    specs, listed = read_specs(), read_list()
    wanted = [spec for spec in specs if (spec.file not in OUT_OF_SCOPE if chosen.all else spec.name in listed)]
    if chosen.new:
        wanted = [spec for spec in wanted if spec.name not in listed]
    if chosen.only:
        wanted = [spec for spec in wanted if any(word in f"{spec.name} {spec.file}" for word in chosen.only)]
    with contextlib.ExitStack() as stack:
        logs = chosen.logs or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="muster-conformance-")))
        results = uvloop.run(run(wanted, logs, chosen.processes))
    lost = report(specs, listed, results)
    if chosen.all:
        passed = {name for name, result in results.items() if result == "passed"}
        write_list(listed | passed)
        write_report()
    sys.exit(bool(lost))


def read_specs() -> list[Spec]:
    """Returns all conformance specs of this version of Kubernetes."""
    text = manifest(KUBERNETES_E2E, "test/conformance/testdata/conformance.yaml").read_text()
    return [Spec(each["codename"], each["file"].removeprefix("test/e2e/")) for each in yaml.safe_load(text)]


def read_list() -> set[str]:
    return set(LIST.read_text().splitlines()) if LIST.exists() else set()


def write_list(names: Iterable[str]) -> None:
    LIST.write_text("".join(f"{name}\n" for name in sorted(names)))


def write_report() -> None:
    page = REPORT.read_text() if REPORT.exists() else ""
    REPORT.write_text(with_section(page, describe(read_specs(), read_list())))


def report(specs: Sequence[Spec], listed: set[str], results: Mapping[str, str]) -> list[str]:
    """Prints what became of each spec that did not pass. Returns those that are listed."""
    lost = [name for name, result in results.items() if name in listed and result != "passed"]
    for spec in specs:
        result = results.get(spec.name)
        if result not in (None, "passed"):
            print(f"{'!' if spec.name in lost else ' '} {result:<9} {spec.file}: {spec.name}")
    passed = sum(result == "passed" for result in results.values())
    print(f"\n{passed} of {len(results)} specs passed; {len(lost)} that are listed in {LIST.name} did not")
    return lost


def describe(specs: Sequence[Spec], listed: set[str]) -> str:
    """Returns the section of docs/conformance.md: what passes, by area and file, and why the rest does not."""
    passed = sum(spec.name in listed for spec in specs)
    lines = [
        HEADING, "",
        f"The conformance suite of Kubernetes {KUBERNETES.version} has {len(specs)} specs. **{passed} of them",
        "pass** on the embedded cluster; `tests/conformance/kubernetes.txt` lists them, and may only grow.",
        "`make test-conformance` builds the suite, runs the listed specs, and fails if one of them fails. `python -m",
        "tools.kubernetes_conformance --all` also runs the others, and adds what passes. When the suite was first run,",
        f"{BEFORE} passed.",
        "", "| area | pass | of |", "| --- | ---: | ---: |",
    ]  # fmt: skip
    areas = sorted({spec.area for spec in specs})
    for area in areas:
        ours = [spec for spec in specs if spec.area == area]
        lines.append(f"| {area} | {sum(spec.name in listed for spec in ours)} | {len(ours)} |")
    lines += [
        "",
        "What does not pass, by file of the suite:",
        "",
        "| file | pass | of | why |",
        "| --- | ---: | ---: | --- |",
    ]
    for file in sorted({spec.file for spec in specs}):
        ours = [spec for spec in specs if spec.file == file]
        passing = sum(spec.name in listed for spec in ours)
        if passing < len(ours):
            why = OUT_OF_SCOPE.get(file) or PARTLY.get(file) or "not yet"
            lines.append(f"| {file} | {passing} | {len(ours)} | {why} |")
    return "\n".join(lines) + "\n"


def with_section(text: str, section: str) -> str:
    """Returns the page with the section of that heading replaced, or added at its end."""
    text = text or "# Conformance\n\nOther people's test suites, run against Muster.\n"
    start = text.find(f"{section.partition(chr(10))[0]}\n")
    if start < 0:
        return f"{text.rstrip()}\n\n{section}"
    end = text.find("\n## ", start + 1)
    return text[:start] + section + ("" if end < 0 else text[end:])


async def run(specs: Sequence[Spec], logs: Path, processes: int) -> dict[str, str]:
    """Runs the specs, those that disturb others at the end, and returns what became of each."""
    rootfs = make_rootfs()
    waiting = [spec for spec in specs if not spec.runs_alone]
    with tempfile.TemporaryDirectory(prefix="muster-conformance-") as home:
        settings = read_settings(Path(home), {"images": images(rootfs), "nodes": [{"name": "second"}]})
        async with run_server(settings) as server:
            kubeconfig = Path(home) / "kubeconfig"
            parts = share_out(waiting, processes)
            found = await asyncio.gather(
                *(_run_suite(part, logs / str(number), kubeconfig) for number, part in enumerate(parts))
            )
            alone = [spec for spec in specs if spec.runs_alone]
            if alone:
                found.append(await _run_suite(alone, logs / "serial", kubeconfig))
            await _remove_pods(server.cluster)
    return {name: result for results in found for name, result in results.items()}


async def _remove_pods(cluster: EmbeddedCluster) -> None:
    """Ends what specs have left behind: Pods outlive their server."""
    for pod in (await cluster.list(POD)).items:
        with contextlib.suppress(ApiError):
            await cluster.patch(POD, name_of(pod), namespace_of(pod), {"metadata": {"finalizers": None}})
            await cluster.delete(POD, name_of(pod), namespace_of(pod), grace_seconds=0)
    await asyncio.sleep(_STOP_SECONDS)  # the node agent ends the processes after the objects are gone


def share_out(specs: Sequence[Spec], processes: int) -> list[list[Spec]]:
    """Returns the specs of each process. Those whose Pods listen at the same ports are in one of them. Neighbours in
    the list are alike, so each of the others gets some of everything."""
    listening = [spec for spec in specs if spec.file in LISTENING]
    others = [spec for spec in specs if spec.file not in LISTENING]
    rest = max(1, processes - 1)
    return [part for part in (listening, *(others[number::rest] for number in range(rest))) if part]


async def _run_suite(specs: Sequence[Spec], logs: Path, kubeconfig: Path) -> dict[str, str]:
    logs.mkdir(parents=True, exist_ok=True)
    focus = "|".join(_go_pattern(spec.name) for spec in specs)
    command = [
        "nice", str(program(KUBERNETES_E2E, "e2e.test")), "--provider=local", f"--kubeconfig={kubeconfig}",
        f"--kubectl-path={program(KUBERNETES, 'kubectl')}", "--minStartupPods=0", "--disable-log-dump",
        f"--report-dir={logs}", f"--ginkgo.focus={focus}", "--ginkgo.timeout=3h", "--ginkgo.no-color",
        "--ginkgo.poll-progress-after=0s", "--allowed-not-ready-nodes=-1",
    ]  # fmt: skip
    with (logs / "output.txt").open("wb") as out:
        suite = await asyncio.create_subprocess_exec(*command, stdout=out, stderr=out, cwd=logs)
        await suite.wait()
    results = read_results(logs)
    found = {spec.name: results.get(spec.name, "missing") for spec in specs}
    say(f"{logs.name}: {sum(result == 'passed' for result in found.values())} of {len(specs)} passed")
    return found


def read_results(logs: Path) -> dict[str, str]:
    """Returns what became of each spec that ran, from the suite's JUnit report."""
    found: dict[str, str] = {}
    for file in logs.glob("junit*.xml"):
        for case in ElementTree.parse(file).iter("testcase"):  # noqa: S314 (of our own suite)
            name = case.get("name", "").removeprefix("[It] ")
            if case.get("status") != "skipped":
                found[name] = case.get("status", "")
    return found


def _go_pattern(text: str) -> str:
    """Quotes a text for Go's regular expressions, which know fewer escapes than Python's."""
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", text)


def make_rootfs() -> Path:
    """Makes the root file system of the suite's images in the cache: agnhost, busybox and a shell, all of them static.

    The shell is bash, because the one of busybox drops variables with names such as `data-1`."""
    folder = cache_folder() / AGNHOST.key / "rootfs"
    if folder.exists():
        return folder
    unfinished = folder.with_name(".rootfs.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    for name in (
        "bin",
        "etc",
        "tmp",
        "proc",
        "sys",
        "dev",
        "root",
        "home",
        "run",
        "uploads",
        "usr/bin",
        "usr/local/bin",
        "var/run",
        "mnt",
    ):
        (unfinished / name).mkdir(parents=True)
    (unfinished / "tmp").chmod(0o1777)
    (unfinished / "uploads").chmod(0o777)
    with tempfile.TemporaryDirectory() as place:
        for package, path in (("busybox-static", "bin/busybox"), ("bash-static", "bin/bash-static")):
            subprocess.run(["apt-get", "download", "-qq", package], cwd=place, check=True, stderr=subprocess.DEVNULL)
            (archive,) = Path(place).glob(f"{package}_*.deb")
            subprocess.run(["dpkg-deb", "-x", str(archive), f"{place}/{package}"], check=True)
            shutil.copy(Path(place, package, path), unfinished / "bin")
    for applet in subprocess.check_output([unfinished / "bin" / "busybox", "--list"], text=True).split():
        if applet != "busybox":
            (unfinished / "bin" / applet).symlink_to("bash-static" if applet == "sh" else "busybox")
    (unfinished / "bin" / "bash").symlink_to("bash-static")
    shutil.copy(program(AGNHOST, "agnhost"), unfinished / "agnhost")
    (unfinished / "agnhost-2").symlink_to("agnhost")
    shutil.copy(program(AGNHOST, "nnp"), unfinished / "usr/local/bin/nnp")
    (unfinished / "usr/local/bin/nnp").chmod(0o6755)  # it says whether it runs as root in spite of its user
    _copy_with_libraries("curl", unfinished)
    for name in ("localhost.crt", "localhost.key"):  # of its HTTPS server
        shutil.copyfile(module_folder(KUBERNETES) / "test/images/agnhost/porter" / name, unfinished / name)
    (unfinished / "etc" / "passwd").write_text(
        "root:x:0:0:root:/root:/bin/sh\nuser-defined-in-image:x:1000:1000::/home:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"
    )
    (unfinished / "etc" / "group").write_text(
        "root:x:0:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\nnobody:x:65534:\n"
    )
    unfinished.rename(folder)
    return folder


def _copy_with_libraries(name: str, rootfs: Path) -> None:
    """Copies a program of this machine, with the libraries that it needs."""
    found = shutil.which(name)
    if found is None:
        raise SystemExit(f"the conformance suite needs {name}: apt-get install {name}")
    shutil.copy(found, rootfs / "bin" / name)
    for line in subprocess.check_output(["ldd", found], text=True).splitlines():
        paths = [word for word in line.split() if word.startswith("/")]
        if paths:
            target = rootfs / paths[0].lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(paths[0], target)


def images(rootfs: Path) -> dict[str, Any]:
    """Returns the settings that map the suite's images to the root file system."""
    base: dict[str, Any] = {"rootfs": str(rootfs)}
    return {
        "registry.k8s.io/e2e-test-images/agnhost:*": {**base, "command": ["/agnhost"], "args": ["pause"]},
        "registry.k8s.io/e2e-test-images/busybox:*": {**base, "args": ["sh"]},
        "registry.k8s.io/pause:*": {**base, "command": ["/agnhost", "pause"]},
        "registry.k8s.io/e2e-test-images/nginx:*": {**base, "command": ["/agnhost"], "args": ["test-webserver"]},
        "registry.k8s.io/e2e-test-images/nonewprivs:*": {**base, "args": ["/usr/local/bin/nnp"]},
        "registry.k8s.io/e2e-test-images/nonroot:*": {**base, "command": ["/bin/id", "-u"]},
    }


if __name__ == "__main__":
    main()
