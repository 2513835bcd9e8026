"""Pods and other objects of a restricted namespace, as a member might write them, at the store itself.

Whatever made the Pod (a node, an Argo template after all substitution, a training job, kubectl), it is this object that
is checked. Each row is one attack.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import POD, new_catalogue
from muster.kube.errors import ApiError, Forbidden, Invalid
from muster.kube.objects import Object, copy_of, owner_reference
from muster.kube.pod_security import PodGrants
from muster.workflows.kinds import workflow_kinds

NAMESPACE = "user-mallory"
OWN_RUN = "0000000000000000000000own1"
OTHER_RUN = "0000000000000000000000thr2"
GRANTS = PodGrants(paths={"/data": False, "/reference": True}, claims={"archive": True}, queues=frozenset({"vc-open"}))


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    catalogue = new_catalogue()
    for kind in workflow_kinds():
        catalogue.register(kind)
    async with EmbeddedCluster(tmp_path / "cluster", catalogue, durability="process") as cluster:
        cluster.store.input_folder = "/home/inputs"
        await cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {
                    "name": NAMESPACE,
                    "labels": {"muster.dev/isolation": "restricted"},
                    "annotations": {"muster.dev/grants": GRANTS.to_annotation()},
                },
            }
        )
        yield cluster


def pod(spec: Any = None, *, main: Any = None, **metadata: Any) -> Object:
    container = {"name": "main", "image": "busybox", **(main or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": NAMESPACE, **metadata},
        "spec": {"containers": [container], **(spec or {})},
    }


def mounting(volume: Any, **mount: Any) -> Object:
    return pod(
        {"volumes": [{"name": "v", **volume}]},
        main={"volumeMounts": [{"name": "v", "mountPath": "/v", **mount}]},
    )


def host(path: str, **mount: Any) -> Object:
    return mounting({"hostPath": {"path": path}}, **mount)


def security(**context: Any) -> Object:
    return pod(main={"securityContext": context})


def env_from(**source: Any) -> Object:
    return pod(main={"env": [{"name": "A", "valueFrom": source}]})


def affinity(**term: Any) -> Object:
    rule = {"labelSelector": {}, "topologyKey": "kubernetes.io/hostname", **term}
    return pod({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}})


def initial(volume: Any, mount: Any) -> Object:
    copier = {"name": "init", "image": "busybox", "volumeMounts": [{"name": "v", "mountPath": "/mainctrfs/v", **mount}]}
    return pod({"volumes": [{"name": "v", **volume}], "initContainers": [copier]})


ATTACKS: list[tuple[str, Object, str]] = [
    ("mounts the machine's root", host("/"), "spec.volumes[0].hostPath.path"),
    ("mounts a folder of the machine", host("/etc"), "spec.volumes[0].hostPath.path"),
    ("leaves a storage root by ..", host("/data/../etc"), "spec.volumes[0].hostPath.path"),
    ("hides a path behind two slashes", host("/data//x"), "spec.volumes[0].hostPath.path"),
    ("mounts a folder below a root, where a symlink could be", host("/data/link"), "spec.volumes[0].hostPath.path"),
    ("adds a slash to a storage root", host("/data/"), "spec.volumes[0].hostPath.path"),
    ("mounts the inputs of another Pod", host(f"/home/inputs/{NAMESPACE}/q"), "spec.volumes[0].hostPath.path"),
    ("mounts the inputs of another namespace", host("/home/inputs/user-alice/p"), "spec.volumes[0].hostPath.path"),
    ("writes to a read-only storage root", host("/reference"), "spec.containers[0].volumeMounts[0]"),
    (
        "writes to a read-only storage root with readOnly false",
        host("/reference", readOnly=False),
        "spec.containers[0].volumeMounts[0]",
    ),
    (
        "writes to a read-only storage root through the init container of an input artifact",
        initial({"hostPath": {"path": "/reference"}}, {"readOnly": False}),
        "spec.initContainers[0].volumeMounts[0]",
    ),
    (
        "writes to a read-only claim",
        mounting({"persistentVolumeClaim": {"claimName": "archive"}}),
        "spec.containers[0].volumeMounts[0]",
    ),
    (
        "writes to a read-only claim as a raw device",
        pod(
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "archive"}}]},
            main={"volumeDevices": [{"name": "v", "devicePath": "/dev/xda"}]},
        ),
        "spec.containers[0].volumeDevices[0]",
    ),
    ("propagates mounts to the machine", host("/data", mountPropagation="Bidirectional"), "mountPropagation"),
    ("injects arguments into docker's --mount", host("/data", mountPath='/x",src=/,"dst=/host'), "mountPath"),
    ("mounts over /proc", mounting({"emptyDir": {}}, mountPath="/proc/sys"), "mountPath"),
    ("mounts over /sys", mounting({"emptyDir": {}}, mountPath="/sys"), "mountPath"),
    ("uses an NFS server of its choice", mounting({"nfs": {"server": "nas", "path": "/"}}), "volumes[0].nfs"),
    ("uses a CSI driver inline", mounting({"csi": {"driver": "secrets.example.com"}}), "volumes[0].csi"),
    (
        "lets the node clone a repository",
        mounting({"gitRepo": {"repository": "file:///root"}}),
        "volumes[0].gitRepo",
    ),
    (
        "binds any free volume through an ephemeral volume",
        mounting(
            {
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "spec": {
                            "accessModes": ["ReadWriteOnce"],
                            "resources": {"requests": {"storage": "1Gi"}},
                            "volumeName": "pv-of-alice",
                        }
                    }
                }
            }
        ),
        "volumeClaimTemplate.spec.volumeName",
    ),
    (
        "mounts a service account token for another audience",
        mounting({"projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}}]}}),
        "sources[0].serviceAccountToken",
    ),
    ("reads the Secret of another run as a variable",
     env_from(secretKeyRef={"name": f"run-{OTHER_RUN}", "key": "AI_HUB_TOKEN"}), "secretKeyRef.name"),
    ("reads the Secret of another run as a volume",
     mounting({"secret": {"secretName": f"run-{OTHER_RUN}"}}), "secret.secretName"),
    ("reads the Secret of another run with envFrom",
     pod(main={"envFrom": [{"secretRef": {"name": f"run-{OTHER_RUN}"}}]}), "envFrom[0].secretRef.name"),
    ("reads the Secret of another run in a projected volume",
     mounting({"projected": {"sources": [{"secret": {"name": f"run-{OTHER_RUN}"}}]}}), "sources[0].secret.name"),
    ("pulls images with the Secret of another run",
     pod({"imagePullSecrets": [{"name": f"run-{OTHER_RUN}"}]}), "imagePullSecrets[0].name"),
    ("runs privileged", security(privileged=True), "securityContext.privileged"),
    ("adds SYS_ADMIN", security(capabilities={"add": ["SYS_ADMIN"]}), "capabilities.add"),
    ("unmasks /proc", security(procMount="Unmasked"), "procMount"),
    ("turns seccomp off", security(seccompProfile={"type": "Unconfined"}), "seccompProfile"),
    ("turns AppArmor off", security(appArmorProfile={"type": "Unconfined"}), "appArmorProfile"),
    ("chooses an SELinux context", security(seLinuxOptions={"type": "spc_t"}), "seLinuxOptions"),
    ("joins groups of the machine", pod({"securityContext": {"supplementalGroups": [0]}}), "supplementalGroups"),
    ("sets a sysctl", pod({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}), "sysctls"),
    ("uses the network of the machine", pod({"hostNetwork": True}), "spec.hostNetwork"),
    ("sees the processes of the machine", pod({"hostPID": True}), "spec.hostPID"),
    ("uses the IPC of the machine", pod({"hostIPC": True}), "spec.hostIPC"),
    ("takes a port of the machine", pod(main={"ports": [{"containerPort": 1, "hostPort": 1}]}), "hostPort"),
    ("runs as another service account", pod({"serviceAccountName": "admin"}), "spec.serviceAccountName"),
    ("goes past the scheduler", pod({"nodeName": "node-1"}), "spec.nodeName"),
    ("takes a system priority", pod({"priorityClassName": "system-node-critical"}), "spec.priorityClassName"),
    ("sets its priority as a number", pod({"priority": 2000000000}), "spec.priority"),
    ("chooses a runtime class", pod({"runtimeClassName": "runc"}), "spec.runtimeClassName"),
    ("claims devices", pod({"resourceClaims": [{"name": "gpu"}]}), "spec.resourceClaims"),
    ("keeps Pods of other namespaces off its node", affinity(namespaceSelector={}), "namespaceSelector"),
    ("keeps Pods of a namespace off its node", affinity(namespaces=["user-alice"]), "namespaces"),
    ("lets the node probe another machine",
     pod(main={"livenessProbe": {"tcpSocket": {"host": "10.0.0.1", "port": 22}}}), "tcpSocket.host"),
    ("lets the node call another machine in a hook",
     pod(main={"lifecycle": {"preStop": {"httpGet": {"host": "10.0.0.1", "port": 80}}}}), "httpGet.host"),
    ("reads the kernel's files as termination message",
     pod(main={"terminationMessagePath": "/proc/1/environ"}), "terminationMessagePath"),
    ("chooses the runtime by annotation",
     pod(annotations={"muster.dev/runtime": "sandbox"}), "metadata.annotations[muster.dev/runtime]"),
    ("pretends to run by annotation",
     pod(annotations={"muster.dev/simulated-seconds": "1"}), "metadata.annotations[muster.dev/simulated-seconds]"),
    ("keeps /proc/1/environ as an output",
     pod(annotations={"muster.dev/keep-files": '{"main": ["/proc/1/environ"]}'}), "muster.dev/keep-files"),
    ("keeps /proc as an output by ..",
     pod(annotations={"muster.dev/keep-files": '{"main": ["/tmp/../proc/1/environ"]}'}), "muster.dev/keep-files"),
    ("turns AppArmor off by annotation",
     pod(annotations={"container.apparmor.security.beta.kubernetes.io/main": "unconfined"}), "apparmor"),
    ("turns seccomp off by annotation",
     pod(annotations={"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}), "seccomp"),
    ("uses the queue of another team by annotation",
     pod(annotations={"scheduling.volcano.sh/queue-name": "vc-closed"}), "queue-name"),
    ("takes the label of another run",
     pod(labels={"muster.dev/run": OTHER_RUN}), "metadata.labels[muster.dev/run]"),
    ("takes the label of an owner", pod(labels={"muster.dev/owner": "alice"}), "metadata.labels[muster.dev/owner]"),
    ("names a run as its owner without being its Pod",
     pod(main={"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": f"run-{OTHER_RUN}", "key": "a"}}}]},
         ownerReferences=[{"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": f"run-{OTHER_RUN}",
                           "uid": "guessed", "controller": True}]), "secretKeyRef.name"),
    ("blocks the deletion of its Pod for ever", pod(finalizers=["example.com/never"]), "metadata.finalizers"),
    (
        "binds a volume that is not its own",
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "c", "namespace": NAMESPACE},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "volumeName": "pv-of-alice",
            },
        },
        "spec.volumeName",
    ),
    (
        "sends a Service to addresses of the machine",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "s", "namespace": NAMESPACE},
            "spec": {"ports": [{"port": 80}], "externalIPs": ["10.0.0.1"]},
        },
        "spec.externalIPs",
    ),
    (
        "points a Service to another host",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "s", "namespace": NAMESPACE},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        },
        "spec.externalName",
    ),
    (
        "puts a PodGroup into the queue of another team",
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": NAMESPACE},
            "spec": {"minMember": 1, "queue": "vc-closed"},
        },
        "spec.queue",
    ),
    (
        "gives a PodGroup a system priority",
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": NAMESPACE},
            "spec": {"minMember": 1, "priorityClassName": "system-cluster-critical"},
        },
        "spec.priorityClassName",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("attack", "field"), [pytest.param(obj, field, id=f"A member's Pod {name}") for name, obj, field in ATTACKS]
)
async def test_refused_in_a_restricted_namespace(cluster: EmbeddedCluster, attack: Object, field: str) -> None:
    with pytest.raises((Forbidden, Invalid)) as refused:
        await cluster.create(copy_of(attack))
    assert any(field in cause.field for cause in refused.value.causes), refused.value
    assert refused.value.causes[0].field in refused.value.message


async def test_the_same_objects_are_allowed_elsewhere(cluster: EmbeddedCluster) -> None:
    """An admin's Pods in an unrestricted namespace are not checked."""
    for number, (_, attack, _) in enumerate(ATTACKS):
        obj = copy_of(attack)
        obj["metadata"] = {**obj["metadata"], "name": f"free-{number}", "namespace": "default"}
        try:
            await cluster.create(obj)
        except Forbidden as error:
            raise AssertionError(error) from error
        except ApiError:
            continue  # it is not valid anyway


