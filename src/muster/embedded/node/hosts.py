"""Names and addresses: each Pod has a loopback address, and one hosts file per namespace resolves names.

All of 127.0.0.0/8 is local, so an address per Pod costs nothing. The file is bind-mounted into every Pod of the
namespace, which pins its inode: it is changed in place, never replaced. A new Pod appends one line. The file is
rewritten only if Services change or too many of its lines belong to deleted Pods.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from muster.kube.file_names import path_component
from muster.kube.objects import Object, labels_of, name_of, namespace_of, spec_of, uid_of

LOCALHOST = "127.0.0.1"
DOMAIN = "svc.cluster.local"

_FIRST, _LAST = (127 << 24) + (1 << 16) + 1, (127 << 24) + (255 << 16) + (255 << 8) + 254
_HEADER = "# Written by the node agent.\n127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
_STALE = 64


class AddressPool:
    """Allocates loopback addresses in turn, so that an address that was just released is reused last."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next = _FIRST

    def allocate(self) -> str:
        while True:
            number = self._next
            self._next = number + 1 if number < _LAST else _FIRST
            address = f"127.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
            if number & 255 not in (0, 255) and address not in self._taken:
                self._taken.add(address)
                return address

    def reserve(self, address: str) -> None:
        """Marks an address that was allocated before the server restarted."""
        self._taken.add(address)
        parts = [int(part) for part in address.split(".")]
        number = (parts[0] << 24) + (parts[1] << 16) + (parts[2] << 8) + parts[3]
        if _FIRST <= number <= _LAST:
            self._next = max(self._next, number + 1 if number < _LAST else _FIRST)

    def release(self, address: str) -> None:
        self._taken.discard(address)


@dataclass(frozen=True, slots=True)
class PodHost:
    """The name, address and labels of a Pod."""

    uid: str
    namespace: str
    name: str
    hostname: str
    subdomain: str
    address: str
    labels: Mapping[str, str] = field(hash=False)
    aliases: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @classmethod
    def of(cls, pod: Object, address: str) -> PodHost:
        spec = spec_of(pod)
        aliases = tuple((a["ip"], tuple(a.get("hostnames") or ())) for a in spec.get("hostAliases") or ())
        subdomain = str(spec.get("subdomain") or "")
        return cls(
            uid_of(pod), namespace_of(pod), name_of(pod), hostname_of(pod), subdomain, address, labels_of(pod), aliases
        )


def hostname_of(pod: Object) -> str:
    return str(spec_of(pod).get("hostname") or name_of(pod)[:63].rstrip("-."))


def pod_line(pod: PodHost) -> str:
    names = [pod.hostname] if pod.hostname == pod.name else [pod.hostname, pod.name]
    if pod.subdomain:
        names = [*_qualified_names(f"{pod.hostname}.{pod.subdomain}", pod.namespace), *names]
    return f"{pod.address} {' '.join(names)}\n"


def service_names(service: Object, namespace: str) -> list[str]:
    """Returns the names by which a Pod of `namespace` can reach a Service."""
    forms = _qualified_names(name_of(service), namespace_of(service))
    return forms if namespace_of(service) == namespace else forms[:-1]


def service_lines(services: Iterable[tuple[Object, list[str]]], namespace: str) -> str:
    """Returns the lines for Pods of `namespace`. `services` come with the addresses of the Pods they select."""
    lines: list[str] = []
    for service, addresses in services:
        names = " ".join(service_names(service, namespace))
        lines.extend(f"{address} {names}\n" for address in addresses)
    return "".join(lines)


def render_hosts(
    namespace: str, pods: Iterable[PodHost], services: Iterable[tuple[Object, list[str]]], others: str = ""
) -> str:
    """Returns the hosts file of a namespace: its Services, the lines in `others`, its Pods. Services come first: in
    Kubernetes a Pod's plain name does not resolve, so it must not hide a Service of the same name."""
    return "".join([_HEADER, service_lines(services, namespace), others, *map(pod_line, pods)])


def alias_lines(pod: PodHost) -> str:
    return "".join(f"{ip} {' '.join(names)}\n" for ip, names in pod.aliases)


