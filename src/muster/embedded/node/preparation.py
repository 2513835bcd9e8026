"""Prepares a Pod for its supervisor: commands, variables, mounts, limits, users, probes and hooks of its containers.

Everything that can be missing (a ConfigMap, a volume, a command) is looked up first and raises `NotReady`. Folders and
files are created only after that. Preparing the same Pod again is harmless.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from muster.embedded.node.environment import container_environment
from muster.embedded.node.hosts import hostname_of
from muster.embedded.node.image_engine import ENGINE_DEVICES, ImageEngine, prepare_engine_container
from muster.embedded.node.images import (
    SCRATCH,
    LaunchPlan,
    describe_source,
    enter_environment,
    explain_missing_program,
    hidden_folders,
    interpreter_folders,
    match_image,
    plan_launch,
)
from muster.embedded.node.logs import DEFAULT_CONTAINER_LINK, OWNER_LINK
from muster.embedded.node.pod_context import (
    ConfigError,
    ContainerError,
    PodContext,
    SysctlForbidden,
    container_order_of,
    container_output_folder,
    output_paths,
    paths_outside_mounts,
    scratch_folder,
)
from muster.embedded.node.pod_status import containers_of
from muster.embedded.node.probes import hook_of, probe_of
from muster.embedded.node.python_environments import PodEnvironment
from muster.embedded.node.supervisor.contract import (
    POD_FILE,
    ContainerRole,
    Isolation,
    Mount,
    PodLimits,
    PreparedContainer,
    PreparedPod,
)
from muster.embedded.node.volumes import (
    SERVICE_ACCOUNT_VOLUME,
    EmptyDir,
    Memory,
    Volume,
    container_mounts,
    lacks_service_account,
    make_volume,
    plan_volumes,
)
from muster.embedded.settings import AgentSettings
from muster.kube.budgets import Budgets, setting_name
from muster.kube.defaults import API_ACCESS_FOLDER
from muster.kube.objects import Object, controller_of, name_of, namespace_of, spec_of, uid_of
from muster.kube.pod_validation import ignored_fields
from muster.kube.quantity import milli_value, whole_value

SHARED_MEMORY: Mount = {"type": "tmpfs", "target": "/dev/shm"}
"""Belongs to the Pod, so that its containers share it. If there is only one container, mounting it there is cheaper."""
_HOSTNAME = "/proc/sys/kernel/hostname"
"""Contains the host name of the reader's own namespace, so no file per Pod is needed."""
_TERMINATION_LOG = "/dev/termination-log"
_HIDING_BYTES = 64 * 1024
"""Enough for mount points."""
_HOME_BYTES = 1 << 30
"""What a container may write to its home folder if that is in memory."""


class PodPaths(NamedTuple):
    """Where the files of a Pod are on this machine."""

    folder: str
    logs: str
    hosts_file: str
    notify: str


@dataclass(frozen=True, slots=True)
class NodeContext:
    """What this machine provides to every Pod."""

    settings: AgentSettings
    isolation: Isolation
    environment: Mapping[str, str]
    """The variables of a container that no image engine runs."""
    limits_cpu: bool = True
    """Whether the kernel can limit the CPU of a container here. (Memory is limited in any case.)"""
    shims: str = ""
    """The folder of `images.make_shims`."""
    first_id: Callable[[str], int] | None = None
    """Returns where the range of user ids of a restricted namespace begins; None if this node cannot give any."""


@dataclass(frozen=True, slots=True)
class ResolvedContainer:
    """A container with its variables, and how to run it without its image. `plan` is None if an image engine runs
    it."""

    spec: Mapping[str, Any]
    role: ContainerRole
    env: dict[str, str]
    plan: LaunchPlan | None
    devices: Mapping[str, str] = field(default_factory=dict)
    """The variables of the GPUs that were allocated to it. The Pod's own variables may say something else."""

    @property
    def name(self) -> str:
        return str(self.spec.get("name") or "")

    @property
    def image(self) -> str:
        return str(self.spec.get("image") or "")


@dataclass(frozen=True, slots=True)
class Prepared:
    pod: PreparedPod
    notes: Mapping[str, str]
    """Where each container runs if no image engine runs it."""
    ignored: tuple[str, ...] = ()
    """Fields of the Pod that have no effect here."""


