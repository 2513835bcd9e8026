"""Reads and writes YAML manifests as Kubernetes does, and keeps the line of every field for later errors.

Scalars follow YAML 1.1 with three exceptions that Kubernetes makes: times stay strings, there are no base-60 numbers,
and `y` and `n` are booleans. The result contains only what JSON can represent.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from muster.kube.errors import Step, split_path
from muster.kube.objects import Object

MAX_VALUES = 2_000_000
"""How many values a document may have after its aliases are expanded. A long text counts as several."""
MAX_SETTING = 32 * 1024
"""Characters of a setting that is YAML inside of another object, and its values once its aliases are written out."""
CHARACTERS_PER_VALUE = 64
MAX_WARNINGS = 100

MAX_DEPTH = 200
"""How deeply lists and mappings may be nested."""

_SUFFIXES = (".yaml", ".yml", ".json")
_PLAIN, _STRING = "?", "tag:yaml.org,2002:str"
_MERGE = "<<"
_LETTERS = ("y", "Y", "n", "N")
_PIPELINE = (
    "this is a Kubeflow pipeline compiled by kfp 2, not a manifest; run it with `muster run FILE`, or upload it with "
    "`muster pipelines create FILE`"
)


class ManifestError(Exception):
    """A manifest cannot be read. As text: `train.yaml:14:3: what is wrong`, the line itself, and a caret."""

    def __init__(self, message: str, source: str, line: int = 0, column: int = 0, text: str = "") -> None:
        self.message = message
        self.source = source
        self.line = line
        self.column = column
        place = f"{source}:{line}:{column}" if line else source
        super().__init__(f"{place}: {message}{_snippet(text, line, column)}")


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """One object of a manifest, and the position of its fields."""

    object: Object
    source: str
    node: yaml.Node
    warnings: tuple[str, ...] = ()
    """What was read but is probably a mistake: a key that is set twice, of which Kubernetes takes the last."""

    def where(self, path: str = "") -> str:
        """Returns `train.yaml:14` for `spec.containers[0].image`, or the line of the nearest existing parent."""
        return f"{self.source}:{self.line(path)}"

    def line(self, path: str = "") -> int:
        found = self.node
        line = found.start_mark.line
        for step in split_path(path):
            entry = _entry(found, step)
            if entry is None:
                break
            line, found = entry[0].start_mark.line, entry[1]
        return line + 1


def load_manifests(text: str, source: str, *, named: bool = True) -> list[Document]:
    """Returns the objects of a manifest, in order. `kind: List` is expanded, empty documents are skipped. Errors refer
    to the text as `source`. With `named=False` an object need not have a name yet."""
    documents: list[Document] = []
    for node in _compose(text, source):
        if isinstance(node, yaml.ScalarNode) and node.value == "" and node.tag == _PLAIN:
            continue
        values = _Values(text, source, letters=True)
        found = list(_objects(values.of(node), node, source, text, named))
        if values.warnings and found:
            found[0] = replace(found[0], warnings=tuple(values.warnings))
        documents += found
    return documents


def load_mapping(path: Path) -> Document | None:
    """Reads a file with one mapping of no particular kind, such as settings; None if it is missing or empty."""
    return parse_mapping(_read(path), str(path)) if path.exists() else None


def parse_mapping(text: str, source: str) -> Document | None:
    """The same for a text."""
    for node in _compose(text, source):
        if isinstance(node, yaml.ScalarNode) and node.value == "":
            return None
        value = _Values(text, source, strict=True).of(node)
        if not isinstance(value, dict):
            raise ManifestError("expected `name: value` lines", source, 1, 1, text)
        return Document(value, source, node)
    return None


def parse_mappings(text: str, source: str) -> list[Document]:
    """Returns all documents of a text that PyYAML wrote, each of which is a mapping of no particular kind. No key may
    be set twice. PyYAML leaves `y` and `n` unquoted, so they are text."""
    found = []
    for node in _compose(text, source):
        if isinstance(node, yaml.ScalarNode) and node.value == "":
            continue
        value = _Values(text, source, strict=True, letters=True).of(node)
        if not isinstance(value, dict):
            raise ManifestError("expected `name: value` lines", source, node.start_mark.line + 1, 1, text)
        found.append(Document(value, source, node))
    return found


def parse_values(text: str, source: str) -> list[Any]:
    """Returns the documents of a text, whatever they are; empty ones are skipped."""
    nodes = [n for n in _compose(text, source) if not (isinstance(n, yaml.ScalarNode) and n.value == "")]
    return [_Values(text, source).of(node) for node in nodes]


def parse_setting(text: str, source: str) -> Any:
    """Returns the value of a setting that users write as YAML inside of an object, such as podSpecPatch; None if it is
    empty. It is short enough to be read on the event loop. Raises ManifestError, in one line: it becomes a part of a
    status."""
    if len(text) > MAX_SETTING:
        raise ManifestError(f"it has {len(text):,} characters; at most {MAX_SETTING:,} are allowed", source)
    try:
        for node in _compose(text, source):
            values = _Values(text, source, letters=True)
            value = values.of(node)
            if values.sizes.get(id(node), 1) > MAX_SETTING:
                raise ManifestError(f"it has more than {MAX_SETTING:,} values once its aliases are written out", source)
            return None if value == "" else value
    except ManifestError as error:
        raise ManifestError(error.message, source, error.line, error.column) from None
    return None


def load_manifest_files(paths: Iterable[str | Path], *, named: bool = True) -> list[Document]:
    """Reads these files, the files of these directories (sorted by name), and standard input for '-'."""
    documents: list[Document] = []
    for path in paths:
        if str(path) == "-":
            documents += load_manifests(sys.stdin.read(), "<stdin>", named=named)
            continue
        for file in _files(Path(path), str(path)):
            documents += load_manifests(_read(file), str(file), named=named)
    return documents


def find_manifest_files(paths: Iterable[str]) -> list[str]:
    """Returns the paths, with directories replaced by all manifests below them."""
    found: list[str] = []
    for path in paths:
        below = Path(path).rglob("*") if path != "-" and Path(path).is_dir() else ()
        inside = sorted(str(file) for file in below if file.suffix in _SUFFIXES and file.is_file())
        found += inside or [path]
    return found


def _files(path: Path, given: str) -> list[Path]:
    if path.exists() and not path.is_dir():
        return [path]  # also a pipe: FILE may be <(helm template ...)
    if path.is_dir():
        found = sorted(f for f in path.iterdir() if f.suffix in _SUFFIXES and f.is_file())
        if not found:
            raise ManifestError(
                f"there is no manifest in this directory ({', '.join('*' + s for s in _SUFFIXES)})", given
            )
        return found
    if given.startswith(("http://", "https://")):
        raise ManifestError("a URL cannot be read here; download the file first", given)
    near = get_close_matches(path.name, [f.name for f in path.parent.iterdir()], n=1) if path.parent.is_dir() else []
    hint = f'; did you mean "{path.parent / near[0]}"?' if near else ""
    raise ManifestError(f"no such file{hint}", given)


def _read(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ManifestError(f"this is not UTF-8 text (byte {error.start})", str(file)) from None
    except OSError as error:
        raise ManifestError(f"cannot be read: {error.strerror}", str(file)) from None


class _Resolver:
    """Only marks unquoted scalars; `parse_scalar` determines their value."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        if kind is yaml.ScalarNode:
            return _PLAIN if implicit[0] else _STRING
        return "tag:yaml.org,2002:seq" if kind is yaml.SequenceNode else "tag:yaml.org,2002:map"

    def descend_resolver(self, current_node: Any, current_index: Any) -> None: ...

    def ascend_resolver(self) -> None: ...


