"""The probes and hooks of a container, prepared for its supervisor: ports by number, and the Pod's own address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from muster.embedded.node.pod_context import ContainerError
from muster.embedded.node.supervisor.contract import Hook, Probe

ProbeField = Literal["startupProbe", "livenessProbe", "readinessProbe"]
HookField = Literal["postStart", "preStop"]


def probe_of(container: Mapping[str, Any], field: ProbeField, address: str) -> Probe | None:
    """`address` is the Pod's address. Raises ContainerError if the probe cannot be run."""
    wanted = container.get(field)
    if not wanted:
        return None
    name = str(container.get("name") or "")
    probe: Probe = {
        "initialDelay": float(wanted.get("initialDelaySeconds") or 0),
        "period": float(wanted.get("periodSeconds") or 10),
        "timeout": float(wanted.get("timeoutSeconds") or 1),
        "successThreshold": int(wanted.get("successThreshold") or 1),
        "failureThreshold": int(wanted.get("failureThreshold") or 3),
    }
    grace = wanted.get("terminationGracePeriodSeconds")
    probe["grace"] = float(grace) if grace is not None else None
    if "exec" in wanted:
        probe["kind"], probe["command"] = "exec", list(wanted["exec"].get("command") or ())
    elif "httpGet" in wanted:
        get = wanted["httpGet"]
        probe["kind"] = "http"
        probe["scheme"], probe["host"], probe["port"], probe["path"], probe["headers"] = _http(
            container, get, address, field
        )
    elif "tcpSocket" in wanted or "grpc" in wanted:
        # Without speaking gRPC, this much can be checked: whether the server listens.
        target = wanted.get("tcpSocket") or wanted.get("grpc") or {}
        probe["kind"], probe["host"] = "tcp", str(target.get("host") or address)
        probe["port"] = port_of(container, target.get("port"), f"{field}.tcpSocket.port")
    else:
        raise ContainerError(f"{field} has none of exec, httpGet, tcpSocket, grpc", name)
    return probe


def hook_of(container: Mapping[str, Any], field: HookField, address: str) -> Hook | None:
    wanted = (container.get("lifecycle") or {}).get(field)
    if not wanted:
        return None
    hook: Hook
    if "exec" in wanted:
        return {"kind": "exec", "command": list(wanted["exec"].get("command") or ())}
    if "httpGet" in wanted:
        hook = {"kind": "http"}
        hook["scheme"], hook["host"], hook["port"], hook["path"], hook["headers"] = _http(
            container, wanted["httpGet"], address, field
        )
        return hook
    if "tcpSocket" in wanted:
        target = wanted["tcpSocket"]
        port = port_of(container, target.get("port"), f"lifecycle.{field}.tcpSocket.port")
        return {"kind": "tcp", "host": str(target.get("host") or address), "port": port}
    if "sleep" in wanted:
        return {"kind": "sleep", "seconds": float(wanted["sleep"].get("seconds") or 0)}
    name = str(container.get("name") or "")
    raise ContainerError(f"lifecycle.{field} has none of exec, httpGet, tcpSocket, sleep", name)


def port_of(container: Mapping[str, Any], port: Any, path: str) -> int:
    """Returns a port number; a name refers to one of the container's ports."""
    if isinstance(port, int):
        return port
    text = str(port or "")
    if text.isdigit():
        return int(text)
    ports = {p.get("name"): p.get("containerPort") for p in container.get("ports") or ()}
    if isinstance(ports.get(text), int):
        return int(ports[text])
    have = ", ".join(sorted(str(p) for p in ports if p)) or "no named ports"
    raise ContainerError(f'{path}: no port "{text}" (the container has {have})', str(container.get("name") or ""))


def _http(
    container: Mapping[str, Any], get: Mapping[str, Any], address: str, field: str
) -> tuple[str, str, int, str, list[tuple[str, str]]]:
    return (
        str(get.get("scheme") or "HTTP").lower(),
        str(get.get("host") or address),
        port_of(container, get.get("port"), f"{field}.httpGet.port"),
        str(get.get("path") or "/"),
        [(str(h.get("name") or ""), str(h.get("value") or "")) for h in get.get("httpHeaders") or ()],
    )
