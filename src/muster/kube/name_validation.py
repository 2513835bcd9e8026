"""The name syntaxes of Kubernetes (DNS labels, qualified names, ...), each with its explanation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from muster.kube.errors import Cause
from muster.kube.field_errors import invalid, required

DNS_LABEL_RULE = "use lower case letters, digits and '-', at most 63; it starts and ends with a letter or digit"
DNS_NAME_RULE = "use lower case letters, digits, '-' and '.', at most 253; it starts and ends with a letter or digit"
QUALIFIED_RULE = (
    "a name has at most 63 letters, digits, '-', '_', '.', with a letter or digit at either end, and may have a "
    "prefix in lower case that is a DNS name, as in example.com/name"
)
LABEL_VALUE_RULE = "a label's value has at most 63 letters, digits, '-', '_', '.', and a letter or digit at either end"
PORT_NAME_RULE = "use at most 15 lower case letters, digits and single '-', at least one of them a letter"
ENV_NAME_RULE = "use printable ASCII characters other than '='"
FILE_KEY_RULE = "use at most 253 letters, digits, '-', '_' and '.', but not '.' or '..' or a name that begins with '..'"

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_NAME_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PORT_NAME = re.compile(r"(?=[-0-9]*[a-z])[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?")
_ENV_NAME = re.compile(r"[ -<>-~]+")
_FILE_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")


@lru_cache(maxsize=8192)
def is_dns_label(name: str) -> bool:
    return _DNS_LABEL.fullmatch(name) is not None


@lru_cache(maxsize=8192)
def is_dns_name(name: str) -> bool:
    return len(name) <= 253 and _DNS_NAME.fullmatch(name) is not None


@lru_cache(maxsize=8192)
def is_qualified_name(name: str) -> bool:
    """A label key, resource name or taint key: `app`, `nvidia.com/gpu`."""
    prefix, slash, rest = name.rpartition("/")
    return _NAME_PART.fullmatch(rest) is not None and (not slash or is_dns_name(prefix))


@lru_cache(maxsize=8192)
def is_label_value(value: str) -> bool:
    return _LABEL_VALUE.fullmatch(value) is not None


@lru_cache(maxsize=1024)
def is_port_name(name: str) -> bool:
    return "--" not in name and _PORT_NAME.fullmatch(name) is not None


@lru_cache(maxsize=8192)
def is_env_name(name: str) -> bool:
    return _ENV_NAME.fullmatch(name) is not None


@lru_cache(maxsize=8192)
def is_file_key(name: str) -> bool:
    """A key of a ConfigMap or Secret, which becomes a file name."""
    return _FILE_KEY.fullmatch(name) is not None and not name.startswith("..") and name != "."


def check_dns_label(field: str, name: str) -> Iterator[Cause]:
    if not name:
        yield required(field)
    elif not is_dns_label(name):
        yield invalid(field, name, DNS_LABEL_RULE)


def check_dns_name(field: str, name: str) -> Iterator[Cause]:
    if not name:
        yield required(field)
    elif not is_dns_name(name):
        yield invalid(field, name, DNS_NAME_RULE)


def check_labels(field: str, given: Mapping[str, Any] | None) -> Iterator[Cause]:
    for key, value in (given or {}).items():
        if not is_qualified_name(key):
            yield invalid(field, key, QUALIFIED_RULE)
        if not is_label_value(value):
            yield invalid(f"{field}[{key}]", value, LABEL_VALUE_RULE)