def prepare(
    pod: Object, context: PodContext, paths: PodPaths, node: NodeContext, *,
    engine: ImageEngine | None = None, deadline: float | None = None,
    devices: Mapping[str, Mapping[str, str]] | None = None, environment: PodEnvironment | None = None,
) -> Prepared:  # fmt: skip
    """Prepares a Pod and creates everything except the Pod's own file. Raises NotReady if something is missing."""
    spec, settings = spec_of(pod), node.settings
    _refuse_sysctls(spec)
    volumes = plan_volumes(pod, context, paths.folder, settings.nfs)
    if engine is not None:
        volumes = {name: _for_engine(pod, name, volume) for name, volume in volumes.items()}
    resolved_containers = [
        resolve_container(
            pod,
            container,
            role,
            context,
            node,
            engine,
            (devices or {}).get(container.get("name") or "") or {},
            environment,
        )
        for container, role in containers_of(spec)
    ]
    arrangement = container_order_of(pod)
    limits = pod_limits(settings.budgets, restricted=context.restricted)
    first_id = None
    if context.restricted and engine is None and node.first_id is not None:
        first_id = node.first_id(namespace_of(pod))
    _make_folder(paths.folder)
    shared = _make_volumes(volumes, _fs_group(pod, node))
    is_alone = len(resolved_containers) == 1
    if not is_alone:
        shared.append(SHARED_MEMORY)
    containers = [
        prepare_container(
            pod,
            resolved,
            [*_environment_mounts(environment), *_mounts(resolved, volumes, str(settings.home))],
            paths,
            node,
            engine=engine,
            context=context,
            is_alone=is_alone,
            processes=limits["processes"],
        )
        for resolved in resolved_containers
    ]
    isolation = "none" if engine is not None else node.isolation
    prepared: PreparedPod = {
        "uid": uid_of(pod),
        "namespace": namespace_of(pod),
        "name": name_of(pod),
        "hostname": hostname_of(pod),
        "address": context.pod_ip,
        "restartPolicy": spec.get("restartPolicy") or "Always",
        "restricted": context.restricted,
        "grace": termination_grace(spec),
        "deadline": deadline,
        "isolation": isolation,
        "mounts": shared if isolation != "none" else [],
        "arrangement": arrangement,
        "containers": containers,
        "notify": paths.notify,
        "logFileBytes": settings.logs.file_bytes,
        "logFiles": settings.logs.files,
        "logLinks": _log_links(pod, resolved_containers),
        "limits": limits,
        "keepFailedSeconds": settings.keep_failed_seconds,
        "backoffBase": settings.backoff_base,
        "backoffMax": settings.backoff_max,
    }
    if first_id is not None:
        prepared["firstId"] = first_id
    notes = {
        p.name: describe_source(p.image, p.plan.mapped, p.plan.rootfs, environment.description if environment else "")
        for p in resolved_containers
        if p.plan is not None
    }
    limits_cpu = node.limits_cpu if engine is None else engine.limits
    ignored = [*ignored_fields(pod, node.isolation, by_engine=engine is not None, limits_cpu=limits_cpu)]
    if lacks_service_account(volumes):
        ignored.append(f"spec.serviceAccountName (there is no service account {spec['serviceAccountName']})")
    return Prepared(prepared, notes, tuple(ignored))


def pod_limits(budgets: Budgets, *, restricted: bool) -> PodLimits:
    """Returns the limits of a Pod that no field of it sets."""
    name = "member_pod_processes" if restricted else "pod_processes"
    return {
        "outputFiles": budgets.output_files,
        "outputBytes": budgets.output_megabytes << 20,
        "openFiles": budgets.pod_open_files,
        "processes": getattr(budgets, name),
        "processesSetting": setting_name(name),
        "inOwnGroup": restricted,
    }


def write_pod_file(folder: str, pod: PreparedPod) -> None:
    """Writes the file atomically: a Pod with this file may be started, and a supervisor may read it at any time."""
    try:
        text = orjson.dumps(pod)
    except TypeError:  # bytes of a Secret that are not UTF-8 are lone surrogates in the environment
        text = json.dumps(pod).encode()
    fresh = f"{folder}/{POD_FILE}.new"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(text)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)
    os.rename(fresh, f"{folder}/{POD_FILE}")


