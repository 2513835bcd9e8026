"""Artifacts in object stores: S3 and compatible stores, OSS, GCS and Azure. A key may also be a folder of keys."""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

import aiohttp

from muster.kube.beneath import Folder
from muster.workflows.artifacts.locations import (
    ArtifactError,
    ArtifactMissing,
    ArtifactUnreachable,
    Location,
    key_of,
    kind_of,
)
from muster.workflows.artifacts.stores import SecretOf, StoreAccess, check_keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from obstore.store import ClientConfig, GCSConfig, ObjectStore, RetryConfig, S3Config, S3Store

_AMAZON = "amazonaws.com"
_REGION = "us-east-1"
_PATIENCE = timedelta(seconds=30)
_RETRIES = 3
_CHUNK = 1 << 20
_REFUSED = {
    "s3": {"roleARN": "set accessKeySecret, secretKeySecret and sessionTokenSecret to the role's own keys"},
    "oss": {"lifecycleRule": "set it on the bucket itself"},
}


_BUCKET_TIMEOUT = aiohttp.ClientTimeout(total=60)
_BUCKET_IN_REGION = (
    "<CreateBucketConfiguration><LocationConstraint>{region}</LocationConstraint></CreateBucketConfiguration>"
)
_ALREADY_THERE = re.compile("BucketAlreadyOwnedByYou|BucketAlreadyExists")


