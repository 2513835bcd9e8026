"""The conformance suite of Kubernetes: its list, its report, and who runs which spec."""

from __future__ import annotations

from pathlib import Path

from tools import kubernetes_conformance as conformance
from tools.kubernetes_conformance import LIST, OUT_OF_SCOPE, PARTLY, REPORT, Spec, describe, share_out, with_section


def test_the_list_is_sorted_and_the_report_agrees_with_it() -> None:
    names = LIST.read_text().splitlines()
    assert names == sorted(set(names))
    assert all(name.startswith("[sig-") and name.endswith("]") for name in names)
    assert f"**{len(names)} of them\npass**" in REPORT.read_text(), "run it with --report"


def test_each_file_has_one_reason() -> None:
    assert not OUT_OF_SCOPE.keys() & PARTLY.keys()


def test_pods_that_listen_at_the_same_port_run_one_after_another() -> None:
    specs = [Spec(f"[sig-x] {n}", "network/service.go" if n % 3 == 0 else "common/storage/x.go") for n in range(9)]
    first, *others = share_out(specs, 3)
    assert {spec.file for spec in first} == {"network/service.go"}
    assert [len(part) for part in others] == [3, 3]
    assert sorted(spec.name for part in (first, *others) for spec in part) == sorted(spec.name for spec in specs)
    assert share_out([], 3) == []


def test_the_report_names_a_reason_for_each_file_that_does_not_pass() -> None:
    specs = [
        Spec("[sig-apps] a", "apps/deployment.go"),
        Spec("[sig-node] b", "common/node/pods.go"),
        Spec("[sig-node] c", "node/x.go"),
    ]
    section = describe(specs, {"[sig-node] b"})
    assert "has 3 specs. **1 of them" in section
    assert "| node | 1 | 2 |" in section
    assert f"| apps/deployment.go | 0 | 1 | {OUT_OF_SCOPE['apps/deployment.go']} |" in section
    assert "common/node/pods.go" not in section


def test_the_report_replaces_its_own_section_only() -> None:
    page = with_section("# Page\n\n## Argo\n\nx\n", "## Kubernetes\n\none\n")
    assert page == "# Page\n\n## Argo\n\nx\n\n## Kubernetes\n\none\n"
    page = with_section("# Page\n\n## Kubernetes\n\nold\n\n## Argo\n\nx\n", "## Kubernetes\n\nnew\n")
    assert page == "# Page\n\n## Kubernetes\n\nnew\n\n## Argo\n\nx\n"


def test_results_are_read_from_the_report_of_the_suite(tmp_path: Path) -> None:
    cases = '<testcase name="[It] [sig-x] a" status="passed"/><testcase name="[It] [sig-x] b" status="failed"/>'
    skipped = '<testcase name="[It] [sig-x] c" status="skipped"/>'
    (tmp_path / "junit_01.xml").write_text(f"<testsuites><testsuite>{cases}{skipped}</testsuite></testsuites>")
    assert conformance.read_results(tmp_path) == {"[sig-x] a": "passed", "[sig-x] b": "failed"}
