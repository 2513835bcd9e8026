"""What the author of a module writes, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from posixpath import normpath

from muster.platform.errors import FieldError, Invalid
from muster.platform.graphs.model import RESERVED_PREFIX, Output, Variable
from muster.platform.graphs.problems_node import is_clean_path
from muster.platform.graphs.secrecy import SECRET_NAME
from muster.platform.modules.checkout import inner_path
from muster.platform.modules.repositories import RepositoryError, read_repository, ref_problem, without_credentials

NAME_RULE = "write 1 to 63 lower-case letters, digits and -, with a letter or digit at either end"
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_REFERABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}")
_LONGEST_VALUE = 65_536
_MOST = 200


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a module takes."""

    name: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """Everything that a version of a module is made of."""

    git_url: str
    git_ref: str
    dockerfile: str = "Dockerfile"
    build_dir: str = ""
    """'' is the whole repository."""
    readme_path: str = "README.md"
    env: tuple[Variable, ...] = ()
    inputs: tuple[Parameter, ...] = ()
    outputs: tuple[Output, ...] = field(default=())


def check_name(name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise Invalid.field("name", f'"{name}" cannot be the name of a module; {NAME_RULE}')


def checked(source: Source) -> Source:
    """The same with its paths as they are kept. Raises Invalid, with every field at fault."""
    faults = [*_place_faults(source), *_env_faults(source.env), *_input_faults(source), *_output_faults(source.outputs)]
    if faults:
        raise Invalid.fields(faults)
    return replace(
        source,
        dockerfile=inner_path(source.dockerfile),
        build_dir=inner_path(source.build_dir),
        readme_path=inner_path(source.readme_path),
        env=tuple(v._replace(secret=v.secret or bool(SECRET_NAME.search(v.name))) for v in source.env),
    )


def completed(new: Source, base: Source) -> Source:
    """With the secrets of the version before where the new one was sent without: nobody was shown them."""
    known = {variable.name: variable.value for variable in base.env if variable.secret}
    env = tuple(v._replace(value=known.get(v.name, "")) if v.secret and not v.value else v for v in new.env)
    same = new.git_url == without_credentials(base.git_url)
    return replace(new, env=env, git_url=base.git_url if same else new.git_url)


def _place_faults(source: Source) -> Iterator[FieldError]:
    try:
        read_repository(source.git_url)
    except RepositoryError as error:
        yield FieldError("git_url", str(error))
    problem = ref_problem(source.git_ref)
    if problem:
        yield FieldError("git_ref", problem)
    for name in ("dockerfile", "build_dir", "readme_path"):
        written = getattr(source, name)
        try:
            path = inner_path(written)
        except ValueError as error:
            yield FieldError(name, str(error))
            continue
        if not path and name != "build_dir":
            yield FieldError(name, "write the path of a file in the repository")


def _env_faults(env: Sequence[Variable]) -> Iterator[FieldError]:
    yield from _same_names("env", [variable.name for variable in env])
    for index, variable in enumerate(env):
        if _IDENTIFIER.fullmatch(variable.name) is None:
            yield FieldError(f"env[{index}].name", "write letters, digits and _, beginning with a letter")
        elif variable.name.startswith(RESERVED_PREFIX):
            yield FieldError(f"env[{index}].name", f"names that begin with {RESERVED_PREFIX} belong to the platform")
        if len(variable.value) > _LONGEST_VALUE or "\0" in variable.value:
            yield FieldError(f"env[{index}].value", f"write at most {_LONGEST_VALUE} characters, none of them NUL")


def _input_faults(source: Source) -> Iterator[FieldError]:
    yield from _same_names("inputs", [given.name for given in source.inputs])
    taken = {variable.name for variable in source.env}
    for index, given in enumerate(source.inputs):
        where = f"inputs[{index}].name"
        if _IDENTIFIER.fullmatch(given.name) is None:
            yield FieldError(where, "write letters, digits and _, beginning with a letter: it becomes --name=value")
        elif given.name.startswith(RESERVED_PREFIX):
            yield FieldError(where, f"names that begin with {RESERVED_PREFIX} belong to the platform")
        elif given.name in taken:
            yield FieldError(where, f'there is a variable "{given.name}", too; call one of them otherwise')


def _output_faults(outputs: Sequence[Output]) -> Iterator[FieldError]:
    yield from _same_names("outputs", [output.name for output in outputs])
    places: dict[str, str] = {}
    for index, output in enumerate(outputs):
        if _REFERABLE.fullmatch(output.name) is None:
            yield FieldError(f"outputs[{index}].name", "write letters, digits, _ and -, beginning with a letter")
        if output.type not in ("text", "file"):
            yield FieldError(f"outputs[{index}].type", "write text or file")
        where = f"outputs[{index}].path"
        if not is_clean_path(output.path):
            yield FieldError(where, "write an absolute path, such as /tmp/workflow_space/result.txt")
            continue
        other = places.setdefault(normpath(output.path), output.name)
        if other != output.name:
            yield FieldError(where, f'"{other}" is at the same path')


def _same_names(where: str, names: list[str]) -> Iterator[FieldError]:
    if len(names) > _MOST:
        yield FieldError(where, f"write at most {_MOST}")
    for index, name in enumerate(names):
        if name in names[:index]:
            yield FieldError(f"{where}[{index}].name", f'there are two called "{name}"')
