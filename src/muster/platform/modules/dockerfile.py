"""Reads Dockerfiles as image builders do: directives, continued lines, comments, here-documents, stages."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

_DIRECTIVE = re.compile(r"#\s*([A-Za-z]+)\s*=\s*(\S.*?)\s*$")
_HEREDOC = re.compile(r"<<(-?)([\"']?)([A-Za-z_][A-Za-z0-9_]*)\2")
_WITH_HEREDOCS = frozenset({"RUN", "COPY", "ADD"})
_FLAG = re.compile(r"--[a-z][a-z-]*(=\S*)?(\s+|$)")
_KNOWN = frozenset({
    "ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "MAINTAINER",
    "ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR",
})  # fmt: skip


class DockerfileError(ValueError):
    """It cannot be read; the message names the line."""


@dataclass(frozen=True, slots=True)
class Instruction:
    line: int
    keyword: str
    """In capitals."""
    value: str
    """Everything after the keyword and its flags, continued lines joined."""
    flags: tuple[str, ...] = ()

    @property
    def exec_form(self) -> tuple[str, ...] | None:
        """The words of `["a", "b"]`; None if it is in the shell form."""
        try:
            words = json.loads(self.value)
        except ValueError:
            return None
        if isinstance(words, list) and all(isinstance(word, str) for word in words):
            return tuple(words)
        return None


@dataclass(frozen=True, slots=True)
class Stage:
    line: int
    base: str
    """An image, or the name of a stage before."""
    name: str = ""
    instructions: list[Instruction] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Dockerfile:
    arguments: tuple[Instruction, ...]
    """ARG before the first FROM."""
    stages: tuple[Stage, ...]

    def final_chain(self) -> tuple[Stage, ...]:
        """The stages that the final image is made of, the last one last: each builds on the one before."""
        chain = [self.stages[-1]]
        position = len(self.stages) - 1
        while True:
            found = self._before(position, chain[0].base)
            if found is None:
                return tuple(chain)
            position = found
            chain.insert(0, self.stages[found])

    def _before(self, position: int, base: str) -> int | None:
        for index in range(position - 1, -1, -1):
            if self.stages[index].name == base.lower() != "":
                return index
        return int(base) if base.isdecimal() and int(base) < position else None


def read_dockerfile(text: str) -> Dockerfile:
    """Raises DockerfileError."""
    arguments: list[Instruction] = []
    stages: list[Stage] = []
    for instruction in instructions_in(text):
        if instruction.keyword == "FROM":
            stages.append(_stage(instruction))
        elif stages:
            stages[-1].instructions.append(instruction)
        elif instruction.keyword == "ARG":
            arguments.append(instruction)
        else:
            raise DockerfileError(f"line {instruction.line}: {instruction.keyword} comes before the first FROM")
    if not stages:
        raise DockerfileError("line 1: there is no FROM")
    return Dockerfile(tuple(arguments), tuple(stages))


def instructions_in(text: str) -> list[Instruction]:
    lines = [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]
    escape, position = _directives(lines)
    found: list[Instruction] = []
    while position < len(lines):
        start = position
        whole, position = _logical_line(lines, position, escape)
        if not whole.strip():
            continue
        instruction = _instruction(whole, start + 1)
        found.append(instruction)
        if instruction.keyword in _WITH_HEREDOCS:
            position = _past_heredocs(instruction, lines, position)
    return found


def _directives(lines: list[str]) -> tuple[str, int]:
    """Comments at the very top may say which character continues a line."""
    escape, seen = "\\", set[str]()
    for index, line in enumerate(lines):
        match = _DIRECTIVE.match(line.strip())
        if match is None or match[1].lower() in seen:
            return escape, index
        seen.add(match[1].lower())
        if match[1].lower() == "escape":
            if match[2] not in ("\\", "`"):
                raise DockerfileError(f"line {index + 1}: the escape character is \\ or `")
            escape = match[2]
    return escape, len(lines)


def _logical_line(lines: list[str], position: int, escape: str) -> tuple[str, int]:
    """Comments between continued lines go, and so do empty lines there."""
    parts: list[str] = []
    while position < len(lines):
        line = lines[position]
        position += 1
        stripped = line.strip()
        if stripped.startswith("#"):
            if parts:
                continue
            return "", position
        if parts and not stripped:
            continue
        trimmed = line.rstrip()
        if not trimmed.endswith(escape):
            parts.append(trimmed)
            return "".join(parts), position
        parts.append(trimmed[:-1])
    return "".join(parts), position


def _instruction(whole: str, line: int) -> Instruction:
    keyword, _, rest = whole.strip().replace("\t", " ").partition(" ")
    keyword = keyword.upper()
    if keyword not in _KNOWN:
        raise DockerfileError(f'line {line}: "{keyword}" is no instruction')
    value = rest.strip()
    flags: list[str] = []
    while match := _FLAG.match(value):
        flags.append(match[0].strip())
        value = value[match.end() :]
    if not value:
        raise DockerfileError(f"line {line}: {keyword} says nothing")
    return Instruction(line, keyword, value, tuple(flags))


def _past_heredocs(instruction: Instruction, lines: list[str], position: int) -> int:
    for match in _HEREDOC.finditer(instruction.value):
        while True:
            if position >= len(lines):
                raise DockerfileError(f"line {instruction.line}: <<{match[3]} has no end")
            line = lines[position].lstrip("\t") if match[1] else lines[position]
            position += 1
            if line == match[3]:
                break
    return position


def _stage(instruction: Instruction) -> Stage:
    words = instruction.value.split()
    if len(words) == 1:
        return Stage(instruction.line, words[0])
    if len(words) == 3 and words[1].upper() == "AS":
        return Stage(instruction.line, words[0], words[2].lower())
    raise DockerfileError(f"line {instruction.line}: write FROM IMAGE, or FROM IMAGE AS NAME")
