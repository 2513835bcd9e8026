"""Encrypts secrets at rest, with keys that are not in the database.

A ring has one or more keys. The first one encrypts; all of them decrypt, so that a key can be replaced while data that
was encrypted with the old one is still there. The keys come from a file that only its owner can read, or from the
environment variable MUSTER_ENCRYPTION_KEY. A file that does not exist is created when something is encrypted for the
first time.

An encrypted value names its key and is bound to its place (the table, column and row, or the object): copied to another
place, it cannot be decrypted.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_VARIABLE: Final = "MUSTER_ENCRYPTION_KEY"
KEY_FILE: Final = "encryption-key"
"""The name of the file in the data directory."""

_MARK: Final = b"\x00mst1:"
"""How an encrypted value begins. No JSON document and no text of a user begins with it."""
_KEY_BYTES, _NONCE_BYTES, _ID_LETTERS = 32, 12, 8


class EncryptionError(RuntimeError):
    """A key is missing or not valid, or a value cannot be decrypted. The message says what to do. No data is lost."""


class _Key(NamedTuple):
    id: str
    cipher: AESGCM


class KeyRing:
    """Keys of one source. It may be used by several threads."""

    def __init__(self, file: Path | None = None, texts: Iterable[str] = (), *, source: str = "") -> None:
        self.source = source or str(file)
        self._file = file
        self._lock = threading.Lock()
        self._keys = self._parse(texts)

    @classmethod
    def load(cls, file: Path) -> KeyRing:
        """Reads the keys of the environment, else those of the file. Raises EncryptionError."""
        given = os.environ.get(KEY_VARIABLE, "")
        if given.strip():
            return cls(None, given.replace(",", " ").split(), source=KEY_VARIABLE)
        return cls(file, _read(file))

    @property
    def current(self) -> str:
        """The id of the key that encrypts; '' if there is none yet."""
        return self._keys[0].id if self._keys else ""

    @property
    def has_old_keys(self) -> bool:
        return len(self._keys) > 1

    def has(self, key_id: str) -> bool:
        return any(key.id == key_id for key in self._keys)

    def ensure(self) -> None:
        """Creates the file if there is none."""
        if not self._keys and self._file is not None:
            self._create()

    def encrypt(self, plain: bytes, place: str) -> bytes:
        """`place` says where the value is stored, and has to be the same for `decrypt`."""
        key = self._keys[0] if self._keys else self._create()
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return _MARK + key.id.encode() + nonce + key.cipher.encrypt(nonce, plain, place.encode())

    def decrypt(self, stored: bytes, place: str) -> bytes:
        """Raises EncryptionError."""
        from cryptography.exceptions import InvalidTag

        used = key_of(stored)
        key = next((key for key in self._keys if key.id == used), None)
        if key is None:
            raise self.missing(used)
        at = len(_MARK) + _ID_LETTERS
        try:
            return key.cipher.decrypt(stored[at : at + _NONCE_BYTES], stored[at + _NONCE_BYTES :], place.encode())
        except InvalidTag:
            raise EncryptionError(
                f"the secret of {place} was changed or copied from another place: it cannot be decrypted; restore the "
                "database from a backup, or delete it"
            ) from None

    def missing(self, key_id: str) -> EncryptionError:
        """The error about a key that is not in this ring."""
        what = "does not exist" if self._file is not None and not self._file.exists() else "does not have it"
        return EncryptionError(
            f"secrets are encrypted with the key {key_id}, and {self.source} {what}: restore it from a backup. "
            "Nothing was changed"
        )

    def _create(self) -> _Key:
        with self._lock:
            if self._keys:
                return self._keys[0]
            if self._file is None:
                raise EncryptionError(f"there is no encryption key in {self.source}; set {KEY_VARIABLE}")
            _write_new(self._file, [new_key()])
            # Another process may have been faster. Then its key is the one.
            self._keys = self._parse(_read(self._file))
            return self._keys[0]

    def _parse(self, texts: Iterable[str]) -> list[_Key]:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        keys = []
        for number, text in enumerate(texts, start=1):
            try:
                raw = base64.b64decode(text, altchars=b"-_", validate=True)
            except (binascii.Error, ValueError):
                raw = b""
            if len(raw) != _KEY_BYTES:
                raise EncryptionError(
                    f"{self.source}: key {number} is not valid; a key is 32 random bytes in base64, as "
                    "`muster rotate-key --print` prints one"
                )
            keys.append(_Key(hashlib.sha256(b"muster key " + raw).hexdigest()[:_ID_LETTERS], AESGCM(raw)))
        return keys


def new_key() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(_KEY_BYTES)).decode()


def add_key(file: Path) -> str:
    """Puts a new key in front of those in the file, so that it encrypts from the next start on. Returns its id."""
    texts = [new_key(), *_read(file)]
    ring = KeyRing(file, texts)  # raises if one of the others is not valid
    draft = file.with_name(f".{file.name}.{secrets.token_hex(6)}")
    _write_new(draft, texts)
    draft.replace(file)
    return ring.current


def is_encrypted(stored: bytes) -> bool:
    return stored.startswith(_MARK)


def key_of(stored: bytes) -> str:
    """The id of the key that a value is encrypted with; '' if it is not encrypted."""
    if not is_encrypted(stored):
        return ""
    return stored[len(_MARK) : len(_MARK) + _ID_LETTERS].decode(errors="replace")


def _read(file: Path) -> list[str]:
    try:
        text = file.read_text()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise EncryptionError(f"the encryption key {file} cannot be read: {error}") from None
    if file.stat().st_mode & 0o077:
        raise EncryptionError(f"the encryption key {file} can be read by other users: run `chmod 600 {file}`")
    found = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not found:
        raise EncryptionError(f"the encryption key {file} is empty: restore it from a backup")
    return found


def _write_new(file: Path, texts: list[str]) -> None:
    """Creates the file with mode 600, as a whole. Does nothing if it exists."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = file.with_name(f".{file.name}.{secrets.token_hex(6)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write("".join(f"{text}\n" for text in texts))
            out.flush()
            os.fsync(out.fileno())
        try:
            os.link(draft, file)
        except FileExistsError:
            return
        folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        draft.unlink(missing_ok=True)