@pytest.mark.parametrize(
    "allowed",
    [
        pytest.param(host("/data"), id="a storage root"),
        pytest.param(host("/reference", readOnly=True), id="a read-only storage root, read-only"),
        pytest.param(host(f"/home/inputs/{NAMESPACE}/p"), id="its own input artifacts"),
        pytest.param(mounting({"persistentVolumeClaim": {"claimName": "mine"}}), id="its own claim"),
        pytest.param(env_from(secretKeyRef={"name": "mine", "key": "a"}), id="its own Secret"),
        pytest.param(mounting({"configMap": {"name": "mine"}}), id="its own ConfigMap"),
        pytest.param(pod(annotations={"scheduling.volcano.sh/queue-name": "vc-open"}), id="a queue of its team"),
        pytest.param(pod({"priorityClassName": "batch"}), id="a usual priority"),
    ],
)
async def test_allowed_in_a_restricted_namespace(cluster: EmbeddedCluster, allowed: Object) -> None:
    await cluster.create(copy_of(allowed))


UPDATES: list[tuple[str, Object, str]] = [
    (
        "adds an ephemeral container that writes to a read-only root",
        {"spec": {"ephemeralContainers": [{"name": "e", "image": "x", "securityContext": {"privileged": True}}]}},
        "ephemeralContainers[0].securityContext.privileged",
    ),
    (
        "chooses the runtime after it was created",
        {"metadata": {"annotations": {"muster.dev/runtime": "sandbox"}}},
        "muster.dev/runtime",
    ),
    ("takes the label of another run later", {"metadata": {"labels": {"muster.dev/run": OTHER_RUN}}}, "muster.dev/run"),
    ("assigns itself to a node", {"spec": {"nodeName": "node-1"}}, "spec.nodeName"),
]