_Loader: Any = type("_Loader", (_Resolver, getattr(yaml, "CBaseLoader", yaml.BaseLoader)), {})


def _compose(text: str, source: str) -> Iterator[yaml.Node]:
    if text.lstrip()[:1] in ("{", "["):  # JSON may be indented with tabs, which YAML rejects
        text = "\n".join(" " * (len(line) - len(line.lstrip("\t"))) + line.lstrip("\t") for line in text.split("\n"))
    try:
        _check_depth(text, source)
        loader = _Loader(text)
        while loader.check_node():
            yield loader.get_node()
    except yaml.MarkedYAMLError as error:
        raise _explain_error(error, text, source) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - (text.rfind("\n", 0, error.position) + 1) + 1
        raise ManifestError("this character is not allowed in YAML", source, line, column, text) from None
    except yaml.YAMLError as error:
        raise ManifestError(str(error), source) from None


def _check_depth(text: str, source: str) -> None:
    """Rejects texts that are nested too deeply. The C parser recurses for every level and would overflow the stack,
    which ends the process. A level takes a bracket or a column, so most texts need no check."""
    if text.count("[") + text.count("{") + max(map(len, text.split("\n"))) < _SURELY_SHALLOW:
        return
    depth = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            mark = event.start_mark
            line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
            raise ManifestError(_TOO_DEEP, source, line, column, text)


