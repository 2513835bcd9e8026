"""Validates what the author of a module writes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from posixpath import normpath

from muster.platform.errors import InvalidProblem
from muster.platform.graphs.document import SECRET_NAME
from muster.platform.graphs.model import RESERVED_PREFIX, Output, Variable
from muster.platform.graphs.validation import is_clean_path
from muster.platform.messages import FieldError, field_error
from muster.platform.modules.git_source import inner_path
from muster.workflows.artifacts.git_addresses import RepositoryError, read_repository, ref_problem, without_credentials

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_REFERABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}")
_LONGEST_VALUE = 65_536
_MOST = 200


@dataclass(frozen=True, slots=True)
class ModuleInput:
    """An input of a module."""

    name: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class ModuleSource:
    """The source of a version of a module."""

    git_url: str
    git_ref: str
    dockerfile: str = "Dockerfile"
    build_dir: str = ""
    """'' is the whole repository."""
    readme_path: str = "README.md"
    env: tuple[Variable, ...] = ()
    inputs: tuple[ModuleInput, ...] = ()
    outputs: tuple[Output, ...] = field(default=())


def check_name(name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise InvalidProblem.field("name", "module.name", name=name)


def validate_source(source: ModuleSource) -> ModuleSource:
    """Returns the source with normalized paths. Raises Invalid with every faulty field."""
    faults = [*_place_faults(source), *_env_faults(source.env), *_input_faults(source), *_output_faults(source.outputs)]
    if faults:
        raise InvalidProblem.fields(faults)
    return replace(
        source,
        dockerfile=inner_path(source.dockerfile),
        build_dir=inner_path(source.build_dir),
        readme_path=inner_path(source.readme_path),
        env=tuple(v._replace(secret=v.secret or bool(SECRET_NAME.search(v.name))) for v in source.env),
    )


def with_previous_secrets(new: ModuleSource, base: ModuleSource) -> ModuleSource:
    """Fills in secrets of the previous version where the new one has none: they are not shown to clients."""
    known = {variable.name: variable.value for variable in base.env if variable.secret}
    env = tuple(v._replace(value=known.get(v.name, "")) if v.secret and not v.value else v for v in new.env)
    same = new.git_url == without_credentials(base.git_url)
    return replace(new, env=env, git_url=base.git_url if same else new.git_url)


def _place_faults(source: ModuleSource) -> Iterator[FieldError]:
    try:
        read_repository(source.git_url)
    except RepositoryError as error:
        yield field_error("git_url", "source.repository", detail=str(error))
    problem = ref_problem(source.git_ref)
    if problem:
        yield field_error("git_ref", "source.ref", detail=problem)
    for name in ("dockerfile", "build_dir", "readme_path"):
        written = getattr(source, name)
        try:
            path = inner_path(written)
        except ValueError as error:
            yield field_error(name, "source.path", detail=str(error))
            continue
        if not path and name != "build_dir":
            yield field_error(name, "source.file")


def _env_faults(env: Sequence[Variable]) -> Iterator[FieldError]:
    yield from _same_names("env", [variable.name for variable in env])
    for index, variable in enumerate(env):
        if _IDENTIFIER.fullmatch(variable.name) is None:
            yield field_error(f"env[{index}].name", "source.variable")
        elif variable.name.startswith(RESERVED_PREFIX):
            yield field_error(f"env[{index}].name", "source.reserved", prefix=RESERVED_PREFIX)
        if len(variable.value) > _LONGEST_VALUE or "\0" in variable.value:
            yield field_error(f"env[{index}].value", "source.value", most=_LONGEST_VALUE)


def _input_faults(source: ModuleSource) -> Iterator[FieldError]:
    yield from _same_names("inputs", [given.name for given in source.inputs])
    taken = {variable.name for variable in source.env}
    for index, given in enumerate(source.inputs):
        where = f"inputs[{index}].name"
        if _IDENTIFIER.fullmatch(given.name) is None:
            yield field_error(where, "source.input")
        elif given.name.startswith(RESERVED_PREFIX):
            yield field_error(where, "source.reserved", prefix=RESERVED_PREFIX)
        elif given.name in taken:
            yield field_error(where, "source.both", name=given.name)


def _output_faults(outputs: Sequence[Output]) -> Iterator[FieldError]:
    yield from _same_names("outputs", [output.name for output in outputs])
    places: dict[str, str] = {}
    for index, output in enumerate(outputs):
        if _REFERABLE.fullmatch(output.name) is None:
            yield field_error(f"outputs[{index}].name", "source.output")
        if output.type not in ("text", "file"):
            yield field_error(f"outputs[{index}].type", "source.type")
        where = f"outputs[{index}].path"
        if not is_clean_path(output.path):
            yield field_error(where, "source.output-path")
            continue
        other = places.setdefault(normpath(output.path), output.name)
        if other != output.name:
            yield field_error(where, "source.same-path", other=other)


def _same_names(where: str, names: list[str]) -> Iterator[FieldError]:
    if len(names) > _MOST:
        yield field_error(where, "source.many", most=_MOST)
    for index, name in enumerate(names):
        if name in names[:index]:
            yield field_error(f"{where}[{index}].name", "source.twice", name=name)