@pytest.mark.parametrize(
    ("patch", "field"), [pytest.param(patch, field, id=f"A member's Pod {name}") for name, patch, field in UPDATES]
)
async def test_updates_are_checked_too(cluster: EmbeddedCluster, patch: Object, field: str) -> None:
    await cluster.create(pod())
    with pytest.raises(ApiError) as refused:
        await cluster.patch(POD, "p", NAMESPACE, copy_of(patch))
    assert any(field in cause.field for cause in refused.value.causes) or "spec" in refused.value.message


async def test_a_pod_from_before_the_restriction_can_still_be_stopped(cluster: EmbeddedCluster) -> None:
    """A namespace that becomes restricted does not lock its Pods, but they gain nothing either."""
    namespaces = cluster.catalogue.of("v1", "Namespace")
    await cluster.patch(namespaces, NAMESPACE, "", {"metadata": {"labels": {"muster.dev/isolation": None}}})
    await cluster.create(host("/etc"))
    await cluster.patch(namespaces, NAMESPACE, "", {"metadata": {"labels": {"muster.dev/isolation": "restricted"}}})
    await cluster.patch(POD, "p", NAMESPACE, {"metadata": {"annotations": {"muster.dev/stop": "0"}}})
    with pytest.raises(Forbidden):
        await cluster.patch(POD, "p", NAMESPACE, {"metadata": {"annotations": {"muster.dev/runtime": "sandbox"}}})
    await cluster.delete(POD, "p", NAMESPACE)