def resolve_container(
    pod: Object, container: Mapping[str, Any], role: ContainerRole, context: PodContext, node: NodeContext,
    engine: ImageEngine | None, devices: Mapping[str, str], environment: PodEnvironment | None = None,
) -> ResolvedContainer:  # fmt: skip
    """Resolves everything that can be missing, and changes nothing. Raises NotReady."""
    settings = node.settings
    is_mapped = match_image(str(container.get("image") or ""), settings.images)
    images = settings.images if is_mapped else settings.usual_images
    plan = plan_launch(container, images, node.environment, node.shims) if engine is None else None
    if plan is not None and environment is not None and not plan.mapped and not environment.source:
        plan = enter_environment(plan, environment.path, environment.interpreter.folder)
    base = {"HOSTNAME": hostname_of(pod), **devices}
    if plan is not None:
        base = {**plan.env, **base}
    _refuse_root(pod, container)
    env = container_environment(pod, container, context, base=base)
    return ResolvedContainer(container, role, env, plan, devices)


def prepare_container(
    pod: Object, resolved: ResolvedContainer, mounts: list[Mount], paths: PodPaths, node: NodeContext, *,
    engine: ImageEngine | None, context: PodContext, is_alone: bool, processes: int = 0,
) -> PreparedContainer:  # fmt: skip
    """Creates the container's own files. `mounts` are those of its volumes."""
    spec, address = resolved.spec, context.pod_ip
    termination_file = f"{paths.folder}/termination-{resolved.name}"
    _make_file(termination_file)
    termination = _bind(termination_file, spec.get("terminationMessagePath") or _TERMINATION_LOG)
    limits: Mapping[str, Any] = (spec.get("resources") or {}).get("limits") or {}
    user, group, groups = _user(pod, spec)
    prepared: PreparedContainer = {
        "name": resolved.name,
        "role": resolved.role,
        "env": resolved.env,
        "uid": user,
        "gid": group,
        "groups": groups,
        "allowsPrivilegeEscalation": allows_privilege_escalation(spec) and not context.restricted,
        "memoryLimit": whole_value(limits["memory"]) if limits.get("memory") else None,
        "cpuLimit": milli_value(limits["cpu"]) / 1000 if limits.get("cpu") else None,
        "logDir": f"{paths.logs}/{resolved.name}",
        "terminationMessageFile": termination_file,
        "terminationMessageFromLogs": spec.get("terminationMessagePolicy") == "FallbackToLogsOnError",
        "startupProbe": probe_of(spec, "startupProbe", address),
        "livenessProbe": probe_of(spec, "livenessProbe", address),
        "readinessProbe": probe_of(spec, "readinessProbe", address),
        "postStart": hook_of(spec, "postStart", address),
        "preStop": hook_of(spec, "preStop", address),
        "stopSignal": (spec.get("lifecycle") or {}).get("stopSignal") or "SIGTERM",
        "engine": None,
        "devices": dict(resolved.devices),
    }
    if spec.get("stdin"):
        prepared["stdin"], prepared["stdinOnce"] = True, bool(spec.get("stdinOnce"))
    if spec.get("tty"):
        prepared["tty"], prepared["env"] = True, {"TERM": "xterm", **resolved.env}
    keep = output_paths(pod, resolved.name)
    if keep:
        prepared["keep"], prepared["keepFolder"] = keep, container_output_folder(paths.folder, resolved.name)
    if resolved.plan is None:
        assert engine is not None
        hosts = _bind(paths.hosts_file, "/etc/hosts", read_only=True)
        binds, gpus = [hosts, *mounts, termination], resolved.devices.get(ENGINE_DEVICES, "")
        prepare_engine_container(
            engine, pod, spec, prepared, binds, paths.folder, gpus, processes, restricted=context.restricted
        )
        return prepared
    prepared["argv"] = resolved.plan.argv(resolved.env)
    prepared["rootfs"] = resolved.plan.rootfs
    if resolved.plan.rootfs:
        prepared["rootfsLayer"] = f"{paths.folder}/rootfs-{resolved.name}"
    if not resolved.plan.mapped:
        prepared["missingProgram"] = explain_missing_program(resolved.image)
    if node.isolation == "none":
        _refuse_mounts(mounts, resolved.name)
        prepared["mounts"], prepared["cwd"] = [], resolved.plan.cwd
        return prepared
    account_home = node.environment.get("HOME", "") if context.restricted else ""
    private = _private_mounts(resolved, paths, str(node.settings.home), account_home)
    if is_alone:
        private.append(SHARED_MEMORY)
    prepared["cwd"], more = _working_dir(resolved, resolved.plan, [*private, *mounts], paths)
    prepared["createsCwd"] = True
    own = [*private, *more]
    if (resolved.spec.get("securityContext") or {}).get("readOnlyRootFilesystem"):
        prepared["readOnlyRoot"] = True
        own = [mount if mount is SHARED_MEMORY else {**mount, "partOfRoot": True} for mount in own]
    prepared["mounts"] = [*own, *mounts, termination]
    if keep and not resolved.plan.rootfs:
        prepared["private"] = paths_outside_mounts(keep, [mount["target"] for mount in prepared["mounts"]])
        prepared["privateFolder"] = f"{paths.folder}/private-{resolved.name}"
        if resolved.plan.has_default_cwd and any(os.path.dirname(path) == "/" for path in prepared["private"]):
            # A container may write `/result.txt` as `result.txt`: most images start in the root, which is now its own.
            prepared["cwd"] = "/"
    return prepared


