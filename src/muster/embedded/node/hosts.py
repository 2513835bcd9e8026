"""Names and addresses: each Pod has a loopback address, and one hosts file per namespace resolves names.

All of 127.0.0.0/8 is local, so an address per Pod costs nothing. The file is bind-mounted into every Pod of the
namespace, which pins its inode: it is changed in place, never replaced. A new Pod appends one line. The file is
rewritten only if Services change or too many of its lines belong to deleted Pods.

The Pods of a namespace share its file, so a Pod gets only names that are its own: its name, and a hostname and
subdomain that no other Pod and no Service has. Names of localhost, of the API server and of public domains are not
given away. Services of restricted namespaces are known only there. A Service of an admin with the label WELL_KNOWN has
its plain name in every namespace, unless a Service there has it.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from muster.embedded.node.service_proxy import Backend, ServiceAddresses, build_table
from muster.kube.file_names import path_component
from muster.kube.objects import Key, Object, labels_of, meta, name_of, namespace_of, spec_of, uid_of
from muster.kube.pod_security import PREFIX

WELL_KNOWN = f"{PREFIX}well-known"
"""The label of a Service that Pods of all namespaces reach by its plain name."""
LOCALHOST = "127.0.0.1"
DOMAIN = "svc.cluster.local"

_FIRST, _LAST = (127 << 24) + (1 << 16) + 1, (127 << 24) + (255 << 16) + (255 << 8) + 254
_HEADER = "# Kubernetes-managed hosts file.\n127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
_FIRST_OF_SERVICES, _LAST_OF_SERVICES = (127 << 24) + (2 << 8) + 1, (127 << 24) + (255 << 8) + 254
"""Apart from those of Pods, which an agent knows again only when it has found the Pods of the one before."""
_STALE = 64
_LOCAL_NAMES = frozenset(("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback", "broadcasthost"))
_API_SERVICE = ("default", "kubernetes")
_PUBLIC_DOMAIN = re.compile(r"(?:.*\.)(?:[a-z]{2,}|xn--[a-z0-9-]+)\.?", re.IGNORECASE)
"""A name whose last part could be a top-level domain."""
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?", re.ASCII)


class AddressPool:
    """Allocates loopback addresses in turn, so that an address that was just released is reused last."""

    def __init__(self, first: int = _FIRST, last: int = _LAST) -> None:
        self._first, self._last = first, last
        self._taken: set[str] = set()
        self._next = first

    def allocate(self) -> str:
        while True:
            number = self._next
            self._next = number + 1 if number < self._last else self._first
            address = f"127.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
            if number & 255 not in (0, 255) and address not in self._taken:
                self._taken.add(address)
                return address

    def reserve(self, address: str) -> None:
        """Marks an address that was allocated before the server restarted."""
        self._taken.add(address)
        parts = [int(part) for part in address.split(".")]
        number = (parts[0] << 24) + (parts[1] << 16) + (parts[2] << 8) + parts[3]
        if self._first <= number <= self._last:
            self._next = max(self._next, number + 1 if number < self._last else self._first)

    def release(self, address: str) -> None:
        self._taken.discard(address)


def service_address_pool() -> AddressPool:
    return AddressPool(_FIRST_OF_SERVICES, _LAST_OF_SERVICES)


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
    controller: str = ""
    """The uid of the object that controls it."""
    ports: tuple[tuple[str, int], ...] = ()
    """Its named ports."""

    @classmethod
    def of(cls, pod: Object, address: str) -> PodHost:
        spec = spec_of(pod)
        return cls(
            uid_of(pod),
            namespace_of(pod),
            name_of(pod),
            hostname_of(pod),
            str(spec.get("subdomain") or ""),
            address,
            labels_of(pod),
            _read_aliases(spec.get("hostAliases") or ()),
            _controller_of(pod),
            tuple(
                (port["name"], int(port["containerPort"]))
                for container in spec.get("containers") or ()
                for port in container.get("ports") or ()
                if port.get("name")
            ),
        )

    @property
    def names(self) -> list[str]:
        """The names that it would like to have, the longest first."""
        names = [self.hostname] if self.hostname == self.name else [self.hostname, self.name]
        if self.subdomain:
            names = [*_qualified_names(f"{self.hostname}.{self.subdomain}", self.namespace), *names]
        return names


def hostname_of(pod: Object) -> str:
    return str(spec_of(pod).get("hostname") or name_of(pod)[:63].rstrip("-."))


def pod_line(pod: PodHost, names: Iterable[str]) -> str:
    text = " ".join(names)
    return f"{pod.address} {text}\n" if text else ""


def may_be_given(name: str, reserved: Collection[str] = ()) -> bool:
    """Whether a name may belong to a Pod: not if it has a meaning outside of the cluster, or for all of it."""
    if name in reserved or name in _LOCAL_NAMES or not _HOST.fullmatch(name):
        return False
    return tuple(reversed(name.split(".")[:2])) != _API_SERVICE


def is_public(name: str) -> bool:
    """Whether a name could be that of a host on the internet."""
    return not name.endswith((f".{DOMAIN}", ".svc")) and bool(_PUBLIC_DOMAIN.fullmatch(name))


def is_selected(pod: PodHost, service: Object) -> bool:
    selector: Mapping[str, str] = spec_of(service).get("selector") or {}
    return bool(selector) and pod.namespace == namespace_of(service) and selector.items() <= pod.labels.items()


def service_names(service: Object, namespace: str) -> list[str]:
    """Returns the names by which a Pod of `namespace` can reach a Service."""
    forms = _qualified_names(name_of(service), namespace_of(service))
    own = namespace_of(service) == namespace or WELL_KNOWN in labels_of(service)
    return forms if own and forms[-1] not in _LOCAL_NAMES else forms[:-1]


def service_lines(services: Iterable[tuple[Object, list[str]]], namespace: str) -> str:
    """Returns the lines for Pods of `namespace`. `services` come with the addresses of the Pods they select."""
    lines: list[str] = []
    for service, addresses in services:
        names = " ".join(service_names(service, namespace))
        lines.extend(f"{address} {names}\n" for address in addresses)
    return "".join(lines)


def render_hosts(
    namespace: str, pods: Iterable[str], services: Iterable[tuple[Object, list[str]]], others: str = ""
) -> str:
    """Returns the hosts file of a namespace: its Services, the lines in `others`, the lines of its Pods. Services come
    first: in Kubernetes a Pod's plain name does not resolve, so it must not hide a Service of the same name."""
    return "".join([_HEADER, service_lines(services, namespace), others, *pods])