async def test_a_pod_reads_the_secret_and_the_code_of_its_own_run(cluster: EmbeddedCluster) -> None:
    """Only the Pods of a run read its Secret, and the host paths that the platform wrote into its Workflow."""
    workflow = await cluster.create(
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Workflow",
            "metadata": {
                "name": f"run-{OWN_RUN}",
                "namespace": NAMESPACE,
                "labels": {"muster.dev/run": OWN_RUN},
                "annotations": {"muster.dev/read-only-paths": '["/modules/1"]'},
            },
            "spec": {"entrypoint": "main", "templates": [{"name": "main", "container": {"image": "x"}}]},
        }
    )
    reading = env_from(secretKeyRef={"name": f"run-{OWN_RUN}", "key": "a"})
    code = host("/modules/1", readOnly=True)
    for number, obj in enumerate((reading, code)):
        stranger = {**obj, "metadata": {**obj["metadata"], "name": f"stranger-{number}"}}
        with pytest.raises(Forbidden):
            await cluster.create(stranger)
        owned = {"name": f"own-{number}", "ownerReferences": [owner_reference(workflow)]}
        labels = {"muster.dev/run": OWN_RUN}
        await cluster.create({**obj, "metadata": {**obj["metadata"], **owned, "labels": labels}})
    writing = host("/modules/1")
    owned = {"name": "writer", "ownerReferences": [owner_reference(workflow)]}
    with pytest.raises(Forbidden):
        await cluster.create({**writing, "metadata": {**writing["metadata"], **owned}})


async def test_a_volume_that_an_admin_reserves_may_be_claimed(cluster: EmbeddedCluster) -> None:
    """volumeName works for the claim that the volume's claimRef names, and for no other."""
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "pv-1"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "hostPath": {"path": "/srv/1"},
            "claimRef": {"namespace": NAMESPACE, "name": "granted"},
        },
    }
    await cluster.create(volume)

    def claim(name: str) -> Object:
        spec = {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": "pv-1",
            "storageClassName": "",
        }
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": spec,
        }

    await cluster.create(claim("granted"))
    with pytest.raises(Forbidden):
        await cluster.create(claim("another"))