class _Values:
    """Converts nodes to plain values, and limits the expansion of aliases. `strict`: no key may be set twice.
    `letters`: `y` and `n` are text."""

    def __init__(self, text: str, source: str, *, strict: bool = False, letters: bool = False) -> None:
        self.text = text
        self.source = source
        self.strict = strict
        self.letters = letters
        self.warnings: list[str] = []
        self.sizes: dict[int, int] = {}
        self.made: dict[int, Any] = {}
        self.open: set[int] = set()
        self.work = 0
        """The values so far, with those that merge keys have copied."""

    def of(self, node: yaml.Node) -> Any:
        value, _ = self._make(node)
        return value

    def _make(self, node: yaml.Node) -> tuple[Any, int]:
        if type(node) is yaml.ScalarNode:
            return self._scalar(node), 1 + len(node.value) // CHARACTERS_PER_VALUE
        identity = id(node)
        if identity in self.made:
            return self.made[identity], self.sizes[identity]
        if identity in self.open:
            raise self._error("this alias contains itself", node)
        self.open.add(identity)
        if len(self.open) > MAX_DEPTH:
            raise self._error(_TOO_DEEP, node)
        value, size = self._mapping(node) if type(node) is yaml.MappingNode else self._sequence(node)
        self.open.discard(identity)
        if size > MAX_VALUES or self.work > MAX_VALUES:
            raise self._error(f"this has more than {MAX_VALUES:,} values once its aliases are written out", node)
        self.made[identity], self.sizes[identity] = value, size
        return value, size

    def _scalar(self, node: yaml.Node) -> Any:
        if node.tag == _STRING or (self.letters and node.value in _LETTERS):
            return node.value
        if node.tag not in (_PLAIN, *_KNOWN_TAGS):
            raise self._error(f"the tag {node.tag} means nothing in a manifest", node)
        try:
            return parse_scalar(node.value)
        except NotJsonError as error:
            raise self._error(str(error), node) from None

    def _sequence(self, node: yaml.Node) -> tuple[list[Any], int]:
        values, size = [], 1
        for child in node.value:
            value, count = self._make(child)
            values.append(value)
            size += count
        return values, size

    def _mapping(self, node: yaml.Node) -> tuple[dict[str, Any], int]:
        mapping: dict[str, Any] = {}
        lines: dict[str, int] = {}
        merged: list[tuple[dict[str, Any], int]] = []
        size = 1
        for key_node, value_node in node.value:
            if type(key_node) is not yaml.ScalarNode:
                raise self._error(_TEMPLATE if _is_template(key_node) else "a key must be plain text", key_node)
            if key_node.value == _MERGE and key_node.tag == _PLAIN:
                merged += self._merged(value_node)
                continue
            name = key_node.value if key_node.tag == _STRING else parse_key(self._scalar(key_node))
            value, count = self._make(value_node)
            size += count
            if name in mapping:
                self._report_duplicate(name, lines[name], key_node)
            else:
                lines[name] = key_node.start_mark.line + 1
            mapping[name] = value
        for source, count in merged:
            size += count
            self.work += len(source)
            if self.work > MAX_VALUES:
                raise self._error(f"the merge keys (<<) of this text copy more than {MAX_VALUES:,} values", node)
            for name, value in source.items():
                mapping.setdefault(name, value)
        return mapping, size

    def _merged(self, node: yaml.Node) -> list[tuple[dict[str, Any], int]]:
        parts = node.value if type(node) is yaml.SequenceNode else [node]
        made = [(part, *self._make(part)) for part in parts]
        for part, value, _ in made:
            if not isinstance(value, dict):
                raise self._error('"<<" takes a mapping, or a list of mappings', part)
        return [(value, size) for _, value, size in made]

    def _report_duplicate(self, name: str, first: int, again: yaml.Node) -> None:
        if len(self.warnings) >= MAX_WARNINGS:
            return
        if self.strict:
            raise self._error(f'"{name}" is already set in line {first}; keep one of the two', again)
        line = again.start_mark.line + 1
        self.warnings.append(
            f'{self.source}:{line}: "{name}" is already set in line {first}; line {line} counts, keep one of the two'
        )

    def _error(self, message: str, node: yaml.Node) -> ManifestError:
        mark = node.start_mark
        return ManifestError(message, self.source, mark.line + 1, mark.column + 1, self.text)


