"""The list of Argo's own tests: every test is in one place, with a reason if it does not pass."""

from __future__ import annotations

from pathlib import Path

import yaml

from tools.argo_suites import LIST, REPORT, TAGS, SuiteTest, describe, failure_of, find_tests

SOURCE = """//go:build functional

package e2e

type HooksSuite struct {
	fixtures.E2ESuite
}

func (s *HooksSuite) TestExit() {
}

func (s *OtherSuite) TestNeverRun() {
}

func TestHooksSuite(t *testing.T) {
	suite.Run(t, new(HooksSuite))
}
"""


def test_every_test_is_listed_once_and_has_a_reason_if_it_fails() -> None:
    listed = yaml.safe_load(LIST.read_text())
    assert tuple(listed["passing"]) == tuple(listed["failing"]) == TAGS
    for suite in TAGS:
        passing, failing = listed["passing"][suite], listed["failing"][suite]
        assert not set(passing) & set(failing)
        assert len(set(passing)) == len(passing)
        assert all(failing.values())


def test_the_report_is_that_of_the_list() -> None:
    assert describe(yaml.safe_load(LIST.read_text())) in REPORT.read_text()


def test_tests_are_found_in_their_sources(tmp_path: Path) -> None:
    (tmp_path / "hooks_test.go").write_text(SOURCE)
    (tmp_path / "plugins_test.go").write_text(SOURCE.replace("functional", "plugins"))
    assert find_tests(tmp_path) == [SuiteTest("functional", "TestHooksSuite/TestExit")]


def test_why_a_test_failed() -> None:
    assert failure_of("x\n    Error:      \tNot equal: \n   1 != 2\n    Test:       \tTestX\n") == "Not equal: 1 != 2"
    assert (
        failure_of("    then.go:12: timeout after 1m0s waiting for condition")
        == "timeout after 1m0s waiting for condition"
    )
    assert failure_of("panic: oh") == "oh"