def alias_lines(pod: PodHost) -> str:
    """Returns the lines for `hostAliases`, under the heading and in the form that a kubelet gives them."""
    lines = ["\t".join((ip, *names)) + "\n" for ip, names in pod.aliases]
    return "".join(["\n# Entries added by HostAliases.\n", *lines]) if lines else ""


class HostsFiles:
    """The files of all namespaces. `schedule` is called when `flush` should be called soon."""

    def __init__(
        self,
        folder: Path,
        schedule: Callable[[], None],
        *,
        is_restricted: Callable[[str], bool] = lambda _namespace: False,
        reserved: Iterable[str] = (),
        addresses: ServiceAddresses | None = None,
    ) -> None:
        """`is_restricted` says whether a namespace belongs to people who are not admins. No Pod gets a name in
        `reserved`. `addresses` are those of Services whose ports have to be forwarded."""
        self._addresses = addresses
        self._folder = folder
        self._schedule = schedule
        self._is_restricted = is_restricted
        self._reserved = frozenset(reserved)
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
            space.add(pod, [name for name in pod.names if self._may_have(pod, name)])
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
        if key == _API_SERVICE:
            return  # It selects no Pods. As long as there is no other Service, a new Pod is one line in a file.
        before = self._services.get(key)
        self._services[key] = service
        if self._addresses is not None:
            self._addresses.set_service(service, restricted=self._is_restricted(key[0]))
        if before is None or _routing(before) != _routing(service):
            self._outdated(key[0])

    def remove_service(self, namespace: str, name: str) -> None:
        if self._services.pop((namespace, name), None) is not None:
            if self._addresses is not None:
                self._addresses.remove_service(Key(namespace, name))
            self._outdated(namespace)

    def flush(self) -> None:
        """Writes the files that have changed."""
        if not any(space.outdated for space in self._namespaces.values()):
            return
        selected: dict[str, list[tuple[Object, list[str]]]] = {}
        forwarded: list[tuple[Object, str, list[Backend]]] = []
        for service in self._services.values():
            address = self._addresses.address_of(service) if self._addresses is not None else ""
            if address:
                pods_behind = [Backend(pod.address, dict(pod.ports)) for pod in self._selected_pods(service)]
                forwarded.append((service, address, pods_behind))
            led_to = [address] if address else self._selected(service)
            selected.setdefault(namespace_of(service), []).append((service, led_to))
        if self._addresses is not None:
            self._addresses.forward(build_table(forwarded))
        afar = {
            namespace: service_lines(found, "")
            for namespace, found in selected.items()
            if not self._is_restricted(namespace)
        }
        for name, space in self._namespaces.items():
            if space.outdated:
                others = "".join(lines for namespace, lines in afar.items() if namespace != name)
                pods = space.assign_names(self._may_have)
                space.write(render_hosts(name, pods, selected.get(name, ()), others))

    def _may_have(self, pod: PodHost, name: str) -> bool:
        """Whether no Service has the name, except one that leads to this Pod, and it is not a public one. As in
        Kubernetes, the Service of a subdomain makes it a domain of the namespace."""
        if not may_be_given(name, self._reserved):
            return False
        if is_public(name):
            domain = self._services.get((pod.namespace, pod.subdomain))
            if domain is None or name == pod.name or not is_selected(pod, domain):
                return False
        first, _, rest = name.partition(".")
        service = self._services.get((rest.partition(".")[0] or pod.namespace, first))
        return service is None or is_selected(pod, service)

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
        """Returns the addresses of the Pods behind a Service; for one without a selector, its cluster IP. If an object
        controls the Service and some of these Pods, as a training job does, the others only have the same labels."""
        selector: Mapping[str, str] = spec_of(service).get("selector") or {}
        if not selector:
            return _cluster_address(service)
        return [pod.address for pod in self._selected_pods(service)]

    def _selected_pods(self, service: Object) -> list[PodHost]:
        space = self._namespaces.get(namespace_of(service))
        if space is None:
            return []
        pods = space.select(spec_of(service)["selector"])
        controller = _controller_of(service)
        own = [pod for pod in pods if pod.controller == controller] if controller else []
        return own or pods


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
        """The names in the file, with their addresses."""
        self._owners: dict[str, str] = {}
        """The names of Pods, with their uids."""
        self._stale = 0
        self._by_label: dict[tuple[str, str], dict[str, PodHost]] = {}
        self._private: dict[str, PodHost] = {}

    def add(self, pod: PodHost, wanted: Iterable[str]) -> None:
        """`wanted` are the names that it may have as far as Services are concerned."""
        self.pods[pod.uid] = pod
        for pair in pod.labels.items():
            self._by_label.setdefault(pair, {})[pod.uid] = pod
        if pod.aliases:
            self._private[pod.uid] = pod
        if self._owners.get(pod.name, pod.uid) != pod.uid:
            self.outdated = True  # Another Pod calls itself by this one's name, and has to give it up.
        self._owners[pod.name] = pod.uid
        names = self._take(pod, wanted)
        if any(self._names.get(name, pod.address) != pod.address for name in names):
            # A new Pod with the name of an old one: the old line would win.
            self.outdated = True
        self._names.update(dict.fromkeys(names, pod.address))
        line = pod_line(pod, names).encode()
        self._text += line  # in place, because it is a bytearray
        with open(self._path, "ab", buffering=0) as file:
            file.write(line)
        if pod.aliases:
            self._write_private(pod)

    def _take(self, pod: PodHost, wanted: Iterable[str]) -> list[str]:
        """The first Pod that asks for a name has it."""
        return [name for name in wanted if self._owners.setdefault(name, pod.uid) == pod.uid]

    def assign_names(self, may_have: Callable[[PodHost, str], bool]) -> list[str]:
        """Returns the lines of all Pods. A Pod's own name comes before the hostname of another."""
        self._owners = {pod.name: pod.uid for pod in self.pods.values()}
        self._names = {}
        lines = []
        for pod in self.pods.values():
            names = self._take(pod, [name for name in pod.names if may_have(pod, name)])
            self._names.update(dict.fromkeys(names, pod.address))
            lines.append(pod_line(pod, names))
        return lines

    def remove(self, pod: PodHost) -> None:
        self.pods.pop(pod.uid, None)
        for name in pod.names:
            if self._owners.get(name) == pod.uid:
                del self._owners[name]
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

    def select(self, selector: Mapping[str, str]) -> list[PodHost]:
        candidates = min((self._by_label.get(pair, {}) for pair in selector.items()), key=len)
        wanted = selector.items()
        return [pod for pod in candidates.values() if wanted <= pod.labels.items()]

    def write(self, text: str) -> None:
        self.outdated, self._stale = False, 0
        content = text.encode()
        if content != self._text or not os.path.exists(self._path):
            _overwrite(self._path, content)
            self._text = bytearray(content)
            for pod in self._private.values():
                self._write_private(pod)

    def _private_path(self, pod: PodHost) -> str:
        return f"{self._path}.{pod.uid}"

    def _write_private(self, pod: PodHost) -> None:
        """Aliases come before the names of the cluster, as the hosts file comes before DNS in Kubernetes, but after
        localhost."""
        header = _HEADER.encode()
        rest = self._text.removeprefix(header)
        _overwrite(self._private_path(pod), header + alias_lines(pod).encode() + rest)


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
    spec = spec_of(service)
    labelled = WELL_KNOWN in labels_of(service)
    leads = (spec.get("selector"), spec.get("type"), spec.get("clusterIP"), spec.get("ports"))
    return (*leads, labelled, _controller_of(service))


def _cluster_address(service: Object) -> list[str]:
    try:
        return [str(ipaddress.ip_address(str(spec_of(service).get("clusterIP") or "")))]
    except ValueError:
        return []


def _controller_of(obj: Object) -> str:
    for reference in meta(obj).get("ownerReferences") or ():
        if reference.get("controller"):
            return str(reference.get("uid") or "")
    return ""


def _read_aliases(given: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Leaves out what is not an address or a name: a line break would start another line."""
    found = []
    for alias in given:
        names = tuple(str(name) for name in alias.get("hostnames") or () if _HOST.fullmatch(str(name)))
        with suppress(ValueError):
            address = str(alias.get("ip") or "")
            ipaddress.ip_address(address)
            if names and "%" not in address:
                found.append((address, names))
    return tuple(found)
