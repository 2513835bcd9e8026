"""Archives: workflows with their versions, modules and settings of one platform, to be imported into another.

An archive is a tar.gz of JSON files (docs/platform.md). It never has values of secrets: `export_platform` returns them
apart from it, if they are asked for. Importing can be repeated: what is there already and equal is left alone, what is
missing is added, and what differs is reported.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, NamedTuple

from muster import __version__
from muster.sdk import Muster, PlatformError

FORMAT, FORMAT_VERSION = "muster-export", 1
_ABOUT: Final = "muster-export.json"
_SETTINGS: Final = ("teams", "categories", "clusters", "storage")
_PARTS: Final = (*_SETTINGS, "modules", "workflows")
SETTING_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "teams": ("description",),
    "categories": ("description",),
    "clusters": ("description", "node_selector", "tolerations", "sku", "total", "team"),
    "storage": ("description", "path", "host_path", "claim", "read_only", "team"),
}
_SOURCE: Final = ("git_url", "git_ref", "dockerfile", "build_dir", "readme_path", "env", "inputs", "outputs")
MOST_FILES = 20_000
MOST_BYTES = 512 << 20
"""Of all files together, unpacked."""
LARGEST_FILE = 64 << 20
_WAIT_SECONDS = 2.0

Record = Mapping[str, Any]
Result = Literal["created", "updated", "unchanged", "skipped"]


class ArchiveError(Exception):
    """The archive cannot be used. The message says why."""


@dataclass(frozen=True, slots=True)
class Archive:
    about: Record = field(default_factory=dict)
    teams: tuple[Record, ...] = ()
    categories: tuple[Record, ...] = ()
    clusters: tuple[Record, ...] = ()
    storage: tuple[Record, ...] = ()
    modules: tuple[Record, ...] = ()
    workflows: tuple[Record, ...] = ()


class SecretKey(NamedTuple):
    """Names the value of a secret variable."""

    kind: Literal["workflow", "module"]
    name: str
    version: int
    node: str
    """'' for a module."""
    variable: str

    def __str__(self) -> str:
        node = f", node {self.node}" if self.node else ""
        return f"{self.kind} {self.name}@{self.version}{node}: {self.variable}"


Secrets = Mapping[SecretKey, str]


class Step(NamedTuple):
    """What importing did with one thing."""

    result: Result
    what: str
    """Such as `workflow nightly@2`."""
    why: str = ""


# Files


def write_archive(archive: Archive, file: BinaryIO) -> None:
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        _add(tar, _ABOUT, archive.about)
        for part in _PARTS:
            for number, record in enumerate(getattr(archive, part), 1):
                _add(tar, f"{part}/{number:05}.json", record)


def read_archive(path: Path) -> Archive:
    """Reads at most MOST_BYTES. Raises ArchiveError."""
    parts: dict[str, list[Record]] = {part: [] for part in _PARTS}
    about: Record | None = None
    try:
        with _LimitedGzip(path) as unpacked, tarfile.open(fileobj=unpacked, mode="r|") as tar:
            for number, member in enumerate(tar):
                if number >= MOST_FILES:
                    raise ArchiveError(f"{path}: more than {MOST_FILES} files")
                if not 0 <= member.size <= LARGEST_FILE:
                    raise ArchiveError(f"{path}: {member.name[:200]} is too large")
                part = member.name.partition("/")[0]
                content = tar.extractfile(member) if member.isreg() else None
                if content is None or (member.name != _ABOUT and part not in parts):
                    raise ArchiveError(f"{path}: {member.name[:200]} does not belong to an export")
                record = json.loads(content.read())
                if not isinstance(record, dict):
                    raise ArchiveError(f"{path}: {member.name[:200]} has no object")
                if member.name == _ABOUT:
                    about = _check_about(path, record)
                else:
                    parts[part].append(record)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ArchiveError(f"{path}: it is not a readable tar.gz: {error}") from None
    except (ValueError, RecursionError) as error:
        raise ArchiveError(f"{path}: a file in it is not valid JSON: {error}") from None
    if about is None:
        raise ArchiveError(f"{path}: {_ABOUT} is missing; `muster export` writes such archives")
    archive = Archive(about, **{part: tuple(records) for part, records in parts.items()})
    for part in _PARTS:
        for record in getattr(archive, part):
            _check_record(path, part, record)
    return archive


class _LimitedGzip(gzip.GzipFile):
    """Unpacks at most MOST_BYTES: what `tarfile` reads by itself, such as long names, counts as well."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._left = MOST_BYTES

    def read(self, size: int | None = -1) -> bytes:
        content = super().read(size)
        self._left -= len(content)
        if self._left < 0:
            raise ArchiveError(f"{self.name}: it is too large: more than {MOST_BYTES >> 20} MB when unpacked")
        return content


