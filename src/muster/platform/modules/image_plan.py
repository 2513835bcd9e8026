"""What the image of a Dockerfile will be: its entry point, folder and variables; and whether a module may be so."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from posixpath import isabs, join, normpath

from muster.platform.modules.dockerfile import Dockerfile, DockerfileError, Instruction, read_dockerfile

USUAL_FOLDER = "/app"
_VARIABLE = re.compile(r"\\\$|\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?::([-+])([^}]*))?\})")
_PAIR = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)=((?:\"(?:\\.|[^\"\\])*\"|'[^']*'|\\.|[^\s\"'\\])*)\s*")


@dataclass(frozen=True, slots=True)
class ImagePlan:
    entrypoint: tuple[str, ...]
    working_dir: str
    """'' if nothing says."""
    env: Mapping[str, str]
    source: str
    """The folder of the build directory that is copied to where the entry point runs; '' for all of it."""
    target: str
    """Where it is copied to."""
    ignored: tuple[str, ...]
    """Instructions that matter only if an image is really built."""


class RuleError(ValueError):
    """A module may not be that way; the message says what to write instead."""


def plan_image(text: str) -> ImagePlan:
    """Raises DockerfileError or RuleError."""
    dockerfile = read_dockerfile(text)
    chain = [instruction for stage in dockerfile.final_chain() for instruction in stage.instructions]
    entrypoint = _entrypoint(chain)
    variables = _global_arguments(dockerfile)
    env: dict[str, str] = {}
    working_dir, source, target = "", "", ""
    for instruction in chain:
        if instruction.keyword == "ARG":
            variables.update(_argument(instruction, variables))
        elif instruction.keyword == "ENV":
            changes = _pairs(instruction, variables | env)
            env.update(changes)
        elif instruction.keyword == "WORKDIR":
            working_dir = normpath(join(working_dir or "/", _expanded(instruction.value, variables | env)))
        elif instruction.keyword in ("COPY", "ADD") and not any(f.startswith("--from") for f in instruction.flags):
            words = [_expanded(word, variables | env) for word in instruction.exec_form or instruction.value.split()]
            if len(words) == 2 and "<<" not in words[0] and not words[0].startswith(("http:", "https:", "git@")):
                place = normpath(words[1] if isabs(words[1]) else join(working_dir or "/", words[1]))
                if place in (working_dir, target) or not (source or target):
                    source, target = normpath(words[0].lstrip("/") or "."), place
    ignored = tuple(f"line {i.line}: {i.keyword}" for i in chain if i.keyword in ("RUN", "USER", "SHELL"))
    return ImagePlan(entrypoint, working_dir, env, "" if source == "." else source, target, ignored)


def _entrypoint(chain: list[Instruction]) -> tuple[str, ...]:
    given = [instruction for instruction in chain if instruction.keyword == "ENTRYPOINT"]
    for instruction in chain:
        if instruction.keyword == "CMD":
            told = "a module has no CMD; put the whole command into ENTRYPOINT, and take arguments as --name=value"
            raise RuleError(f"line {instruction.line}: {told}")
    if not given:
        raise RuleError('there is no ENTRYPOINT; write one, as in ENTRYPOINT ["python", "main.py"]')
    words = given[-1].exec_form
    if words is None:
        told = 'in this form ENTRYPOINT loses the arguments --name=value; write it as ENTRYPOINT ["python", "main.py"]'
        raise RuleError(f"line {given[-1].line}: {told}")
    if not words or not words[0]:
        raise RuleError(f"line {given[-1].line}: ENTRYPOINT is empty; write the program that is to run")
    return words


def _global_arguments(dockerfile: Dockerfile) -> dict[str, str]:
    known: dict[str, str] = {}
    for instruction in dockerfile.arguments:
        known.update(_argument(instruction, known))
    return known


def _argument(instruction: Instruction, variables: Mapping[str, str]) -> dict[str, str]:
    """Nobody gives arguments to a module's build, so each has its default. One without keeps what it had."""
    return {
        name: _expanded(value, variables)
        for name, separator, value in (word.partition("=") for word in instruction.value.split())
        if separator
    }


def _pairs(instruction: Instruction, variables: Mapping[str, str]) -> dict[str, str]:
    if "=" not in instruction.value.split()[0]:
        name, _, value = instruction.value.partition(" ")
        return {name: _expanded(value.strip(), variables)}
    found: dict[str, str] = {}
    position = 0
    while position < len(instruction.value):
        match = _PAIR.match(instruction.value, position)
        if match is None:
            raise DockerfileError(f"line {instruction.line}: write ENV NAME=VALUE, with quotes around blanks")
        found[match[1]] = _unquoted(match[2], variables)
        position = match.end()
    return found


def _unquoted(value: str, variables: Mapping[str, str]) -> str:
    parts = re.findall(r"\"(?:\\.|[^\"\\])*\"|'[^']*'|[^\"']+", value)
    return "".join(part[1:-1] if part[0] == "'" else _expanded(part.strip('"'), variables) for part in parts)


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        if match[0] == "\\$":
            return "$"
        known = variables.get(match[1] or match[2])
        if match[3] == "-":
            return known or str(match[4])
        if match[3] == "+":
            return str(match[4]) if known else ""
        return known or ""

    return re.sub(r"\\([\"' \\])", r"\1", _VARIABLE.sub(value, text))