_CONTEXT_CHARACTERS = 100
"""How much of a very long line is shown before and after the position."""
_SURELY_SHALLOW = 5_000
_TOO_DEEP = f"this lies in more than {MAX_DEPTH} lists and mappings"
_KNOWN_TAGS = tuple(f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "null", "timestamp"))
_TEMPLATE = 'this looks like a template ("{{ ... }}") that has not been filled in; render it first, or quote it'


def _is_template(node: yaml.Node) -> bool:
    return isinstance(node, yaml.MappingNode) and bool(getattr(node, "flow_style", False))


def _objects(value: Any, node: yaml.Node, source: str, text: str, named: bool) -> Iterator[Document]:
    def error(message: str, at: yaml.Node) -> ManifestError:
        return ManifestError(message, source, at.start_mark.line + 1, at.start_mark.column + 1, text)

    if not isinstance(value, dict):
        what = "a list" if isinstance(value, list) else "plain text"
        advice = '; put the objects under "items:" of a "kind: List", or "---" between them' if what == "a list" else ""
        raise error(f"expected an object with apiVersion, kind and metadata, got {what}{advice}", node)
    kind = value.get("kind")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(value.get("items"), list):
        items = _entry(node, "items")
        if items is not None:
            for item, item_node in zip(value["items"], items[1].value, strict=True):
                yield from _objects(item, item_node, source, text, named)
        return
    if "apiVersion" not in value and {"pipelineInfo", "deploymentSpec"} <= value.keys():
        raise error(_PIPELINE, node)
    for field, example in (("apiVersion", "v1"), ("kind", "Pod")):
        found = value.get(field)
        if found is None or found == "":
            raise error(
                f'{field} is missing; every object has one, such as "{field}: {example}"', _find_position(node, field)
            )
        if not isinstance(found, str):
            raise error(f"{field} must be a string", _find_position(node, field))
    metadata = value.get("metadata")
    if metadata is None:
        raise error(f'metadata is missing; give the {kind} a name: "metadata: {{name: ...}}"', node)
    if not isinstance(metadata, dict):
        raise error("metadata must be an object with a name", _find_position(node, "metadata"))
    if named and not metadata.get("name") and not metadata.get("generateName"):
        raise error(f"metadata.name is missing; give the {kind} a name", _find_position(node, "metadata"))
    yield Document(value, source, node)


def _find_position(node: yaml.Node, field: str) -> yaml.Node:
    entry = _entry(node, field)
    return node if entry is None else entry[0]


def _entry(node: yaml.Node, step: Step) -> tuple[yaml.Node, yaml.Node] | None:
    """Returns where a field or item begins, and its value."""
    if isinstance(node, yaml.SequenceNode):
        if isinstance(step, int) and step < len(node.value):
            return node.value[step], node.value[step]
        return None
    if not isinstance(node, yaml.MappingNode):
        return None
    for key_node, value_node in reversed(node.value):  # of two equal keys, the last one counts
        if key_node.value == str(step):
            return key_node, value_node
    for key_node, value_node in node.value:
        if key_node.value == _MERGE:
            for part in value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]:
                found = _entry(part, step)
                if found is not None:
                    return found
    return None


def _explain_error(error: yaml.MarkedYAMLError, text: str, source: str) -> ManifestError:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return ManifestError(str(error.problem or error), source)
    line, column = mark.line, mark.column
    lines = text.split("\n")
    here = lines[line] if line < len(lines) else ""
    problem = error.problem or "this is not YAML"
    began = error.context_mark.line + 1 if error.context_mark is not None else 0
    indent = here[: len(here) - len(here.lstrip())]
    if "\t" in indent:
        problem, column = "there is a tab in the indentation; YAML wants spaces", indent.index("\t")
    elif "cannot start any token" in problem:
        character = here[column : column + 1]
        problem = f'a value cannot begin with "{character}"; put it in quotes'
    elif "mapping values are not allowed" in problem:
        problem = 'a ": " is not expected here; put the value in quotes if it has one, or look at the indentation above'
    elif "did not find expected key" in problem:
        problem = f"this line does not fit the block that begins in line {began}; look at the indentation"
    elif "did not find expected '-' indicator" in problem:
        problem = f'this line is not an item ("- ...") of the list that begins in line {began}; look at the indentation'
    elif "could not find expected ':'" in problem:
        problem = 'a key without a ":" after it'
        line, column = (error.context_mark.line, error.context_mark.column) if error.context_mark else (line, column)
    elif "unexpected end of stream" in problem and "quoted" in (error.context or ""):
        problem = "this quote is never closed"
        line, column = (error.context_mark.line, error.context_mark.column) if error.context_mark else (line, column)
    elif "did not find expected node content" in problem and not here.strip():
        problem = "a value is missing; look for a [ or { above that is not closed"
    elif "undefined alias" in problem:
        problem = f"{problem.removeprefix('found ')}; an anchor (&name) has to come before it"
    elif "did not find expected ',' or" in problem:
        problem = f"{problem.removeprefix('did not find expected ')} is missing in what begins in line {began}"
    return ManifestError(problem, source, line + 1, column + 1, text)