class ObjectArtifactStore:
    def __init__(self, secret_of: SecretOf, access: StoreAccess = StoreAccess()) -> None:  # noqa: B008
        self._secret_of = secret_of
        self._access = access

    async def load(self, location: Location, target: Path) -> None:
        import obstore

        store, key = await self._open(location), key_of(location)
        with _translate_errors(location):
            if key.endswith("/"):  # a folder by its name; no object can have it
                await self._load_folder(store, key, target)
                return
            try:
                found = await obstore.get_async(store, key)
            except _not_there():
                await self._load_folder(store, key, target)
                return
            with target.open("wb") as file:
                async for block in found.stream(_CHUNK):
                    file.write(block)

    async def save(self, source: Path, location: Location) -> None:
        from obstore.store import S3Store

        store = await self._open(location)
        with _translate_errors(location):
            try:
                await _put(store, source, key_of(location))
            except _not_there():
                settings: Mapping[str, Any] = location.get("s3") or {}
                if not isinstance(store, S3Store) or settings.get("createBucketIfNotPresent") is None:
                    raise
                await self._create_bucket(store, settings)
                await _put(store, source, key_of(location))

    async def delete(self, location: Location) -> None:
        import obstore

        store, key = await self._open(location), key_of(location)
        with _translate_errors(location):
            keys = [*([] if key.endswith("/") else [key]), *await _below(store, key)]
            if not keys:
                return
            try:
                await obstore.delete_async(store, keys)
            except _not_there():
                return

    async def keys(self, location: Location) -> list[str]:
        with _translate_errors(location):
            return await _below(await self._open(location), key_of(location))

    async def read(self, location: Location) -> AsyncIterator[bytes]:
        import obstore

        store, key = await self._open(location), key_of(location)
        with _translate_errors(location):
            found = await obstore.get_async(store, key)
            async for block in found.stream(_CHUNK):
                yield bytes(block)

    async def _load_folder(self, store: ObjectStore, key: str, target: Path) -> None:
        import obstore

        keys = await _below(store, key)
        if not keys:
            raise ArtifactMissing(f'there is no object "{key}" and none below it')
        with Folder.at(target, create=True) as folder:
            for found in keys:
                *above, name = PurePosixPath(found).relative_to(key.strip("/")).parts
                try:
                    with folder.make_folders(_checked(above, found)) as place, place.create(name, 0o644) as file:
                        async for block in (await obstore.get_async(store, found)).stream(_CHUNK):
                            file.write(block)
                except (FileExistsError, NotADirectoryError):
                    raise ArtifactError(f'"{found}" is an object and the folder of other objects') from None

    async def _create_bucket(self, store: S3Store, settings: Mapping[str, Any]) -> None:
        """Raises ArtifactError or ArtifactUnreachable."""
        import obstore

        if settings["createBucketIfNotPresent"].get("objectLocking"):
            raise ArtifactError("s3.createBucketIfNotPresent.objectLocking is not supported here: create the bucket")
        # The address of the bucket itself. Only this request uses the signature in it.
        url = await obstore.sign_async(store, "PUT", "", _PATIENCE)
        region = str(settings.get("region") or _REGION)
        body = "" if region == _REGION else _BUCKET_IN_REGION.format(region=escape(region))
        context: ssl.SSLContext | bool = True
        if settings.get("caSecret"):
            context = ssl.create_default_context(cadata=await self._secret_of(settings["caSecret"]))
        is_own = not self._access.for_member
        try:
            async with (
                aiohttp.ClientSession(trust_env=is_own, timeout=_BUCKET_TIMEOUT) as session,
                session.put(url, data=body, ssl=context, proxy=self._access.proxy or None) as response,
            ):
                problem = await response.text(errors="replace") if response.status >= 400 else ""
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ArtifactUnreachable(f'the bucket "{settings["bucket"]}": {type(error).__name__}') from None
        if problem and not _ALREADY_THERE.search(problem):
            raise ArtifactError(f'the bucket "{settings["bucket"]}" cannot be created: {_error_code(problem)}')

    async def _open(self, location: Location) -> ObjectStore:
        kind = kind_of(location)
        settings: Mapping[str, Any] = location[kind]
        for field, instead in _REFUSED.get(kind, {}).items():
            if settings.get(field):
                raise ArtifactError(f"{kind}.{field} is not supported here: {instead}")
        with _translate_errors(location):
            if kind == "s3":
                return await self._s3(settings)
            if kind == "oss":
                return await self._oss(settings)
            return await (self._gcs(settings) if kind == "gcs" else self._azure(settings))

    async def _s3(self, settings: Mapping[str, Any]) -> ObjectStore:
        from obstore.store import S3Store

        endpoint = str(settings.get("endpoint") or "")
        config: S3Config = {"region": str(settings.get("region") or _REGION)}
        options = self._client(insecure=bool(settings.get("insecure")))
        if endpoint and not endpoint.endswith(_AMAZON):
            config["endpoint"] = _url(endpoint, bool(settings.get("insecure")))
        config.update(await self._keys(settings))
        config.update(await self._encryption(settings.get("encryptionOptions") or {}))
        if settings.get("caSecret"):
            options["root_certificate"] = await self._secret_of(settings["caSecret"])
        return S3Store(str(settings["bucket"]), config=config, client_options=options, retry_config=_retries())

    async def _oss(self, settings: Mapping[str, Any]) -> ObjectStore:
        """OSS supports the S3 protocol if the bucket is part of the host name."""
        from obstore.store import S3Store

        bucket, host = str(settings["bucket"]), urlsplit(_url(str(settings["endpoint"]), False)).netloc
        config: S3Config = {
            "region": _REGION,
            "endpoint": f"https://{bucket}.{host}",
            "virtual_hosted_style_request": True,
        }
        config.update(await self._keys(settings))
        if settings.get("securityToken"):
            config["session_token"] = str(settings["securityToken"])
        return S3Store(bucket, config=config, client_options=self._client(insecure=False), retry_config=_retries())

    async def _gcs(self, settings: Mapping[str, Any]) -> ObjectStore:
        from obstore.store import GCSStore

        secret = settings.get("serviceAccountKeySecret")
        options = self._client(insecure=False)
        config: GCSConfig = {"skip_signature": True} if self._access.for_member else {}
        if secret:
            config = {"service_account_key": await self._secret_of(secret)}
        return GCSStore(str(settings["bucket"]), config=config, client_options=options, retry_config=_retries())

    async def _azure(self, settings: Mapping[str, Any]) -> ObjectStore:
        from obstore.store import AzureStore

        endpoint = urlsplit(str(settings["endpoint"]))
        is_own_host = endpoint.netloc.endswith(".blob.core.windows.net")
        account = endpoint.netloc.partition(".")[0] if is_own_host else endpoint.path.strip("/").partition("/")[0]
        options = self._client(insecure=endpoint.scheme == "http")
        secret = settings.get("accountKeySecret")
        key = await self._secret_of(secret) if secret else ""
        return AzureStore(
            str(settings["container"]),
            config={
                "account_name": account,
                **({"account_key": key} if key else {"skip_signature": True} if self._access.for_member else {}),
                **({} if is_own_host else {"endpoint": str(settings["endpoint"])}),
            },
            client_options=options,
            retry_config=_retries(),
        )

    def _client(self, *, insecure: bool) -> ClientConfig:
        options: ClientConfig = {
            "allow_http": insecure, "timeout": timedelta(hours=1), "connect_timeout": timedelta(seconds=10),
        }  # fmt: skip
        if self._access.proxy:
            options["proxy_url"] = self._access.proxy
        return options

    async def _keys(self, settings: Mapping[str, Any]) -> S3Config:
        """Without credentials in the location, those of the environment or the cloud are used; for a member, none."""
        access, secret = settings.get("accessKeySecret"), settings.get("secretKeySecret")
        if settings.get("useSDKCreds") or not access or not secret:
            return {"skip_signature": True} if self._access.for_member else {}
        keys: S3Config = {
            "access_key_id": (await self._secret_of(access)).strip(),
            "secret_access_key": (await self._secret_of(secret)).strip(),
        }
        if settings.get("sessionTokenSecret"):
            keys["session_token"] = (await self._secret_of(settings["sessionTokenSecret"])).strip()
        return keys

    async def _encryption(self, options: Mapping[str, Any]) -> S3Config:
        if not options.get("enableEncryption"):
            return {}
        if options.get("kmsEncryptionContext"):
            raise ArtifactError("s3.encryptionOptions.kmsEncryptionContext is not supported here: set it on the bucket")
        if options.get("serverSideCustomerKeySecret"):
            key = (await self._secret_of(options["serverSideCustomerKeySecret"])).encode("utf-8", "surrogateescape")
            return {"server_side_encryption": "sse-c", "sse_customer_key_base64": base64.b64encode(key).decode()}
        if options.get("kmsKeyId"):
            return {"server_side_encryption": "aws:kms", "sse_kms_key_id": str(options["kmsKeyId"])}
        return {"server_side_encryption": "AES256"}


