"""Dockerfiles, as image builders read them."""

from __future__ import annotations

import pytest

from muster.platform.modules.dockerfile import DockerfileError, instructions_in, read_dockerfile


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


def test_flags_are_apart_and_lines_are_known() -> None:
    instruction = instructions_in("\nFROM a\n\nCOPY --from=b --chown=1:2 x \\\n y\n")[1]
    assert (instruction.line, instruction.flags, instruction.value) == (4, ("--from=b", "--chown=1:2"), "x  y")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: there is no FROM"),
        ("RUN a\nFROM b", "line 1: RUN comes before the first FROM"),
        ("FROM a\nRUM b", 'line 2: "RUM" is no instruction'),
        ("FROM a\nRUN", "line 2: RUN says nothing"),
        ("FROM a AS", "line 1: write FROM IMAGE"),
        ("FROM a b", "line 1: write FROM IMAGE"),
        ("FROM a\nRUN <<EOF\nb", "line 2: <<EOF has no end"),
        ("# escape=x\nFROM a", "line 1: the escape character"),
    ],
)
def test_what_cannot_be_read(text: str, message: str) -> None:
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
def test_stages_that_the_final_image_is_made_of(text: str, bases: list[str]) -> None:
    assert [stage.base for stage in read_dockerfile(text).final_chain()] == bases
