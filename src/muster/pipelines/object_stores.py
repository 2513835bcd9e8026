"""The object stores of a namespace: where pipelines keep artifacts, and whose private objects they can import. Pure.

As in Kubeflow Pipelines, the ConfigMap `kfp-launcher` of the namespace names them:

    data:
      defaultPipelineRoot: s3://models/pipelines
      providers: |
        s3:
          default:
            endpoint: s3.eu-central-1.amazonaws.com
            region: eu-central-1
            credentials: {fromEnv: false, secretRef: {secretName: s3, accessKeyKey: user, secretKeyKey: password}}
          overrides:
            - {bucketName: others, keyPrefix: data, endpoint: ..., credentials: ...}

The credentials are in Secrets of the same namespace. They never are in a Workflow: it has the names of the Secrets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster.kube.errors import Cause
from muster.kube.manifests import ManifestError, parse_setting
from muster.pipelines.spec import PipelineError

CONFIG_MAP: Final = "kfp-launcher"
ROOT_KEY: Final = "defaultPipelineRoot"
_PROVIDERS: Final = "providers"
_AMAZON: Final = "s3.amazonaws.com"
_SCHEMES: Final = ("s3", "minio", "gs")


@dataclass(frozen=True, slots=True)
class ObjectStore:
    scheme: str
    """`s3`, `minio` or `gs`."""
    settings: Mapping[str, Any]
    """The location of Argo without bucket and key."""
    bucket: str = ""
    """'' for all."""
    prefix: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"scheme": self.scheme, "settings": dict(self.settings), "bucket": self.bucket, "prefix": self.prefix}


@dataclass(frozen=True, slots=True)
class ObjectStores:
    """The first that fits counts."""

    stores: tuple[ObjectStore, ...] = ()

    def location_of(self, uri: str) -> dict[str, Any]:
        """Returns the location of a uri, or {} if there are no credentials for it."""
        scheme, _, rest = uri.partition("://")
        bucket, _, key = rest.partition("/")
        if not bucket or not key.strip("/"):
            return {}
        for store in self.stores:
            fits = store.scheme == scheme and store.bucket in ("", bucket)
            if fits and (not store.prefix or key == store.prefix or key.startswith(f"{store.prefix}/")):
                return {"gcs" if scheme == "gs" else "s3": {**store.settings, "bucket": bucket, "key": key.strip("/")}}
        return {}

    def to_json(self) -> list[dict[str, Any]]:
        return [store.to_json() for store in self.stores]

    @staticmethod
    def from_json(value: Any) -> ObjectStores:
        """What is not of this form counts as nothing: anyone who may write Workflows can write it."""
        found = []
        for each in value if isinstance(value, list) else ():
            if isinstance(each, dict) and isinstance(each.get("settings"), dict):
                texts = (str(each.get(name) or "") for name in ("bucket", "prefix"))
                found.append(ObjectStore(str(each.get("scheme") or ""), each["settings"], *texts))
        return ObjectStores(tuple(found))


NO_STORES: Final = ObjectStores()


def read_object_stores(launcher: Mapping[str, Any]) -> ObjectStores:
    """Reads the data of the ConfigMap. Raises PipelineError."""
    text = str(launcher.get(_PROVIDERS) or "")
    try:
        providers = parse_setting(text, _PROVIDERS) or {}
    except ManifestError as error:
        raise _error("", f"cannot be read: {error}") from None
    found = list[ObjectStore]()
    for scheme, provider in _mapping(providers, "").items():
        if scheme not in _SCHEMES:
            raise _error(str(scheme)[:100], "is not a store that can be used here: use s3, minio or gs")
        found += _read_provider(scheme, _mapping(provider, scheme))
    return ObjectStores(tuple(found))


def _read_provider(scheme: str, provider: Mapping[str, Any]) -> Iterator[ObjectStore]:
    default = _mapping(provider.get("default"), f"{scheme}.default")
    overrides = provider.get("overrides") or provider.get("Overrides") or []
    if not isinstance(overrides, list):
        raise _error(f"{scheme}.overrides", "must be a list")
    for number, each in enumerate(overrides):
        path = f"{scheme}.overrides[{number}]"
        override = _mapping(each, path)
        settings = _settings(scheme, {**default, **override}, path)
        prefix = str(override.get("keyPrefix") or "").strip("/")
        yield ObjectStore(scheme, settings, str(override.get("bucketName") or ""), prefix)
    if default:
        yield ObjectStore(scheme, _settings(scheme, default, f"{scheme}.default"))


def _settings(scheme: str, given: Mapping[str, Any], path: str) -> dict[str, Any]:
    credentials = _mapping(given.get("credentials"), f"{path}.credentials")
    if credentials.get("fromEnv"):
        raise _error(f"{path}.credentials.fromEnv", "is not possible here: name a Secret of the namespace in secretRef")
    secret = _mapping(credentials.get("secretRef"), f"{path}.credentials.secretRef")

    def selector(field: str) -> dict[str, str]:
        if not secret.get("secretName") or not secret.get(field):
            raise _error(f"{path}.credentials.secretRef", f"needs secretName and {field}")
        return {"name": str(secret["secretName"]), "key": str(secret[field])}

    if scheme == "gs":
        return {"serviceAccountKeySecret": selector("tokenKey")}
    endpoint = str(given.get("endpoint") or (_AMAZON if scheme == "s3" else ""))
    if not endpoint:
        raise _error(f"{path}.endpoint", "is missing")
    bare = endpoint.removeprefix("https://").removeprefix("http://").rstrip("/")
    settings = {
        "endpoint": bare,
        "insecure": given.get("disableSSL") is True or endpoint.startswith("http://"),
        "accessKeySecret": selector("accessKeyKey"),
        "secretKeySecret": selector("secretKeyKey"),
    }
    return {**settings, "region": str(given["region"])} if given.get("region") else settings


def _mapping(value: Any, path: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _error(path, "must be an object")
    return value


def _error(path: str, message: str) -> PipelineError:
    where = ".".join(part for part in (_PROVIDERS, path) if part)
    return PipelineError([Cause("", f"ConfigMap {CONFIG_MAP}: {where} {message}")])
