"""Pipeline packages: the compiled pipeline that a user uploads, as YAML or JSON, or in a .zip or .tar.gz archive.

An archive is read in memory, with a limit on what comes out of it; nothing is written to a disk. These functions run in
a worker process (server/workers.py), because the texts and archives come from users.
"""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from email.message import Message
from typing import Any, Final, NamedTuple

import orjson

from muster.pipelines.spec import PipelineError, parse_pipeline, read_pipeline
from muster.platform.errors import BadRequestProblem, InvalidProblem, TooLargeProblem

LARGEST: Final = 32 * 1024 * 1024
"""Bytes of a package, and of what is in it."""
_MOST_MEMBERS: Final = 1000
_WANTED: Final = "pipeline.yaml"
_TEXTS: Final = (".yaml", ".yml", ".json")
_CHUNK: Final = 1 << 16
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


class Upload(NamedTuple):
    file_name: str
    data: bytes


class Member(NamedTuple):
    """A file in an archive."""

    name: str
    open: Any
    """A function that returns a binary file."""


def read_package(file_name: str, data: bytes) -> dict[str, Any]:
    """Returns the IR, or `{pipeline_spec, platform_spec}`. Raises BadRequest, Invalid or TooLarge."""
    if len(data) > LARGEST:
        raise too_large()
    name, text = _text_of(file_name or "pipeline", data)
    try:
        return _checked(read_pipeline(text, name).to_json())
    except PipelineError as error:
        raise BadRequestProblem.of("pipelines.spec", detail=str(error)) from None


def check_spec(spec: Any) -> dict[str, Any]:
    """Checks the `pipeline_spec` of a request. Raises BadRequest."""
    try:
        return _checked(parse_pipeline(spec).to_json())
    except PipelineError as error:
        raise BadRequestProblem.of("pipelines.spec", detail=str(error)) from None


def read_upload(content_type: str, body: bytes) -> Upload:
    """Returns the file of a multipart form: its part `uploadfile`. Raises BadRequest."""
    header = Message()
    header["content-type"] = content_type
    boundary = header.get_param("boundary")
    if header.get_content_type() != "multipart/form-data" or not isinstance(boundary, str) or not boundary:
        raise BadRequestProblem.of("pipelines.upload", detail="the body is not multipart/form-data with a boundary")
    for part in _parts(body, boundary.encode("latin-1", "replace")):
        head, separator, content = part.partition(b"\r\n\r\n")
        if not separator:
            continue
        about = Message()
        for line in head.decode("utf-8", "replace").split("\r\n"):
            field, _, value = line.partition(":")
            if field.strip().lower() == "content-disposition":
                about["content-disposition"] = value.strip()
        if about.get_param("name", header="content-disposition") == "uploadfile":
            return Upload((about.get_filename() or "")[:256], content)
    raise BadRequestProblem.of("pipelines.upload", detail="it has no part with the name uploadfile")


def read_uploaded(content_type: str, body: bytes) -> tuple[str, dict[str, Any]]:
    """Returns the file name and the pipeline of a multipart form."""
    upload = read_upload(content_type, body)
    return upload.file_name, read_package(upload.file_name, upload.data)