def write_secrets(secrets: Secrets, path: Path) -> None:
    rows = [{**key._asdict(), "value": value} for key, value in sorted(secrets.items())]
    # A new file: one that is there may be readable for others, or be a link of theirs.
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as file:
        file.write(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")
    draft.replace(path)


def read_secrets(path: Path) -> dict[SecretKey, str]:
    try:
        rows = json.loads(path.read_text())
        return {SecretKey(*(row[name] for name in SecretKey._fields)): str(row["value"]) for row in rows}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArchiveError(
            f"{path}: it is not a file of secrets, as `muster export --secrets` writes it: {error}"
        ) from None


def _add(tar: tarfile.TarFile, name: str, record: Record) -> None:
    content = json.dumps(record, ensure_ascii=False, indent=1).encode()
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = len(content), 0o644, int(time.time())
    tar.addfile(entry, io.BytesIO(content))


def _check_about(path: Path, about: Record) -> Record:
    if about.get("format") != FORMAT:
        raise ArchiveError(f'{path}: the format is "{about.get("format")}", not "{FORMAT}"')
    version = about.get("version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ArchiveError(f"{path}: version {version} of the format is newer than this Muster; upgrade it first")
    return about


def _check_record(path: Path, part: str, record: Record) -> None:
    versions = record.get("versions", [])
    is_valid = isinstance(record.get("name"), str) and isinstance(versions, list)
    if part in ("modules", "workflows"):
        needed = "document" if part == "workflows" else "git_url"
        is_valid = is_valid and bool(versions) and all(isinstance(v, dict) and needed in v for v in versions)
    if not is_valid:
        raise ArchiveError(f"{path}: {part}: a record lacks its name or its versions")


# Export


def export_platform(
    muster: Muster,
    *,
    only_own: bool = False,
    workflows: Iterable[str] = (),
    say: Callable[[str], None] = lambda _: None,
) -> tuple[Archive, dict[SecretKey, str]]:
    """Returns the archive, and the secrets that it lacks. Admins export everything, other users their own workflows and
    modules. `workflows` names the workflows to export, without anything else."""
    me = muster.users.me().user
    everything = me.role == "admin" and not only_own
    owner = "" if everything else me.id
    chosen = list(workflows)
    secrets: dict[SecretKey, str] = {}
    parts: dict[str, list[Record]] = {part: [] for part in _PARTS}
    if everything and not chosen:
        for part in _SETTINGS:
            parts[part] = [_setting(part, each) for each in getattr(muster, part).list()]
            say(f"{part}: {len(parts[part])}")
    if not chosen:
        parts["modules"] = [_module(muster, each, secrets) for each in muster.modules.list(owner=owner)]
        say(f"modules: {len(parts['modules'])}")
    found = (
        [muster.workflows.get(name) for name in chosen]
        if chosen
        else list(muster.workflows.list(owner=owner, archived="too", sort="name"))
    )
    parts["workflows"] = [_workflow(muster, each, secrets) for each in found]
    say(f"workflows: {len(parts['workflows'])}")
    about = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "muster": __version__,
        "exported": datetime.now(UTC).isoformat(timespec="seconds"),
        "exported_by": me.name,
        "secrets_left_out": [key._asdict() for key in sorted(secrets)],
    }
    return Archive(about, **{part: tuple(records) for part, records in parts.items()}), secrets


def _setting(part: str, record: Any) -> Record:
    found = {"name": record.name}
    for name in SETTING_FIELDS[part]:
        found[name] = record.team_name if name == "team" else getattr(record, name)
    return found


def _workflow(muster: Muster, workflow: Any, secrets: dict[SecretKey, str]) -> Record:
    versions = []
    for version in sorted(muster.workflows.versions(workflow.id), key=lambda each: each.number):
        document = muster.workflows.document(workflow.id, version.id)
        for node, variable in _secret_variables(document):
            key = SecretKey("workflow", workflow.name, version.number, node["name"], variable["name"])
            secrets[key] = variable.pop("value", "") or ""
        versions.append({
            "number": version.number,
            "name": version.name,
            "description": version.description,
            "hash": version.hash,
            "archived": version.archived is not None,
            "document": document,
        })  # fmt: skip
    about = {"name": workflow.name, "description": workflow.description, "team": workflow.team_name}
    return {**about, "archived": workflow.archived is not None, "versions": versions}


def _module(muster: Muster, module: Any, secrets: dict[SecretKey, str]) -> Record:
    versions = []
    for version in sorted(muster.modules.versions(module.id), key=lambda each: each.number):
        record = asdict(version)
        source = {name: record[name] for name in _SOURCE}
        for variable in source["env"]:
            if variable["secret"]:
                secrets[SecretKey("module", module.name, version.number, "", variable["name"])] = (
                    variable["value"] or ""
                )
                variable["value"] = ""
        versions.append({**source, "number": version.number, "git_commit": version.git_commit, "state": version.state})
    about = {"name": module.name, "description": module.description, "category": module.category_name}
    return {**about, "team": module.team_name, "versions": versions}


def _secret_variables(document: Record) -> Iterator[tuple[Record, dict[str, Any]]]:
    for node in document.get("nodes") or ():
        for variable in node.get("env") or ():
            if variable.get("secret"):
                yield node, variable


# Import


class Import:
    """Imports an archive. `run` yields what it does; a thing that is refused does not stop the others."""

    def __init__(
        self,
        muster: Muster,
        archive: Archive,
        secrets: Secrets | None = None,
        *,
        overwrite: bool = False,
        wait_seconds: float = 1800.0,
    ) -> None:
        """`overwrite` changes settings that differ. Modules are built again; workflows that use them wait for that, for
        `wait_seconds`."""
        self._muster, self._archive, self._secrets = muster, archive, secrets or {}
        self._overwrite, self._wait_seconds = overwrite, wait_seconds
        self._steps: list[Step] = []

    def run(self) -> Iterator[Step]:
        is_admin = self._muster.users.me().user.role == "admin"
        for part in _SETTINGS:
            for record in getattr(self._archive, part):
                yield from self._do(f"{part.removesuffix('s')} {record['name']}", self._setting, part, record, is_admin)
        self._teams = {team.name for team in self._muster.teams.list()} if is_admin else self._own_teams()
        for record in self._archive.modules:
            yield from self._do(f"module {record['name']}", self._module, record)
        self._wait_for_builds()
        for record in self._archive.workflows:
            yield from self._do(f"workflow {record['name']}", self._workflow, record)

    def _do(self, what: str, act: Callable[..., None], *arguments: Any) -> Iterator[Step]:
        self._steps = []
        try:
            act(*arguments)
        except PlatformError as error:
            if error.status == 0:
                raise
            faults = "; ".join(f"{fault.field}: {fault.message}" for fault in error.errors if fault.field)
            self._steps.append(Step("skipped", what, faults or error.detail))
        yield from self._steps

    def _own_teams(self) -> set[str]:
        mine = self._muster.users.me().teams
        return {team.name for team in self._muster.teams.list() if team.id in mine}

    def _setting(self, part: str, record: Record, is_admin: bool) -> None:
        what = f"{part.removesuffix('s')} {record['name']}"
        client = getattr(self._muster, part)
        wanted = {name: record[name] for name in SETTING_FIELDS[part] if name in record}
        there = next((each for each in client.list(q=record["name"]) if each.name == record["name"]), None)
        if there is None and not is_admin:
            self._steps.append(Step("skipped", what, "only admins create it"))
        elif there is None:
            given = {name: value for name, value in wanted.items() if value is not None}
            client.create(record["name"], **given)
            self._steps.append(Step("created", what))
        elif (differing := [name for name, value in wanted.items() if _setting(part, there)[name] != value]) == []:
            self._steps.append(Step("unchanged", what))
        elif self._overwrite and is_admin:
            changes = {name: wanted[name] if wanted[name] is not None or name == "total" else "" for name in differing}
            client.edit(there.id, **changes)
            self._steps.append(Step("updated", what, ", ".join(differing)))
        else:
            self._steps.append(Step("skipped", what, f"it exists and differs in {', '.join(differing)} (--overwrite)"))

    def _team(self, record: Record) -> str:
        return record["team"] if record.get("team") in self._teams else ""

    def _module(self, record: Record) -> None:
        there = _or_none(lambda: self._muster.modules.get(record["name"]))
        known = {} if there is None else {each.number: each for each in self._muster.modules.versions(there.id)}
        previous: Record = {}
        for version in record["versions"]:
            what = f"module {record['name']}@{version['number']}"
            source = self._source(record["name"], version)
            if version["number"] in known:
                if not _same_source(asdict(known[version["number"]]), source):
                    self._steps.append(
                        Step("skipped", what, "it exists and differs; rename or delete the module there")
                    )
                    return
                self._steps.append(Step("unchanged", what))
            elif there is None:
                about = {"description": record.get("description", ""), "team": self._team(record)}
                there = self._muster.modules.create(record["name"], category=record["category"], **about, **source)
                self._steps.append(Step("created", what, "it is being built"))
            elif source == previous:
                self._muster.modules.build(there.id)
                self._steps.append(Step("created", what, "it is being built"))
            else:
                self._muster.modules.edit(there.id, **source)
                self._steps.append(Step("created", what, "it is being built"))
            previous = source

    def _source(self, module: str, version: Record) -> dict[str, Any]:
        """The source of a version. What was a branch becomes the commit that was built."""
        source = {name: version[name] for name in _SOURCE}
        env = [
            {**v, "value": self._secrets.get(SecretKey("module", module, version["number"], "", v["name"]), "")}
            if v.get("secret")
            else v
            for v in source["env"]
        ]
        return {**source, "git_ref": version.get("git_commit") or source["git_ref"], "env": env}

    def _wait_for_builds(self) -> None:
        deadline = time.monotonic() + self._wait_seconds
        for record in self._archive.modules:
            while time.monotonic() < deadline:
                there = _or_none(lambda: self._muster.modules.get(record["name"]))  # noqa: B023
                if there is None or not any(
                    each.state == "building" for each in self._muster.modules.versions(there.id)
                ):
                    break
                time.sleep(_WAIT_SECONDS)

    def _workflow(self, record: Record) -> None:
        name = record["name"]
        there = _or_none(lambda: self._muster.workflows.get(name))
        known = {} if there is None else {each.number: each for each in self._muster.workflows.versions(there.id)}
        for version in record["versions"]:
            number, what = version["number"], f"workflow {name}@{version['number']}"
            if number in known:
                if known[number].hash != version["hash"]:
                    self._steps.append(
                        Step("skipped", what, "it exists and differs; rename or delete the workflow there")
                    )
                    return
                self._steps.append(Step("unchanged", what))
                continue
            document, missing = self._with_secrets(name, version)
            if missing:
                why = f"it needs the values of secrets (--secrets): {', '.join(map(str, missing))}"
                self._steps.append(Step("skipped", what, why))
                return
            about = {"name": version["name"], "description": version.get("description", "")}
            if there is None:
                self._muster.workflows.create(
                    name,
                    document,
                    description=record.get("description", ""),
                    team=self._team(record),
                    version_name=about["name"],
                    version_description=about["description"],
                )
                there = self._muster.workflows.get(name)
            else:
                self._muster.workflows.add_version(there.id, document, **about)
            if version.get("archived"):
                self._muster.workflows.archive(there.id, str(number))
            self._steps.append(Step("created", what))
        if record.get("archived") and there is not None and there.archived is None:
            self._muster.workflows.archive(there.id)

    def _with_secrets(self, name: str, version: Record) -> tuple[dict[str, Any], list[SecretKey]]:
        document: dict[str, Any] = json.loads(json.dumps(version["document"]))
        missing = []
        for node, variable in _secret_variables(document):
            key = SecretKey("workflow", name, version["number"], node["name"], variable["name"])
            variable["value"] = self._secrets.get(key, "")
            if not variable["value"]:
                missing.append(key)
        return document, missing


def _same_source(there: Record, source: Record) -> bool:
    """Whether a version was made from this source: values of secrets are not compared."""

    def comparable(record: Record) -> dict[str, Any]:
        found = {name: record[name] for name in _SOURCE if name not in ("git_ref", "env")}
        return {**found, "env": [(v["name"], v["secret"], "" if v["secret"] else v["value"]) for v in record["env"]]}

    return comparable(there) == comparable(source) and source["git_ref"] in (there["git_ref"], there["git_commit"])


def _or_none(get: Callable[[], Any]) -> Any:
    try:
        return get()
    except PlatformError as error:
        if error.status != 404:
            raise
        return None