class HostsFiles:
    """The files of all namespaces. `schedule` is called when `flush` should be called soon."""

    def __init__(self, folder: Path, schedule: Callable[[], None]) -> None:
        self._folder = folder
        self._schedule = schedule
        self._namespaces: dict[str, _Namespace] = {}
        self._services: dict[tuple[str, str], Object] = {}
        self._pods: dict[str, PodHost] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, pod: PodHost) -> str:
        """Adds a Pod and returns the file to mount at its /etc/hosts. The file already contains the Pod's own name."""
        known = self._pods.get(pod.uid)
        space = self._namespace(pod.namespace)
        if known != pod:
            if known is not None:
                space.remove(known)
            self._pods[pod.uid] = pod
            space.add(pod)
            if self._services or space.outdated:
                self._outdated(pod.namespace)
        return space.file_for(pod)

    def remove(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        space = self._namespace(pod.namespace)
        space.remove(pod)
        if self._services or space.outdated:
            self._outdated(pod.namespace)

    def set_service(self, service: Object) -> None:
        key = (namespace_of(service), name_of(service))
        before = self._services.get(key)
        self._services[key] = service
        if before is None or _routing(before) != _routing(service):
            self._outdated(key[0])

    def remove_service(self, namespace: str, name: str) -> None:
        if self._services.pop((namespace, name), None) is not None:
            self._outdated(namespace)

    def flush(self) -> None:
        """Writes the files that have changed."""
        if not any(space.outdated for space in self._namespaces.values()):
            return
        selected: dict[str, list[tuple[Object, list[str]]]] = {}
        for service in self._services.values():
            selected.setdefault(namespace_of(service), []).append((service, self._selected(service)))
        afar = {namespace: service_lines(found, "") for namespace, found in selected.items()}
        for name, space in self._namespaces.items():
            if space.outdated:
                others = "".join(lines for namespace, lines in afar.items() if namespace != name)
                space.write(render_hosts(name, space.pods.values(), selected.get(name, ()), others))

    def _namespace(self, name: str) -> _Namespace:
        space = self._namespaces.get(name)
        if space is None:
            space = self._namespaces[name] = _Namespace(str(self._folder / path_component(name)))
            if space.outdated or self._services:
                self._outdated(name)
        return space

    def _outdated(self, namespace: str) -> None:
        """Every namespace knows every Service, so a change of one outdates all files."""
        spaces = self._namespaces.values() if self._services else [self._namespace(namespace)]
        for space in spaces:
            space.outdated = True
        self._schedule()

    def _selected(self, service: Object) -> list[str]:
        selector: Mapping[str, str] = spec_of(service).get("selector") or {}
        if not selector:
            return []
        space = self._namespaces.get(namespace_of(service))
        return space.select(selector) if space is not None else []


class _Namespace:
    def __init__(self, path: str) -> None:
        self.pods: dict[str, PodHost] = {}
        self._path = path
        self._text = _read(path)
        self.outdated = bool(self._text)
        """A file from before a server restart stays as it is until all Pods are known again."""
        if not self._text:
            self._text = bytearray(_HEADER.encode())
            _overwrite(path, self._text)
        self._names: dict[str, str] = {}
        self._stale = 0
        self._by_label: dict[tuple[str, str], dict[str, PodHost]] = {}
        self._private: dict[str, PodHost] = {}

    def add(self, pod: PodHost) -> None:
        self.pods[pod.uid] = pod
        for pair in pod.labels.items():
            self._by_label.setdefault(pair, {})[pod.uid] = pod
        if pod.aliases:
            self._private[pod.uid] = pod
        if self._names.get(pod.hostname, pod.address) != pod.address:
            # A new Pod with the name of an old one: the old line would win.
            self.outdated = True
        self._names[pod.hostname] = pod.address
        line = pod_line(pod).encode()
        self._text += line  # in place, because it is a bytearray
        with open(self._path, "ab", buffering=0) as file:
            file.write(line)
        if pod.aliases:
            self._write_private(pod)

    def remove(self, pod: PodHost) -> None:
        self.pods.pop(pod.uid, None)
        for pair in pod.labels.items():
            filed = self._by_label.get(pair)
            if filed is not None:
                filed.pop(pod.uid, None)
                if not filed:
                    del self._by_label[pair]
        if self._private.pop(pod.uid, None) is not None:
            with suppress(FileNotFoundError):
                os.unlink(self._private_path(pod))
        self._stale += 1
        if self._stale > _STALE and self._stale > len(self.pods):
            self.outdated = True

    def file_for(self, pod: PodHost) -> str:
        return self._private_path(pod) if pod.aliases else self._path

    def select(self, selector: Mapping[str, str]) -> list[str]:
        candidates = min((self._by_label.get(pair, {}) for pair in selector.items()), key=len)
        wanted = selector.items()
        return [pod.address for pod in candidates.values() if wanted <= pod.labels.items()]

    def write(self, text: str) -> None:
        self.outdated, self._stale = False, 0
        self._names = {pod.hostname: pod.address for pod in self.pods.values()}
        content = text.encode()
        if content != self._text or not os.path.exists(self._path):
            _overwrite(self._path, content)
            self._text = bytearray(content)
            for pod in self._private.values():
                self._write_private(pod)

    def _private_path(self, pod: PodHost) -> str:
        return f"{self._path}.{pod.uid}"

    def _write_private(self, pod: PodHost) -> None:
        _overwrite(self._private_path(pod), alias_lines(pod).encode() + self._text)


def _read(path: str) -> bytearray:
    try:
        with open(path, "rb") as file:
            return bytearray(file.read())
    except FileNotFoundError:
        return bytearray()


def _overwrite(path: str, content: bytes | bytearray) -> None:
    """Writes in place. Surplus old content is turned into a comment before it is cut off, so that a concurrent reader
    never sees half of an old line."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        surplus = os.fstat(descriptor).st_size - len(content)
        os.pwrite(descriptor, content + b"#" * max(surplus, 0), 0)
        os.ftruncate(descriptor, len(content))
    finally:
        os.close(descriptor)


def _qualified_names(name: str, namespace: str) -> list[str]:
    """The longest first: the first name of a line is the canonical one."""
    return [f"{name}.{namespace}.{DOMAIN}", f"{name}.{namespace}.svc", f"{name}.{namespace}", name]


def _routing(service: Object) -> tuple[Any, ...]:
    return (spec_of(service).get("selector"), spec_of(service).get("type"))
