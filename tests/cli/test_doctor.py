from __future__ import annotations

from pathlib import Path

import pytest

from muster.cli.doctor import Finding, data, engine, gpus, limits, ports, report, sandbox, system
from muster.embedded.node.image_engine import EngineProblem, ImageEngine
from muster.embedded.node.machine import MachineInfo

BARE = MachineInfo("box", 4, 8 << 30, 100 << 30)
WITH_GPUS = MachineInfo("box", 4, 8 << 30, 100 << 30, devices={"nvidia.com/gpu": ("0", "1")})


@pytest.mark.parametrize(
    ("finding", "grade", "words"),
    [
        (system("Linux", (3, 11, 2), BARE), "ok", "Python 3.11.2"),
        (system("Darwin", (3, 11, 2), BARE), "missing", "Pods need Linux"),
        (gpus(WITH_GPUS, True), "ok", "2 x nvidia.com/gpu"),
        (gpus(BARE, False), "ok", "stay Pending"),
        (gpus(BARE, True), "limited", "lists no GPU"),
        (sandbox("namespaces", "own mounts for each Pod"), "ok", "own mounts"),
        (sandbox("user-namespaces", "in a user namespace"), "ok", "user namespace"),
        (sandbox("none", "Pods share /tmp: operation not permitted"), "limited", "not permitted"),
        (limits(True, True), "ok", "enforced"),
        (limits(False, True), "limited", "memory limits are not enforced"),
        (engine(ImageEngine("podman", "/usr/bin/podman", ("--runtime", "runc"))), "ok", "--runtime runc"),
        (engine(EngineProblem("docker", "docker is not installed")), "limited", "docker is not installed"),
        (ports(True, True), "ok", "127.0.0.0/8"),
        (ports(True, False), "limited", "share one address"),
        (ports(False, False), "missing", "ip link set lo up"),
        (data(Path("/data"), "", 50 << 30), "ok", "50.0 GiB free"),
        (data(Path("/data"), "", 1 << 30), "limited", "MUSTER_HOME"),
        (data(Path("/data"), "may not be written", 0), "missing", "MUSTER_HOME"),
    ],
)
def test_the_rating_of_findings(finding: Finding, grade: str, words: str) -> None:
    assert finding.grade == grade
    assert words in finding.text + finding.advice


def test_the_report_has_a_line_per_finding_with_advice_below() -> None:
    findings = [Finding("data", "ok", "fine"), Finding("sandbox", "limited", "weak", "do this\nand that")]
    assert report(findings, colors=False) == [
        "✓ data     fine",
        "! sandbox  weak",
        "           do this",
        "           and that",
    ]