def too_large() -> TooLargeProblem:
    return TooLargeProblem.of("pipelines.large", most=LARGEST // 1024 // 1024)


def has_nul(raw: bytes) -> bool:
    """Whether a text in this JSON has a NUL character. The source of a component may well contain the six characters
    of its escape."""
    return _NUL.search(raw) is not None


def _checked(spec: dict[str, Any]) -> dict[str, Any]:
    """Raises BadRequest for a text that not every database can store."""
    if has_nul(orjson.dumps(spec)):
        raise BadRequestProblem.of("pipelines.spec", detail="a text in it has a NUL character")
    return spec


def _parts(body: bytes, boundary: bytes) -> Iterator[bytes]:
    mark = b"\r\n--" + boundary
    pieces = (b"\r\n" + body).split(mark)
    for piece in pieces[1:]:
        if piece.startswith(b"--"):
            return
        yield piece.removeprefix(b"\r\n")


def _text_of(file_name: str, data: bytes) -> tuple[str, str]:
    """Returns the name of the text and the text. What a file is, is in its first bytes, not in its name."""
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        name, raw = _from_archive(file_name, _zip_members(file_name, data))
    elif data.startswith(b"\x1f\x8b"):
        name, raw = _from_archive(file_name, _tar_members(file_name, _unzipped(file_name, data)))
    else:
        name, raw = file_name, data
    try:
        return name, raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _not_a_package(name, "it is neither UTF-8 text nor a .zip or .tar.gz archive") from None


def _from_archive(file_name: str, members: Mapping[str, Member]) -> tuple[str, bytes]:
    chosen = members.get(_WANTED)
    if chosen is None:
        texts = [member for name, member in members.items() if name.endswith(_TEXTS)]
        if len(texts) != 1:
            found = ", ".join(list(members)[:10]) or "nothing"
            raise _not_a_package(file_name, f"expected {_WANTED}, or a single .yaml or .json file; it has {found}")
        chosen = texts[0]
    try:
        with chosen.open() as file:
            raw: bytes = file.read(LARGEST + 1)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise _not_a_package(file_name, f"{chosen.name} cannot be read: {error}") from None
    if len(raw) > LARGEST:
        raise too_large()
    return f"{file_name}/{chosen.name}", raw


def _zip_members(file_name: str, data: bytes) -> dict[str, Member]:
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        infos = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise _not_a_package(file_name, f"the archive is damaged: {error}") from None
    found: dict[str, Member] = {}
    if len(infos) > _MOST_MEMBERS:
        raise _not_a_package(file_name, f"it has more than {_MOST_MEMBERS} files")
    for info in infos:
        name = _check_member(file_name, info.filename)
        if not info.is_dir():
            found[name] = Member(name, lambda info=info: archive.open(info))
    return found


def _tar_members(file_name: str, data: bytes) -> dict[str, Member]:
    found: dict[str, Member] = {}
    try:
        archive = tarfile.TarFile(fileobj=io.BytesIO(data))
        for count, info in enumerate(archive):
            if count >= _MOST_MEMBERS:
                raise _not_a_package(file_name, f"it has more than {_MOST_MEMBERS} files")
            name = _check_member(file_name, info.name)
            if info.isdir():
                continue
            if not info.isreg():
                raise _not_a_package(file_name, f"{name} is not a plain file")
            found[name] = Member(name, lambda info=info: archive.extractfile(info))
    except (tarfile.TarError, ValueError, EOFError) as error:
        raise _not_a_package(file_name, f"the archive is damaged: {error}") from None
    return found


def _check_member(file_name: str, name: str) -> str:
    plain = name.replace("\\", "/").removeprefix("./")
    if plain.startswith("/") or ".." in plain.split("/") or not plain.isprintable() or len(plain) > 500:
        raise _not_a_package(file_name, f"{name[:100]!r} is outside of the archive")
    return plain


def _unzipped(file_name: str, data: bytes) -> bytes:
    """Stops as soon as too much comes out."""
    stream = zlib.decompressobj(wbits=31)
    found = bytearray()
    try:
        rest = data
        while rest and not stream.eof:
            found += stream.decompress(rest, _CHUNK)
            rest = stream.unconsumed_tail
            if len(found) > LARGEST:
                raise too_large()
        found += stream.flush()
    except zlib.error as error:
        raise _not_a_package(file_name, f"the archive is damaged: {error}") from None
    if not stream.eof:
        raise _not_a_package(file_name, "the archive is cut off")
    return bytes(found)


def _not_a_package(file_name: str, detail: str) -> InvalidProblem:
    return InvalidProblem.field("uploadfile", "pipelines.package", name=file_name[:200], detail=detail)
