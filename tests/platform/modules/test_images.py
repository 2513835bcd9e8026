"""Dockerfiles, read as image builders do."""

from __future__ import annotations

from typing import Any

import pytest

from muster.platform.modules.builds import place_of_code
from muster.platform.modules.images import DockerfileError, RuleError, instructions_in, plan_image, read_dockerfile


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FROM a", ["FROM a"]),
        ("from a\nentrypoint [\"x\"]", ["FROM a", 'ENTRYPOINT ["x"]']),
        ("\ufeffFROM a\r\nRUN b\r\n", ["FROM a", "RUN b"]),
        ("# a comment\nFROM a\n  # another\nRUN b", ["FROM a", "RUN b"]),
        ("FROM a\nRUN b \\\n    c \\\n    d", ["FROM a", "RUN b     c     d"]),
        ("FROM a\nRUN b \\\n# CMD in between\n\n  c\nUSER d", ["FROM a", "RUN b   c", "USER d"]),
        ("FROM a\nRUN b \\  \n c", ["FROM a", "RUN b  c"]),
        ("FROM a\nRUN echo \\\nCMD x\n", ["FROM a", "RUN echo CMD x"]),
        ("# escape=`\nFROM a\nRUN b `\n c\nRUN d \\\nUSER e", ["FROM a", "RUN b  c", "RUN d \\", "USER e"]),
        ("# syntax=docker/dockerfile:1\n# escape=`\nFROM a", ["FROM a"]),
        ("FROM a\n# escape=`\nRUN b \\\n c", ["FROM a", "RUN b  c"]),
        ("FROM a\nRUN <<EOF\nCMD x\nENTRYPOINT y\nEOF\nUSER b", ["FROM a", "RUN <<EOF", "USER b"]),
        ("FROM a\nCOPY <<-'ONE' <<TWO /x/\n\tCMD\n\tONE\nCMD\nTWO\nUSER b",
         ["FROM a", "COPY <<-'ONE' <<TWO /x/", "USER b"]),
        ("FROM a\nLABEL x=<<EOF\nUSER b", ["FROM a", "LABEL x=<<EOF", "USER b"]),
        ("FROM a\nENTRYPOINT\t[\"x\"]", ["FROM a", 'ENTRYPOINT ["x"]']),
    ],
)  # fmt: skip
def test_instructions(text: str, expected: list[str]) -> None:
    assert [f"{i.keyword} {i.value}" for i in instructions_in(text)] == expected


def test_flags_are_separate_and_lines_are_known() -> None:
    instruction = instructions_in("\nFROM a\n\nCOPY --from=b --chown=1:2 x \\\n y\n")[1]
    assert (instruction.line, instruction.flags, instruction.value) == (4, ("--from=b", "--chown=1:2"), "x  y")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: there is no FROM"),
        ("RUN a\nFROM b", "line 1: RUN comes before the first FROM"),
        ("FROM a\nRUM b", 'line 2: "RUM" is not a known instruction'),
        ("FROM a\nRUN", "line 2: RUN has no arguments"),
        ("FROM a AS", "line 1: write FROM IMAGE"),
        ("FROM a b", "line 1: write FROM IMAGE"),
        ("FROM a\nRUN <<EOF\nb", "line 2: <<EOF has no end"),
        ("# escape=x\nFROM a", "line 1: the escape character"),
    ],
)
def test_invalid_dockerfiles(text: str, message: str) -> None:
    with pytest.raises(DockerfileError) as error:
        read_dockerfile(text)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "bases"),
    [
        ("FROM a", ["a"]),
        ("FROM a AS one\nFROM b", ["b"]),
        ("FROM a AS one\nFROM b AS two\nFROM One", ["a", "One"]),
        ("FROM a\nFROM b\nFROM 0", ["a", "0"]),
        ("FROM a AS a\nFROM a AS a\nFROM a", ["a", "a", "a"]),
        ("FROM one AS two\nFROM two AS one\nFROM one", ["one", "two", "one"]),
        ("ARG X=1\nFROM --platform=linux/amd64 a AS one\nFROM one", ["a", "one"]),
        ("FROM 7", ["7"]),
    ],
)
def test_stages_of_the_final_image(text: str, bases: list[str]) -> None:
    assert [stage.base for stage in read_dockerfile(text).final_chain()] == bases


