"""sprig's semantic versions: versions, and constraints on them, as the Go library behind sprig reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_values import Method, Opaque
from muster.workflows.lang.sprig.arguments import function_table

_TAIL = r"(?:-([0-9A-Za-z\-]+(?:\.[0-9A-Za-z\-]+)*))?(?:\+([0-9A-Za-z\-]+(?:\.[0-9A-Za-z\-]+)*))?"
_VERSION = re.compile(r"v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?" + _TAIL, re.ASCII)
_WANTED = r"v?([0-9|xX*]+)(?:\.([0-9|xX*]+))?(?:\.([0-9|xX*]+))?" + _TAIL
_OPERATOR = r"(!=|>=|=>|<=|=<|~>|=|>|<|~|\^)?"
_CONSTRAINT = re.compile(rf"\s*{_OPERATOR}\s*({_WANTED})\s*", re.ASCII)
_SPAN = re.compile(rf"\s*({_WANTED})\s+-\s+({_WANTED})\s*", re.ASCII)
_MAX_LENGTH = 256


@dataclass(frozen=True, slots=True)
class Version(Opaque):
    major: int
    minor: int
    patch: int
    prerelease: str = ""
    metadata: str = ""
    original: str = ""
    go_type = "*semver.Version"
    methods: ClassVar[Mapping[str, Method]] = {
        "Major": Method("", "uint64", lambda v: v.major),
        "Minor": Method("", "uint64", lambda v: v.minor),
        "Patch": Method("", "uint64", lambda v: v.patch),
        "Prerelease": Method("", "string", lambda v: v.prerelease),
        "Metadata": Method("", "string", lambda v: v.metadata),
        "Original": Method("", "string", lambda v: v.original),
        "String": Method("", "string", lambda v: v.to_text()),
        "Compare": Method("*semver.Version", "int", lambda v, other: v.compare(other)),
        "Equal": Method("*semver.Version", "bool", lambda v, other: v.compare(other) == 0),
        "LessThan": Method("*semver.Version", "bool", lambda v, other: v.compare(other) < 0),
        "GreaterThan": Method("*semver.Version", "bool", lambda v, other: v.compare(other) > 0),
    }

    @property
    def numbers(self) -> tuple[int, int, int]:
        return self.major, self.minor, self.patch

    def compare(self, other: Version) -> int:
        """Returns -1, 0 or 1. Metadata is ignored."""
        if self.numbers != other.numbers:
            return 1 if self.numbers > other.numbers else -1
        return _compare_prereleases(self.prerelease, other.prerelease)

    def to_text(self) -> str:
        before = f"-{self.prerelease}" if self.prerelease else ""
        return f"{self.major}.{self.minor}.{self.patch}{before}" + (f"+{self.metadata}" if self.metadata else "")

    def as_json(self) -> str:
        return f'"{self.to_text()}"'


@dataclass(frozen=True, slots=True)
class Constraint:
    operator: str
    version: Version
    places: int
    """How many of major, minor and patch are given: 3 unless some are missing or wildcards."""

    def allows(self, version: Version) -> bool:
        wanted = self.version
        if version.prerelease and not wanted.prerelease and (self.operator != "!=" or self.places < 3):
            return False
        order = version.compare(wanted)
        match self.operator:
            case "!=":
                return self._differs(version)
            case ">":
                return self._exceeds(version)
            case "<":
                return order < 0
            case ">=" | "=>":
                return order >= 0
            case "<=" | "=<":
                return order <= 0 if self.places == 3 else self._given(version, 2) <= self._given(wanted, 2)
            case "^":
                return order >= 0 and self._compatible(version)
            case "~" | "~>":
                return self._near(version, order)
            case _:
                return order == 0 if self.places == 3 else self._near(version, order)

    def _given(self, version: Version, otherwise: int) -> tuple[int, ...]:
        """Returns as many of a version's numbers as the constraint gives. A constraint of `*` means 0.0.0."""
        return version.numbers[: self.places or otherwise]

    def _differs(self, version: Version) -> bool:
        if self.places == 3:
            return version.compare(self.version) != 0
        if self._given(version, 3) != self._given(self.version, 3):
            return True
        return self.places == 2 and version.prerelease != self.version.prerelease

    def _exceeds(self, version: Version) -> bool:
        if self.places in (0, 3):
            return version.compare(self.version) > 0
        return version.numbers[: self.places] > self.version.numbers[: self.places]

    def _near(self, version: Version, order: int) -> bool:
        """Returns whether the version is at least that of the constraint, with the same major and, if given, minor."""
        wanted = self.version
        if order < 0:
            return False
        if wanted.numbers == (0, 0, 0) and self.places in (0, 3):
            return True
        return version.major == wanted.major and (version.minor == wanted.minor or self.places == 1)

    def _compatible(self, version: Version) -> bool:
        """Returns whether the first number that is not zero is the same."""
        wanted = self.version
        if wanted.major > 0 or self.places == 1:
            return version.major == wanted.major
        if version.major > 0:
            return False
        if wanted.minor > 0 or self.places == 2:
            return version.minor == wanted.minor
        return version.minor == 0 and version.patch == wanted.patch


