"""MPIJob: a Launcher that runs mpirun, and Workers that it reaches by exec instead of ssh.

Two API versions share this: kubeflow.org/v1 (training-operator) and v2beta1 (mpi-operator, which uses ssh). Both are
started through exec here, so neither needs an ssh daemon, keys, or an image that has them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from muster.kube.errors import Cause
from muster.kube.kinds import Kind
from muster.kube.objects import Object, owner_reference, spec_of
from muster.kube.schema import STRING, integer, string
from muster.training.kinds.base import KubeflowJobKind
from muster.training.kinds.schemas import COLUMNS, kubeflow_kind
from muster.training.model import (
    Addresses,
    CleanPodPolicy,
    JobOutcome,
    Replica,
    ReplicaCounts,
    Role,
    RunPolicy,
    TrainingJob,
    Wiring,
    job_labels,
    replica_name,
)

FOLDER = "/etc/mpi"
_CLEAN = string(["None", "Running", "All", ""])
_SHARED = {"slotsPerWorker": integer(0), "cleanPodPolicy": _CLEAN, "mainContainer": STRING}
_SSH = {
    "sshAuthMountPath": STRING,
    "launcherCreationPolicy": string(["AtStartup", "WaitForWorkersReady", ""]),
    "mpiImplementation": string(["OpenMPI", "Intel", "MPICH", ""]),
    "runLauncherAsWorker": {"type": "boolean"},
}

_IGNORED_FIELDS: dict[str, tuple[Any, str]] = {
    # field: (the value that has no effect anyway, why another value has no effect)
    "sshAuthMountPath": ("/root/.ssh", "workers are reached by exec, without ssh"),
    "launcherCreationPolicy": ("WaitForWorkersReady", "the launcher always waits for its workers"),
    "runLauncherAsWorker": (False, "the launcher takes no part in the computation"),
    "mainContainer": ("", "every container of the launcher gets the list of workers"),
}

EXEC_AGENT = """#!/bin/sh
# Runs a command in a worker's Pod: what mpirun would use ssh for, with ssh's options left out.
while [ "${1#-}" != "$1" ]; do shift; done
pod=$1
shift
if [ -n "$MUSTER_EXEC" ]; then
    exec $MUSTER_EXEC "$pod" -- /bin/sh -c "$*"
fi
for kubectl in "$KUBECTL" /opt/kube/kubectl "$(command -v kubectl)"; do
    if [ -x "$kubectl" ]; then
        exec "$kubectl" exec "$pod" --container %(container)s -- /bin/sh -c "$*"
    fi
done
for python in python3 python; do
    if command -v "$python" >/dev/null 2>&1; then
        exec "$python" %(folder)s/kubexec.py "$pod" %(container)s /bin/sh -c "$*"
    fi
done
echo "kubexec.sh: this image has neither kubectl nor python3 to reach $pod: add one of them, or start" \
    "the operator with --mpi-kubectl-delivery-image" >&2