def allows_privilege_escalation(container: Mapping[str, Any]) -> bool:
    """Only if the container asks for it: unlike in Kubernetes, root is a user of this machine here."""
    return (container.get("securityContext") or {}).get("allowPrivilegeEscalation") is True


def termination_grace(spec: Mapping[str, Any]) -> float:
    grace = spec.get("terminationGracePeriodSeconds")
    return 30.0 if grace is None else float(grace)


def _make_folder(path: str) -> None:
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        os.makedirs(path, mode=0o700)


def _make_volumes(volumes: Mapping[str, Volume], group: int | None) -> list[Mount]:
    made = [make_volume(name, volume, group) for name, volume in volumes.items()]
    return [mount for mount in made if mount is not None]


def _fs_group(pod: Object, node: NodeContext) -> int | None:
    """Only root can give files to any group."""
    group: int | None = (spec_of(pod).get("securityContext") or {}).get("fsGroup")
    return group if node.isolation == "namespaces" else None


def _mounts(resolved: ResolvedContainer, volumes: Mapping[str, Volume], home: str) -> list[Mount]:
    """Volumes in the server's own folder `home` belong to the Pod or its namespace; others have an owner."""
    mounts = container_mounts(resolved.spec, volumes, resolved.env)
    account = volumes.get(SERVICE_ACCOUNT_VOLUME)
    if account is not None and not any(mount["target"] == API_ACCESS_FOLDER for mount in mounts):
        mounts.append({"type": "bind", "source": account.path, "target": API_ACCESS_FOLDER, "readOnly": True})
    for mount in mounts:
        mount["owners"] = "same" if mount["source"].startswith(f"{home}/") else "folder"
    return mounts


def _environment_mounts(environment: PodEnvironment | None) -> list[Mount]:
    """A Pod that builds an environment has a folder for it, where the environment will be. Its files have the ids of
    the Pod on this machine, because containers see them as they are."""
    return [_bind(environment.source, environment.path)] if environment is not None and environment.source else []


def _for_engine(pod: Object, name: str, volume: Volume) -> Volume:
    """The engine has its own mount namespaces, so memory has to come from a tmpfs that both see."""
    return EmptyDir(f"/dev/shm/muster-{uid_of(pod)}/{name}") if isinstance(volume, Memory) else volume


def _log_links(pod: Object, resolved_containers: list[ResolvedContainer]) -> dict[str, str]:
    """Returns links that outlive the Pod: to the container whose log is meant by default, if there is only one main
    container, and to the object that controls the Pod. Its logs are deleted with it, even if the Pod was deleted
    before."""
    links = {}
    mains = [resolved.name for resolved in resolved_containers if resolved.role == "main"]
    if len(resolved_containers) > 1 and len(mains) == 1:
        links[DEFAULT_CONTAINER_LINK] = mains[0]
    owner = controller_of(pod)
    if owner is not None:
        links[OWNER_LINK] = f"{owner.get('kind')}@{owner.get('uid')}"
    return links


