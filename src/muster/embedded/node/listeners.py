"""Whose server listens at an address of this machine.

Pods share the machine's network. So a Pod can listen at the address of another one, if it is the
first, and get the connections that are meant for it.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from functools import cache

from muster.embedded.node.supervisor.user_namespaces import FIRST_ID, RANGE_SIZE

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST, _ALL_STATES = 1, 0xFFFFFFFF
_HEADER = struct.Struct("=IHHII")
"""Length, type, flags, sequence, port."""
_QUERY = struct.Struct("=BBBxI 2s2s 16s16s I 8s")
"""Family, protocol, extensions, states; ports, addresses, interface and cookie of the socket."""
_UID_OFFSET = 64
_NO_COOKIE = b"\xff" * 8


def listener_uid(host: str, port: int) -> int | None:
    """Returns the user whose server gets a connection to this IPv4 address, as the kernel would find it; None if
    nothing listens there. Raises OSError if the kernel does not say."""
    query = _QUERY.pack(
        socket.AF_INET,
        socket.IPPROTO_TCP,
        0,
        _ALL_STATES,
        port.to_bytes(2, "big"),
        bytes(2),
        socket.inet_aton(host) + bytes(12),
        socket.inet_aton("127.0.0.1") + bytes(12),
        0,
        _NO_COOKIE,
    )
    header = _HEADER.pack(_HEADER.size + len(query), _SOCK_DIAG_BY_FAMILY, _REQUEST, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as kernel:
        kernel.sendall(header + query)
        answer = kernel.recv(4096)
    _, kind, _, _, _ = _HEADER.unpack_from(answer)
    if kind != _SOCK_DIAG_BY_FAMILY:
        return None
    (uid,) = struct.unpack_from("=I", answer, _HEADER.size + _UID_OFFSET)
    return int(uid)


@cache
def can_tell_listeners() -> bool:
    """Whether the kernel says who listens. A kernel without the module for it reports no listeners."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        try:
            return listener_uid(*listener.getsockname()) is not None
        except OSError:
            return False


def is_own_listener(
    uid: int | None, namespace: str, first_id: Callable[[str], int] | None, *, restricted: bool
) -> bool:
    """Whether a server with this user belongs to a Pod of the namespace. If nothing listens, it does not: a connection
    that is made a moment later could reach a server of someone else. Without `first_id`, users do not tell."""
    if first_id is None:
        return True
    if uid is None:
        return False
    if not restricted:
        return uid < FIRST_ID
    first = first_id(namespace)
    return first <= uid < first + RANGE_SIZE