def parse_version(text: str) -> Version:
    found = _VERSION.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if found is None:
        raise ExpressionError("Invalid Semantic Version")
    major, minor, patch, prerelease, metadata = found.groups()
    for part in (prerelease or "").split("."):
        if len(part) > 1 and part[0] == "0" and part.isdigit():
            raise ExpressionError("Version segment starts with 0")
    return Version(int(major), int(minor or 0), int(patch or 0), prerelease or "", metadata or "", text)


def parse_constraints(text: str) -> tuple[tuple[Constraint, ...], ...]:
    """Parses alternatives (`||`) of constraints that must all hold (space or comma)."""
    if len(text) > _MAX_LENGTH:
        raise ExpressionError(f"improper constraint: {text}")
    text = _SPAN.sub(lambda found: f">= {found[1]}, <= {found[7]} ", text)
    return tuple(_all_of(part) for part in text.split("||"))


def satisfies(constraints: tuple[tuple[Constraint, ...], ...], version: Version) -> bool:
    return any(all(constraint.allows(version) for constraint in group) for group in constraints)


def _all_of(text: str) -> tuple[Constraint, ...]:
    found: list[Constraint] = []
    at = 0
    while at < len(text) or not found:
        match = _CONSTRAINT.match(text, at)
        if match is None or (found and text[at - 1] not in " \t," and match[0][:1] not in " \t"):
            raise ExpressionError(f"improper constraint: {text}")
        found.append(_build_constraint(match))
        at = match.end()
        if text[at : at + 1] == ",":
            at += 1
            if at >= len(text):
                raise ExpressionError(f"improper constraint: {text}")
    return tuple(found)


def _build_constraint(found: re.Match[str]) -> Constraint:
    operator, _, major, minor, patch, prerelease = found.groups()[:6]
    places = 0 if _is_wildcard(major) else 1 if _is_wildcard(minor) else 2 if _is_wildcard(patch) else 3
    numbers = [major, minor, patch][:places] + ["0"] * (3 - places)
    if not all(number.isdigit() for number in numbers):
        raise ExpressionError("constraint Parser Error")
    tail = f"-{prerelease}" if prerelease else ""
    return Constraint(operator or "", parse_version(".".join(numbers) + tail), places)


def _is_wildcard(number: str | None) -> bool:
    return number in (None, "x", "X", "*")


def _compare_prereleases(a: str, b: str) -> int:
    if a == b:
        return 0
    if not a or not b:
        return 1 if not a else -1
    ones, others = a.split("."), b.split(".")
    for one, other in zip(ones, others, strict=False):
        if one != other:
            return -1 if _prerelease_key(one) < _prerelease_key(other) else 1
    return -1 if len(ones) < len(others) else 1


def _prerelease_key(part: str) -> tuple[int, int, str]:
    return (0, int(part), "") if part.isdigit() else (1, 0, part)


def _semver_compare(constraint: str, version: str) -> bool:
    return satisfies(parse_constraints(constraint), parse_version(version))


SEMVER_FUNCTIONS = function_table(
    ("semver", "string", parse_version),
    ("semverCompare", "string, string", _semver_compare),
)