exit 1
"""
_EXEC_CLIENT = Path(__file__).with_name("kubexec.py")
_KUBECTL = "/opt/kube"


def _kind(version: str) -> Kind:
    """Returns the kind, which is the same in both versions so that an API server can store either. Only here the age
    comes first."""
    return kubeflow_kind(
        "MPIJob",
        "mpijobs",
        replica_specs="mpiReplicaSpecs",
        extra=_SHARED | _SSH,
        version=version,
        columns=COLUMNS[::-1],
    )


class Mpi(KubeflowJobKind):
    kind = _kind("v1")
    other_versions = (_kind("v2beta1"),)
    container, port_name, port = "mpi", "mpi-port", 9999
    names_container = False
    managers = ("kubeflow.org/training-operator", "kubeflow.org/mpi-operator")
    replica_specs = "mpiReplicaSpecs"
    roles = ("Launcher", "Worker")
    default_replicas = MappingProxyType({"Worker": 0})

    def __init__(self, *, delivery_image: str = "") -> None:
        """`delivery_image` provides kubectl for launchers whose image has neither kubectl nor Python."""
        self._delivery_image = delivery_image

    def read(self, obj: Object) -> TrainingJob:
        job = super().read(obj)
        return replace(
            job, roles=tuple(_with_sleep_command(role) if role.name == "Worker" else role for role in job.roles)
        )

    def run_policy(self, obj: Object) -> RunPolicy:
        policy = super().run_policy(obj)
        clean = cast(CleanPodPolicy, spec_of(obj).get("cleanPodPolicy") or policy.clean_on_success)
        return replace(policy, clean_on_success=clean, clean_on_failure=clean)

    def validate(self, obj: Object) -> list[Cause]:
        causes = super().validate(obj)
        specs = {self.role_name(r): s for r, s in (spec_of(obj).get(self.replica_specs) or {}).items()}
        if specs and "Launcher" not in specs:
            why = "Required value: the launcher runs mpirun"
            causes.append(Cause("spec.mpiReplicaSpecs.Launcher", why, "FieldValueRequired"))
        elif specs and int(specs["Launcher"].get("replicas", 1)) != 1:
            causes.append(Cause("spec.mpiReplicaSpecs.Launcher.replicas", "must be 1: there is one launcher"))
        return causes

    def warnings(self, obj: Object) -> list[Cause]:
        causes = [
            Cause(f"spec.{field}", f"has no effect: {why}")
            for field, (unless, why) in _IGNORED_FIELDS.items()
            if spec_of(obj).get(field, unless) != unless
        ]
        for written, role in (spec_of(obj).get(self.replica_specs) or {}).items():
            if self.role_name(written) != "Worker":
                continue
            path = f"spec.{self.replica_specs}.{written}.template.spec.containers"
            template = (role or {}).get("template") or {}
            causes += [
                Cause(f"{path}[{index}].command", "sshd is not started: workers are reached by exec, without ssh")
                for index, container in enumerate((template.get("spec") or {}).get("containers") or ())
                if _is_ssh_daemon(container)
            ]
        return super().warnings(obj) + causes

    def lead(self, job: TrainingJob) -> Replica | None:
        return Replica("Launcher", 0)

    def listeners(self, job: TrainingJob) -> list[Replica]:
        return []  # mpirun and its daemons find each other through the exec agent

    def must_wait(self, job: TrainingJob, replica: Replica, counts: ReplicaCounts) -> bool:
        """The launcher is created once every worker runs, because it cannot reach them before."""
        return replica.role == "Launcher" and "Worker" in counts and counts["Worker"].running < job.count("Worker")

    def count_late_replicas(self, job: TrainingJob) -> int:
        return 1 if job.count("Worker") else 0

    def companions(self, job: TrainingJob, addresses: Addresses) -> Sequence[Object]:
        name = f"{job.name}-launcher"
        workers = [replica_name(job, Replica("Worker", index)) for index in range(job.count("Worker"))]
        slots = int(spec_of(job.object).get("slotsPerWorker") or 1)
        role = job.role("Worker") or job.roles[0]
        trainer = self.training_container(role.template.get("spec") or {}).get("name", self.container)
        files = {
            "hostfile": "".join(f"{worker} slots={slots}\n" for worker in workers),
            "machinefile": "".join(f"{worker}:{slots}\n" for worker in workers),
            "kubexec.sh": EXEC_AGENT % {"container": trainer, "folder": FOLDER},
            "kubexec.py": _EXEC_CLIENT.read_text(),
            "discover_hosts.sh": "#!/bin/sh\n" + "".join(f"echo {worker}:{slots}\n" for worker in workers),
        }
        rules = [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": [""], "resources": ["pods/exec"], "resourceNames": workers, "verbs": ["create", "get"]},
        ]
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": job.namespace}
        return (
            _owned(job, "v1", "ConfigMap", f"{job.name}-config", {"data": files}),
            _owned(job, "v1", "ServiceAccount", name, {}),
            _owned(job, "rbac.authorization.k8s.io/v1", "Role", name, {"rules": rules}),
            _owned(
                job, "rbac.authorization.k8s.io/v1", "RoleBinding", name, {"roleRef": reference, "subjects": [subject]}
            ),
        )

    def wiring(self, job: TrainingJob, replica: Replica, addresses: Addresses) -> Wiring:
        agent, hosts = f"{FOLDER}/kubexec.sh", f"{FOLDER}/hostfile"
        machines = f"{FOLDER}/machinefile"  # the same for Hydra (MPICH, Intel), which writes slots differently
        modes = {
            "kubexec.sh": 0o555,
            "kubexec.py": 0o444,
            "hostfile": 0o444,
            "machinefile": 0o444,
            "discover_hosts.sh": 0o555,
        }
        items = [{"key": name, "path": name, "mode": mode} for name, mode in modes.items()]
        volumes: tuple[Object, ...] = (
            {"name": "mpi-job-config", "configMap": {"name": f"{job.name}-config", "items": items}},
        )
        mounts: tuple[Object, ...] = ({"name": "mpi-job-config", "mountPath": FOLDER},)
        deliveries: tuple[Object, ...] = ()
        if replica.role == "Launcher" and self._delivery_image:
            kubectl = {"name": "mpi-job-kubectl", "mountPath": _KUBECTL}
            deliveries = (_kubectl_container(job, self._delivery_image, [kubectl, *mounts]),)
            volumes = (*volumes, {"name": kubectl["name"], "emptyDir": {}})
            mounts = (*mounts, kubectl)
        # The entrypoints of mpi-operator's images read their role from this variable.
        role = {"K_MPI_JOB_ROLE": replica.role.lower()}
        if replica.role == "Worker":
            return Wiring(env=role, volumes=volumes, mounts=mounts)  # Open MPI's daemons there require the agent
        return Wiring(
            env={
                **role,
                "OMPI_MCA_plm_rsh_agent": agent,
                "OMPI_MCA_orte_default_hostfile": hosts,
                "I_MPI_HYDRA_BOOTSTRAP": "rsh",
                "I_MPI_HYDRA_BOOTSTRAP_EXEC": agent,
                "I_MPI_HYDRA_HOST_FILE": machines,
                "HYDRA_LAUNCHER": "ssh",
                "HYDRA_LAUNCHER_EXEC": agent,
                "HYDRA_HOST_FILE": machines,
                "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
            },
            volumes=volumes,
            mounts=mounts,
            service_account=f"{job.name}-launcher",
            init_containers=deliveries,
        )

    def outcome(self, job: TrainingJob, counts: ReplicaCounts) -> JobOutcome | None:
        return JobOutcome(True) if counts["Launcher"].succeeded else None


def _kubectl_container(job: TrainingJob, image: str, mounts: Sequence[Object]) -> Object:
    """An init container that copies its kubectl to TARGET_DIR, as mpi-operator's does."""
    room = {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"}
    return {
        "name": "kubectl-delivery",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "env": [{"name": "TARGET_DIR", "value": _KUBECTL}, {"name": "NAMESPACE", "value": job.namespace}],
        "volumeMounts": list(mounts),
        "resources": {"limits": room, "requests": room},
    }


_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_SHELL_OPTION = re.compile(r"-[el]*c")

_SLEEP = "trap 'exit 143' TERM; sleep 365d & wait"
"""The first process of a container ignores SIGTERM unless it handles it. A mere `sleep` would hold the node's resources
for half a minute after the job has ended."""


def _with_sleep_command(role: Role) -> Role:
    """A worker without a command, or whose command is an ssh daemon, sleeps until mpirun runs a command in it. It
    has no probes: nothing listens at the daemon's port, so the worker would never be ready."""
    spec = role.template.get("spec") or {}
    containers = [_sleeping(c) if not _command_of(c) or _is_ssh_daemon(c) else c for c in spec.get("containers") or ()]
    return replace(role, template={**role.template, "spec": {**spec, "containers": containers}})


def _sleeping(container: Mapping[str, Any]) -> Object:
    rest = {field: value for field, value in container.items() if field not in _PROBES}
    return {**rest, "command": ["sh", "-c", _SLEEP], "args": []}


def _command_of(container: Mapping[str, Any]) -> list[str]:
    return [*(container.get("command") or ()), *(container.get("args") or ())]


def _is_ssh_daemon(container: Mapping[str, Any]) -> bool:
    """Whether a container does nothing but run sshd, directly or through a shell. mpi-operator's users write that
    command, and it needs a program, host keys and rights that workers do not need here."""
    words = _command_of(container)
    if len(words) == 3 and words[0].rpartition("/")[2] in ("sh", "bash") and _SHELL_OPTION.fullmatch(words[1]):
        if set(words[2]) & set(";&|\n`$<>("):
            return False
        with suppress(ValueError):  # an open quote
            words = shlex.split(words[2])
    if words[:1] == ["exec"] or (words and words[0].endswith("entrypoint.sh")):
        words = words[1:]
    return bool(words) and words[0].rpartition("/")[2] == "sshd"


def _owned(job: TrainingJob, api_version: str, kind: str, name: str, content: dict[str, Any]) -> Object:
    metadata = {
        "name": name,
        "namespace": job.namespace,
        "labels": job_labels(job),
        "ownerReferences": [owner_reference(job.object)],
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}
