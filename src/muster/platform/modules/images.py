"""Images of modules: reads the Dockerfile, works out the entry point, folder and variables of its image, and finds a
program that can build it.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from posixpath import isabs, join, normpath
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple, Protocol, TypeAlias

from muster.platform.modules.build_process import clean_environment

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
        """The words of the exec form, `["a", "b"]`; None for the shell form."""
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
    """An image, or the name of an earlier stage."""
    name: str = ""
    instructions: list[Instruction] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Dockerfile:
    arguments: tuple[Instruction, ...]
    """ARG before the first FROM."""
    stages: tuple[Stage, ...]

    def final_chain(self) -> tuple[Stage, ...]:
        """The stages of the final image; each builds on the one before."""
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
    """Comments at the top may set the escape character."""
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
        raise DockerfileError(f'line {line}: "{keyword}" is not a known instruction')
    value = rest.strip()
    flags: list[str] = []
    while match := _FLAG.match(value):
        flags.append(match[0].strip())
        value = value[match.end() :]
    if not value:
        raise DockerfileError(f"line {line}: {keyword} has no arguments")
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


USUAL_FOLDER = "/app"
_VARIABLE = re.compile(r"\\\$|\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?::([-+])([^}]*))?\})")
_PAIR = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)=((?:\"(?:\\.|[^\"\\])*\"|'[^']*'|\\.|[^\s\"'\\])*)\s*")


@dataclass(frozen=True, slots=True)
class ImagePlan:
    entrypoint: tuple[str, ...]
    working_dir: str
    """'' if it is not set."""
    env: Mapping[str, str]
    source: str
    """The folder of the build directory that is copied to where the entry point runs; '' for all of it."""
    target: str
    """Where it is copied to."""
    ignored: tuple[str, ...]
    """Instructions that matter only if an image is really built."""


class RuleError(ValueError):
    """The Dockerfile is not valid for a module. The message says what to write instead."""


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
            working_dir = normpath(join(working_dir or "/", _expand_variables(instruction.value, variables | env)))
        elif instruction.keyword in ("COPY", "ADD") and not any(f.startswith("--from") for f in instruction.flags):
            words = [
                _expand_variables(word, variables | env) for word in instruction.exec_form or instruction.value.split()
            ]
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
        raise RuleError(f"line {given[-1].line}: ENTRYPOINT is empty; write the program to run")
    return words


def _global_arguments(dockerfile: Dockerfile) -> dict[str, str]:
    known: dict[str, str] = {}
    for instruction in dockerfile.arguments:
        known.update(_argument(instruction, known))
    return known


def _argument(instruction: Instruction, variables: Mapping[str, str]) -> dict[str, str]:
    """Builds of modules have no arguments, so each ARG has its default. One without a default keeps its value."""
    return {
        name: _expand_variables(value, variables)
        for name, separator, value in (word.partition("=") for word in instruction.value.split())
        if separator
    }


def _pairs(instruction: Instruction, variables: Mapping[str, str]) -> dict[str, str]:
    if "=" not in instruction.value.split()[0]:
        name, _, value = instruction.value.partition(" ")
        return {name: _expand_variables(value.strip(), variables)}
    found: dict[str, str] = {}
    position = 0
    while position < len(instruction.value):
        match = _PAIR.match(instruction.value, position)
        if match is None:
            raise DockerfileError(f"line {instruction.line}: write ENV NAME=VALUE, with quotes around spaces")
        found[match[1]] = _unquote(match[2], variables)
        position = match.end()
    return found


def _unquote(value: str, variables: Mapping[str, str]) -> str:
    parts = re.findall(r"\"(?:\\.|[^\"\\])*\"|'[^']*'|[^\"']+", value)
    return "".join(part[1:-1] if part[0] == "'" else _expand_variables(part.strip('"'), variables) for part in parts)


def _expand_variables(text: str, variables: Mapping[str, str]) -> str:
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


BuilderName: TypeAlias = Literal["buildah", "podman", "docker"]

_CHECK_TAG = "localhost/muster-check-build:1"
_CHECK_SECONDS = 60.0


class Engine(Protocol):
    """An engine that runs images, podman or docker, with the options it needs on this host."""

    @property
    def program(self) -> str: ...

    def command(self, *words: str) -> list[str]: ...


class ImageEngines(NamedTuple):
    """How image engines are found. The server hands it in: it knows the node that runs the images."""

    find: Callable[[Literal["podman", "docker"]], Awaitable[Engine | str]]
    """A working engine, or why there is none."""
    check_image: str
    """An image that every engine has after `find`; it contains only a program `/exit`."""


@dataclass(frozen=True, slots=True)
class ImageBuilder:
    """A builder that was tested, with the options it needs on this host."""

    name: BuilderName
    build: tuple[str, ...]
    """The program and all options that are always the same."""
    remove: tuple[str, ...]
    size: tuple[str, ...]
    """Prints the bytes of an image."""

    def build_command(self, image: str, dockerfile: Path, context: Path) -> list[str]:
        """Paths are absolute, so none of them is an option."""
        return [*self.build, "-t", image, "-f", str(dockerfile), str(context)]


async def find_builder(wanted: Sequence[BuilderName], engines: ImageEngines) -> ImageBuilder | str:
    """Returns the first builder that works, or why none does."""
    reasons: list[str] = []
    for name in wanted:
        engine = await engines.find("docker" if name == "docker" else "podman")
        if isinstance(engine, str):
            reasons.append(engine)
            continue
        for builder in candidates(name, engine):
            problem = await _try(builder, engines.check_image)
            if not problem:
                return builder
            reasons.append(f"{name}: {problem}")
    return "; ".join(dict.fromkeys(reasons))


def candidates(name: BuilderName, engine: Engine) -> list[ImageBuilder]:
    """Returns the variants of a builder, the better isolated ones first; chroot isolates least."""
    size = tuple(engine.command("image", "inspect", "--format", "{{.Size}}"))
    remove = tuple(engine.command("rmi", "--force"))
    if name == "docker":
        return [ImageBuilder(name, (engine.program, "build", "--force-rm"), remove, size)]
    program: list[str] | None = None
    if name == "podman":
        program = engine.command("build")
    elif (found := shutil.which("buildah")) is not None:
        program = [found, "bud"]
    if program is None:
        return []
    usual = ("--pull=false", "--force-rm", "--no-cache", "--ulimit", "nofile=1024:1024")
    return [
        ImageBuilder(name, (*program, "--isolation", isolation, *usual), remove, size)
        for isolation in ("oci", "chroot")
    ]


async def remove_images(builder: ImageBuilder, images: Sequence[str]) -> None:
    """Removes images that are not in use."""
    for image in images:
        await _output([*builder.remove, image])


async def _try(builder: ImageBuilder, check_image: str) -> str:
    with TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "Dockerfile").write_text(f'FROM {check_image}\nRUN ["/exit"]\n')
        return await _output(builder.build_command(_CHECK_TAG, place / "Dockerfile", place))


async def _output(command: Sequence[str]) -> str:
    """Runs a command. Returns '' if it succeeded, else the last line it printed."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=clean_environment(),
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        return "it did not respond"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode == 0:
        return ""
    lines = [line for line in output.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"
