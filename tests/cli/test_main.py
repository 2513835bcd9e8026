from __future__ import annotations

import inspect

import pytest
import typer

from muster.cli.main import COMMANDS, convert_boolean_options, move_command_first, run


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_their_summaries(name: str) -> None:
    entry = COMMANDS[name]
    function = entry.load()[name]
    said = function.info.help if isinstance(function, typer.Typer) else inspect.getdoc(function)
    assert (said or "").splitlines()[0] == entry.summary


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (["delete", "--wait=false"], ["delete", "--no-wait"]),
        (["delete", "--force=true"], ["delete", "--force"]),
        (["exec", "x", "--", "prog", "--wait=false"], ["exec", "x", "--", "prog", "--wait=false"]),
        (["get", "-l", "a=true"], ["get", "-l", "a=true"]),
        (["wait", "--for=condition=Ready=true"], ["wait", "--for=condition=Ready=true"]),
    ],
)
def test_booleans_are_written_as_for_kubectl(written: list[str], read: list[str]) -> None:
    assert convert_boolean_options(written) == read


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (["get", "pods", "-n", "x"], ["get", "pods", "-n", "x"]),
        (["-n", "x", "get", "pods"], ["get", "-n", "x", "pods"]),
        (["-nx", "get", "pods"], ["get", "-nx", "pods"]),
        (["--namespace=x", "--context", "c", "get", "pods"], ["get", "--namespace=x", "--context", "c", "pods"]),
        (["--debug", "exec", "p", "--", "ls", "-n"], ["exec", "--debug", "p", "--", "ls", "-n"]),
        (["--help"], ["--help"]),
        (["-n", "x"], ["-n", "x"]),
        ([], []),
    ],
)
def test_options_may_precede_the_command(written: list[str], read: list[str]) -> None:
    assert move_command_first(written) == read


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("aply", 'there is no command "aply"; did you mean apply or deploy?\n'),
        ("xyz", 'there is no command "xyz"; `muster --help` lists them all\n'),
    ],
)
def test_a_mistyped_command_gets_a_suggestion(
    word: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.reconfigure", lambda **_: None, raising=False)
    assert run([word, "pods"]) == 1
    assert capsys.readouterr().err == said
