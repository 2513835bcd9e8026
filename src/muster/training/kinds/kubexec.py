"""Runs a command in another Pod of this namespace and forwards its output and exit code.

    kubexec.py POD CONTAINER COMMAND [ARGUMENT ...]

This file is mounted into the launchers of MPI jobs, whose images may lack kubectl. It uses only the standard library of
Python 3.6 and later, and talks to the API server as the Pod's service account.
"""

import base64
import json
import os
import socket
import ssl
import struct
import sys
from urllib.parse import urlencode

FOLDER = os.environ.get("KUBEXEC_ACCOUNT", "/var/run/secrets/kubernetes.io/serviceaccount")
QUIET_SECONDS = 30.0
BROKEN = 255
"""The exit code of ssh, which this replaces, for a broken connection."""

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
STDOUT, STDERR, STATUS = 1, 2, 3


class Refused(Exception):
    pass


def main(arguments: "list[str]") -> int:
    if len(arguments) < 3:
        sys.stderr.write("usage: kubexec.py POD CONTAINER COMMAND [ARGUMENT ...]\n")
        return BROKEN
    try:
        with connect() as connection:
            rest = open_websocket(connection, path_of(arguments[0], arguments[1], arguments[2:]))
            return forward_output(connection, rest)
    except (OSError, Refused) as error:
        sys.stderr.write(f"kubexec.py: {arguments[0]} cannot be reached: {error}\n")
        return BROKEN


def path_of(pod: str, container: str, command: "list[str]") -> str:
    asked = [("command", word) for word in command]
    asked += [("container", container), ("stdout", "true"), ("stderr", "true")]
    return f"/api/v1/namespaces/{read('namespace')}/pods/{pod}/exec?{urlencode(asked)}"


def connect() -> socket.socket:
    host = os.environ["KUBERNETES_SERVICE_HOST"]
    plain = socket.create_connection((host, int(os.environ.get("KUBERNETES_SERVICE_PORT", "443"))), QUIET_SECONDS)
    if os.environ.get("KUBEXEC_PLAIN"):
        return plain
    context = ssl.create_default_context(cafile=os.path.join(FOLDER, "ca.crt"))  # noqa: PTH118
    return context.wrap_socket(plain, server_hostname=host)


def open_websocket(connection: socket.socket, path: str) -> bytes:
    """Asks for a WebSocket. Returns the bytes that follow the server's handshake."""
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {os.environ['KUBERNETES_SERVICE_HOST']}",
        f"Authorization: Bearer {read('token')}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
        "Sec-WebSocket-Protocol: v4.channel.k8s.io",
    ]
    connection.sendall("\r\n".join([*lines, "", ""]).encode())
    received = b""
    while b"\r\n\r\n" not in received:
        piece = connection.recv(65536)
        if not piece:
            break
        received += piece
    head, _, rest = received.partition(b"\r\n\r\n")
    status = head.split(b"\r\n")[0].decode(errors="replace")
    if " 101 " not in status + " ":
        raise Refused(f"{status}: {rest.decode(errors='replace').strip()}")
    return rest


def forward_output(connection: socket.socket, received: bytes) -> int:
    """Forwards the output until the command has ended."""
    outputs = {STDOUT: sys.stdout.buffer, STDERR: sys.stderr.buffer}
    message = b""
    while True:
        frame = parse_frame(received)
        if frame is None:
            try:
                piece = connection.recv(65536)
            except socket.timeout:  # noqa: UP041 (its name before Python 3.10)
                send_frame(connection, PING, b"")
                continue
            if not piece:
                raise Refused("the connection broke")
            received += piece
            continue
        final, kind, content, received = frame
        if kind == PING:
            send_frame(connection, PONG, content)
        elif kind == CLOSE:
            raise Refused("the server closed the connection")
        elif kind not in (PONG,):
            message += content
            if final and message:
                channel, told, message = message[0], message[1:], b""
                if channel == STATUS:
                    return exit_code(told)
                if channel in outputs:
                    outputs[channel].write(told)
                    outputs[channel].flush()
            elif final:
                message = b""


def parse_frame(received: bytes) -> "tuple[bool, int, bytes, bytes] | None":
    """Returns the first frame if it is complete: whether it ends a message, its kind, its content, and the rest."""
    if len(received) < 2:
        return None
    length, start = received[1] & 0x7F, 2
    if length >= 126:
        form, size = ("!H", 2) if length == 126 else ("!Q", 8)
        if len(received) < 2 + size:
            return None
        length, start = struct.unpack(form, received[2 : 2 + size])[0], 2 + size
    end = start + length
    if len(received) < end:
        return None
    return bool(received[0] & 0x80), received[0] & 0x0F, received[start:end], received[end:]


def send_frame(connection: socket.socket, kind: int, content: bytes) -> None:
    """Sends a short frame. Clients must mask what they send; a mask of zeros changes nothing."""
    connection.sendall(bytes([0x80 | kind, 0x80 | len(content)]) + bytes(4) + content)


def exit_code(told: bytes) -> int:
    status = json.loads(told.decode())
    if status.get("status") == "Success":
        return 0
    for cause in (status.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    raise Refused(status.get("message") or "the command could not be run")


def read(name: str) -> str:
    with open(os.path.join(FOLDER, name)) as file:  # noqa: PTH118, PTH123
        return file.read().strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