def _private_mounts(resolved: ResolvedContainer, paths: PodPaths, home: str, account_home: str = "") -> list[Mount]:
    """Returns what every container has for itself, below its volume mounts. `home` contains the keys of the server and
    the files of other Pods, and `account_home` is the home of the server's account, if the container must not see it.
    Of both the container sees only what it runs from."""
    scratch = scratch_folder(paths.folder, resolved.name)
    _make_scratch(scratch)
    own = [
        _bind(scratch, SCRATCH),
        _bind(paths.hosts_file, "/etc/hosts", read_only=True),
        _bind(_HOSTNAME, "/etc/hostname", read_only=True),
    ]
    if resolved.plan is None or resolved.plan.rootfs:
        return own
    hidden, required = [SCRATCH, home], resolved.plan.required_folders
    if account_home not in ("", "/", home) and not account_home.startswith((f"{SCRATCH}/", f"{home}/")):
        hidden.append(account_home)
        required = (*required, *interpreter_folders(required))
        own.append({"type": "tmpfs", "target": account_home, "size": _HOME_BYTES, "isHome": True})
    if not home.startswith(f"{SCRATCH}/"):
        own.append({"type": "tmpfs", "target": home, "size": _HIDING_BYTES})
    required = (*required, *resolved.plan.environment_folders)
    needed = [f for f in hidden_folders(required, hidden) if os.path.exists(f)]
    for path in needed:
        if path.startswith(f"{SCRATCH}/"):
            point = f"{scratch}{path.removeprefix(SCRATCH)}"
            if os.path.isdir(path):
                os.makedirs(point, exist_ok=True)
            else:
                _make_file(point)
    own += [_own_folder(folder) for folder in needed]
    return own


def _own_folder(path: str) -> Mount:
    """A container's own /dev and /run do not have what is below the machine's."""
    if path.startswith(("/dev/", "/run/")):
        return _bind(path, path, read_only=True)
    return {"type": "own", "target": path}


def _working_dir(
    resolved: ResolvedContainer, plan: LaunchPlan, mounts: list[Mount], paths: PodPaths
) -> tuple[str, list[Mount]]:
    """An image has its WORKDIR. If this machine lacks the folder, the container gets an empty one there. Inside a
    volume, the supervisor creates it, where links lead nowhere else."""
    cwd = os.path.normpath(plan.cwd)
    for mount in reversed(mounts):
        target = mount["target"]
        if cwd == target:
            return cwd, []
        if cwd.startswith(target.rstrip("/") + "/"):
            return cwd, []
    if os.path.isdir(f"{plan.rootfs}{cwd}"):
        return cwd, []
    scratch = f"{paths.folder}/work-{resolved.name}"
    _make_scratch(scratch)
    return cwd, [_bind(scratch, cwd)]


def _refuse_mounts(mounts: list[Mount], container: str) -> None:
    for mount in mounts:
        if os.path.realpath(mount["source"]) != os.path.realpath(mount["target"]):
            raise ContainerError(
                f"cannot mount anything at {mount['target']}: this user may not create mount namespaces. "
                "Run as root, allow unprivileged user namespaces, or remove the volumeMount (see: muster doctor)",
                container,
            )


def _refuse_sysctls(spec: Mapping[str, Any]) -> None:
    names = [str(each.get("name")) for each in (spec.get("securityContext") or {}).get("sysctls") or ()]
    if names:
        told = ", ".join(f'"{name}"' for name in names)
        raise SysctlForbidden(
            f"forbidden sysctl: {told} not allowed: Pods share the kernel parameters of this machine; remove "
            "spec.securityContext.sysctls, and set them on the machine"
        )


def _refuse_root(pod: Object, container: Mapping[str, Any]) -> None:
    context = {**(spec_of(pod).get("securityContext") or {}), **(container.get("securityContext") or {})}
    user = context.get("runAsUser")
    if context.get("runAsNonRoot") and (user == 0 or (user is None and os.getuid() == 0)):
        message = "container has runAsNonRoot and would run as root: set securityContext.runAsUser"
        raise ConfigError(message, str(container.get("name") or ""))


def _user(pod: Object, container: Mapping[str, Any]) -> tuple[int | None, int | None, list[int]]:
    shared: Mapping[str, Any] = spec_of(pod).get("securityContext") or {}
    context = {**shared, **(container.get("securityContext") or {})}
    groups = [int(g) for g in shared.get("supplementalGroups") or ()]
    if shared.get("fsGroup") is not None:
        groups.append(int(shared["fsGroup"]))
    return context.get("runAsUser"), context.get("runAsGroup"), groups


def _bind(source: str, target: str, *, read_only: bool = False) -> Mount:
    return {"type": "bind", "source": source, "target": target, "readOnly": read_only}


def _make_scratch(path: str) -> None:
    try:
        os.mkdir(path)
    except FileExistsError:
        return
    os.chmod(path, 0o1777)


def _make_file(path: str) -> None:
    """Creates a file that every user of the container may write to."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        os.fchmod(descriptor, 0o666)
    finally:
        os.close(descriptor)