def _snippet(text: str, line: int, column: int) -> str:
    lines = text.split("\n")
    if not text or not 0 < line <= len(lines):
        return ""
    first = max(0, column - _CONTEXT_CHARACTERS) if len(lines[line - 1]) > 2 * _CONTEXT_CHARACTERS else 0
    part = lines[line - 1].rstrip("\r")[first : first + 2 * _CONTEXT_CHARACTERS]
    shown = "".join(char if char.isprintable() or char == "\t" else "?" for char in part)
    lead = "".join("\t" if char == "\t" else " " for char in shown[: column - 1 - first])
    gutter = f"{line:>5} | "
    return f"\n{gutter}{shown}\n{' ' * (len(gutter) - 2)}| {lead}^"


_WORDS: dict[str, Any] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_NOT_A_NUMBER = frozenset(
    sign + word for sign in ("", "+", "-") for word in (".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF")
)
_MAY_BE_SPECIAL = frozenset("+-.0123456789yYnNtTfFoO~")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_OCTAL = re.compile(r"[-+]?0[0-7]+")
_TIME = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([Tt ].*)?")
_MAX_INTEGER = 2**64 - 1


class NotJsonError(ValueError):
    """A value that YAML can represent and JSON cannot."""


def parse_scalar(text: str) -> Any:
    """Returns the value of an unquoted scalar."""
    if text and text[0] not in _MAY_BE_SPECIAL:
        return text
    word = _WORDS.get(text, text)
    if word is not text:
        return word
    if text in _NOT_A_NUMBER:
        raise NotJsonError(f"{text} cannot be stored: JSON has no such number")
    if text[0].isdigit() or text[0] in "+-.":
        return _number(text)
    return text


def parse_key(value: Any) -> str:
    """Returns a key of a mapping as text: Kubernetes turns numbers and booleans into their JSON text."""
    if isinstance(value, str):
        return value
    if value is True or value is False:
        return "true" if value else "false"
    return "null" if value is None else str(value)


def _number(text: str) -> Any:
    plain = text.replace("_", "")
    if text[0] != ".":
        try:
            number = int(plain, 8 if _OCTAL.fullmatch(plain) else 0)
        except ValueError:
            pass
        else:
            return number if -(2**63) <= number <= _MAX_INTEGER else _normalize_float(_to_float(number))
    return _normalize_float(float(plain)) if _FLOAT.fullmatch(plain) else text


def _to_float(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _normalize_float(number: float) -> int | float:
    """JSON does not distinguish 3.0 from 3."""
    if math.isinf(number):
        raise NotJsonError("this number is too large")
    return int(number) if number.is_integer() and abs(number) < 1e21 else number


def dump(obj: Object | list[Object]) -> str:
    """Formats an object or a list as `kubectl get -o yaml` does: keys in alphabetical order, lists not indented."""
    text: str = yaml.dump(obj, Dumper=_Dumper, default_flow_style=False, width=10**6, allow_unicode=True)
    return text


def _represent_string(dumper: Any, text: str) -> Any:
    style = None
    if "\n" in text:
        style = "|"
    elif _needs_quotes(text):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _needs_quotes(text: str) -> bool:
    try:
        return not isinstance(parse_scalar(text), str) or _TIME.fullmatch(text) is not None or text in ("=", "<<")
    except NotJsonError:
        return True


_Dumper: Any = type(
    "_Dumper", (getattr(yaml, "CSafeDumper", yaml.SafeDumper),), {"ignore_aliases": lambda self, data: True}
)
_Dumper.add_representer(str, _represent_string)