RUN = 'ENTRYPOINT ["run"]\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"FROM a\n{RUN}", {"entrypoint": ("run",), "working_dir": "", "env": {}, "source": "", "ignored": ()}),
        ('FROM a\nENTRYPOINT ["one"]\nENTRYPOINT ["two", "b c"]', {"entrypoint": ("two", "b c")}),
        (f"FROM a AS one\n{RUN}FROM one\nUSER b", {"entrypoint": ("run",), "ignored": ("line 4: USER",)}),
        ('FROM a AS one\nENTRYPOINT ["old"]\nCMD x\nFROM b\nENTRYPOINT ["new"]', {"entrypoint": ("new",)}),
        (f"FROM a\nHEALTHCHECK CMD x\nONBUILD CMD y\n{RUN}", {"entrypoint": ("run",)}),
        (f"FROM a\nRUN <<EOF\nCMD x\nEOF\n{RUN}", {"ignored": ("line 2: RUN",)}),
        (f"FROM a\nWORKDIR /a\nWORKDIR b\nWORKDIR ../c\n{RUN}", {"working_dir": "/a/c"}),
        (f"FROM a\nENV HOME=/h\nWORKDIR $HOME/${{X:-y}}\n{RUN}", {"working_dir": "/h/y", "env": {"HOME": "/h"}}),
        (f"ARG D=/d\nFROM a\nARG D\nWORKDIR ${{D}}\n{RUN}", {"working_dir": "/d"}),
        (f"FROM a\nENV A=1 B=\"two words\" C='$A' D=\"$A!\"\nENV E=\"$A!\"\n{RUN}",
         {"env": {"A": "1", "B": "two words", "C": "$A", "D": "!", "E": "1!"}}),
        (f"FROM a\nENV A all of this\n{RUN}", {"env": {"A": "all of this"}}),
        (f"FROM a\nENV A=x\\ y B=\\$A\n{RUN}", {"env": {"A": "x y", "B": "$A"}}),
        (f"FROM a\nWORKDIR /app\nCOPY . .\n{RUN}", {"source": "", "target": "/app"}),
        (f"FROM a\nCOPY src/ /app/\n{RUN}", {"source": "src", "target": "/app"}),
        (f"FROM a\nWORKDIR /app\nCOPY requirements.txt /tmp/\nCOPY [\"src\", \".\"]\n{RUN}",
         {"source": "src", "target": "/app"}),
        (f"FROM a\nCOPY --from=b /x /app\n{RUN}", {"source": "", "target": ""}),
    ],
)  # fmt: skip
def test_properties_of_the_image(text: str, expected: dict[str, Any]) -> None:
    plan = plan_image(text)
    assert {name: getattr(plan, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("FROM a", "there is no ENTRYPOINT"),
        (f"FROM a AS one\n{RUN}FROM b", "there is no ENTRYPOINT"),
        (f"FROM a\n{RUN}CMD [\"x\"]", "line 3: a module has no CMD"),
        (f"FROM a AS one\nCMD x\nFROM one\n{RUN}", "line 2: a module has no CMD"),
        (f"FROM a\n{RUN}cmd x", "line 3: a module has no CMD"),
        (f"FROM a\n{RUN}CM\\\nD x", "line 3: a module has no CMD"),
        ("FROM a\nENTRYPOINT python main.py", "line 2: in this form ENTRYPOINT loses the arguments"),
        ("FROM a\nENTRYPOINT ['python']", "line 2: in this form ENTRYPOINT loses the arguments"),
        ("FROM a\nENTRYPOINT []", "line 2: ENTRYPOINT is empty"),
        ("FROM a\nENTRYPOINT [\"\"]", "line 2: ENTRYPOINT is empty"),
    ],
)  # fmt: skip
def test_rules(text: str, message: str) -> None:
    with pytest.raises(RuleError) as error:
        plan_image(text)
    assert str(error.value).startswith(message)


def test_unsupported_variables() -> None:
    with pytest.raises(DockerfileError, match="line 2: write ENV NAME=VALUE"):
        plan_image(f"FROM a\nENV A=1 b\n{RUN}")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("WORKDIR /app\n", "/app"),
        ("WORKDIR /opt/x/../y/\n", "/opt/y"),
        ("COPY . /srv\n", "/srv"),
        ("WORKDIR /\nCOPY . /srv\n", "/srv"),
        ("", "/app"),
    ],
)
def test_the_directory_of_the_code_without_an_image(text: str, place: str) -> None:
    assert place_of_code(plan_image(f"FROM a\n{text}{RUN}")) == place


@pytest.mark.parametrize("folder", ["/usr", "/etc", "/tmp", "/tmp/workflow_space", "/proc/self", "/dev/shm"])
def test_directories_that_a_container_needs_are_not_covered(folder: str) -> None:
    with pytest.raises(RuleError, match="use WORKDIR /app"):
        place_of_code(plan_image(f"FROM a\nWORKDIR {folder}\n{RUN}"))