async def _put(store: ObjectStore, source: Path, key: str) -> None:
    import obstore

    with Folder.at(source.parent) as beside:
        inside = [""]
        if beside.kind(source.name) == "folder":
            inside = [f"/{entry.name}" for entry in beside.walk(source.name) if entry.kind == "file"]
        for each in inside:
            with beside.file(f"{source.name}{each}") as file:
                await obstore.put_async(store, f"{key.rstrip('/')}{each}", file)


def _checked(parts: Sequence[str], key: str) -> Sequence[str]:
    if ".." in parts:
        raise ArtifactError(f'the object "{key}" leaves the artifact')
    return parts


async def _below(store: ObjectStore, key: str) -> list[str]:
    import obstore

    found: list[str] = []
    stream = obstore.list(store, prefix=key.rstrip("/") or None)
    async for page in stream:
        found += [str(entry["path"]) for entry in page]
        check_keys(found)
    return sorted(found)


def _not_there() -> tuple[type[BaseException], ...]:
    from obstore.exceptions import NotFoundError

    return (NotFoundError, FileNotFoundError)


def _retries() -> RetryConfig:
    return {"max_retries": _RETRIES, "retry_timeout": _PATIENCE}


def _url(endpoint: str, insecure: bool) -> str:
    if "://" in endpoint:
        return endpoint.rstrip("/")
    return f"{'http' if insecure else 'https'}://{endpoint}"


@contextmanager
def _translate_errors(location: Location) -> Iterator[None]:
    """Shortens the store's error, which is long and describes the request."""
    from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

    kind = kind_of(location)
    bucket = location[kind].get("bucket") or location[kind].get("container") or ""
    where = f'{kind} "{bucket}", key "{key_of(location)}"'
    try:
        yield
    except _not_there():
        wants_bucket = kind != "s3" and location[kind].get("createBucketIfNotPresent")
        hint = "; buckets are not created here: create it first" if wants_bucket else ""
        raise ArtifactMissing(f"{where}: nothing is there{hint}") from None
    except (PermissionDeniedError, UnauthenticatedError, PermissionError):
        raise ArtifactError(f"{where}: access denied; check the keys in the Secrets") from None
    except BaseError as error:
        raise ArtifactUnreachable(f"{where}: {_short(str(error))}") from None
    except ValueError as error:
        raise ArtifactError(f"{where}: {_short(str(error))}") from None


def _error_code(answer: str) -> str:
    """The code in an error of S3, which is XML; the rest may repeat what was sent."""
    found = re.search(r"<Code>([A-Za-z0-9]{1,100})</Code>", answer)
    return found[1] if found else "the store gave no reason"


def _short(text: str) -> str:
    lines: Sequence[str] = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:300] if lines else "no reason given"
