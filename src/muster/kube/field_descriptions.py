"""What `kubectl explain` says about fields: a sentence of ours for those that users meet, and one that is made of the
field's name and type for all others. Schemas themselves have no descriptions, which would make them ten times as large.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from muster.kube.kinds import Kind, Schema

KINDS: Final[Mapping[str, str]] = {
    "ClusterRole": "Permissions in all namespaces, or a set of them for RoleBindings to give.",
    "ClusterRoleBinding": "Gives the permissions of a ClusterRole everywhere.",
    "ConfigMap": "Settings as keys and values, for containers to read as variables or files.",
    "CronJob": "Creates a Job at each time of a schedule.",
    "CustomResourceDefinition": "Adds a kind to the cluster, with its names, versions and schemas.",
    "Endpoints": "The addresses of the Pods behind a Service. EndpointSlice is the newer form.",
    "EndpointSlice": "Up to 100 of the Pods behind a Service, with their ports.",
    "Event": "Something that happened to an object, and how often.",
    "Job": "Runs Pods until enough of them have succeeded.",
    "Lease": "Says who holds a role, such as that of the leader, and until when.",
    "LimitRange": "Defaults and limits for the resources of each container, Pod or claim of a namespace.",
    "Namespace": "A part of the cluster with names and permissions of its own.",
    "Node": "A machine that runs Pods.",
    "PersistentVolume": "A piece of storage that outlives Pods.",
    "PersistentVolumeClaim": "A request for storage. Pods mount the claim.",
    "Pod": "One or more containers that run on the same machine and share its volumes.",
    "PodGroup": "Pods that start together or not at all.",
    "PodTemplate": "A description of Pods for controllers to create.",
    "PriorityClass": "A name for how important Pods are.",
    "Queue": "Where PodGroups wait, with a share of the cluster.",
    "ResourceQuota": "Limits what all objects of a namespace use together.",
    "Role": "Permissions in a namespace.",
    "RoleBinding": "Gives the permissions of a Role or ClusterRole in a namespace.",
    "Secret": "Like a ConfigMap, for confidential values. It is encrypted on disk.",
    "Service": "A name and ports that lead to the Pods a selector matches.",
    "ServiceAccount": "An identity for the programs in Pods.",
    "StorageClass": "A way to create storage for claims.",
}
_FIELDS: Final[Mapping[str, str]] = {
    # Every object.
    "apiVersion": "APIVersion defines which version of the kind's schema this object is written in: group/version.",
    "kind": "Kind says what this object is. It cannot be changed.",
    "metadata": "The name, namespace, labels and other data that every object has.",
    "spec": "What you ask for.",
    "status": "What is. Controllers write it.",
    "annotations": "Notes for tools and people, as keys and values of any text. They cannot be selected by.",
    "creationTimestamp": "When the object was created. The server sets it.",
    "deletionTimestamp": "When its deletion was asked for. It stays until its finalizers are gone.",
    "finalizers": "Controllers that have something to do before the object may be removed.",
    "generateName": "The beginning of a name to which the server adds five characters, if there is no name.",
    "generation": "Counts the changes of the spec.",
    "labels": "Keys and values to select objects by.",
    "managedFields": "Who has set which fields, for server-side apply.",
    "ownerReferences": "The objects that this one belongs to. It is deleted when all of them are gone.",
    "resourceVersion": "Changes with every write. Send it back to change only what you have seen.",
    "uid": "Identifies this object among all that ever had its name.",
    # Pods and containers.
    "activeDeadlineSeconds": "How many seconds it may run before it is stopped and fails.",
    "affinity": "Rules about the nodes and the other Pods it should, or should not, run beside.",
    "args": "Arguments of the command. The image's CMD, if left out. $(NAME) is replaced by a variable.",
    "command": "The program to run, with its first arguments. The image's ENTRYPOINT, if left out.",
    "containers": "The containers that run at the same time. There is at least one.",
    "env": "Environment variables.",
    "envFrom": "ConfigMaps and Secrets whose keys become environment variables.",
    "hostNetwork": "Whether to use the machine's own network.",
    "image": "The image that the container is made of.",
    "imagePullPolicy": "When the image is pulled: always, never, or only if it is missing.",
    "initContainers": "Containers that run one after another before the others start.",
    "lifecycle": "What to run right after the container starts, and before it is stopped.",
    "livenessProbe": "How to find out whether the container still works. It is restarted if not.",
    "nodeName": "The node that it runs on. The scheduler sets it.",
    "nodeSelector": "Labels that the node must have.",
    "phase": "Where it is in its life, in one word.",
    "ports": "The ports to reach it by.",
    "priorityClassName": "The PriorityClass that says how important it is.",
    "readinessProbe": "How to find out whether the container can serve. Services leave it out if not.",
    "resources": "How much CPU, memory and other resources it needs (requests), and may use (limits).",
    "restartPolicy": "Whether containers that end are started again.",
    "schedulerName": "The scheduler that chooses its node.",
    "securityContext": "The user it runs as, and what it is allowed to do.",
    "serviceAccountName": "The ServiceAccount whose permissions the programs in it have.",
    "startupProbe": "How to find out whether the container has started. Other probes wait for it.",
    "suspend": "Whether to stop for now. Running Pods are removed.",
    "template": "The Pods to create.",
    "terminationGracePeriodSeconds": "How many seconds it has to end by itself before it is killed.",
    "tolerations": "Taints of nodes that it may run on in spite of them.",
    "ttlSecondsAfterFinished": "How many seconds it is kept after it has ended.",
    "volumeMounts": "Where volumes appear in the file system of the container.",
    "volumes": "Folders that containers can mount.",
    "workingDir": "The folder that the program starts in.",
    # Jobs and CronJobs.
    "backoffLimit": "How many Pods may fail before the Job does.",
    "completions": "How many Pods have to succeed.",
    "concurrencyPolicy": "What happens at the next time if the last Job still runs.",
    "jobTemplate": "The Jobs to create.",
    "parallelism": "How many Pods may run at the same time.",
    "schedule": "When, in five fields: minute, hour, day of month, month, day of week.",
    "timeZone": "The time zone of the schedule, such as Asia/Shanghai.",
    # Others.
    "conditions": "What is true of the object right now, one entry for each question.",
    "data": "Keys and values.",
    "hard": "The limit for each resource.",
    "selector": "The labels of the objects it is about.",
    "stringData": "Values as plain text. They are stored in `data`.",
    "used": "How much of each limit is used.",
}
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
_UNITS = {"Seconds": "in seconds", "Minutes": "in minutes", "Bytes": "in bytes", "Percent": "as a percentage"}


def describe_kind(kind: Kind) -> str:
    return KINDS.get(kind.kind, "") if kind.is_builtin or kind.kind in ("PodGroup", "Queue") else ""


def describe_field(name: str, schema: Schema) -> str:
    """Returns a sentence or two about a field."""
    if name in _FIELDS:
        return _FIELDS[name]
    for ending, unit in _UNITS.items():
        if name.endswith(ending) and name != ending:
            return f"{_spell(name.removesuffix(ending))}, {unit}."
    if schema.get("format") == "date-time" or name.endswith(("Time", "Timestamp")):
        return f"{_spell(name)}, as a time such as 2026-01-31T12:00:00Z."
    for ending in ("Ref", "Reference"):
        if name.endswith(ending) and name != ending:
            return f"Refers to the {_spell(name.removesuffix(ending)).lower()}, by its name."
    if name.endswith("Name") and name != "Name":
        return f"The name of the {_spell(name.removesuffix('Name')).lower()}."
    words = _spell(name)
    match schema.get("type"):
        case "boolean":
            return f"Whether it applies: {words.lower()}."
        case "array":
            return f"A list: {words.lower()}."
        case "object" if schema.get("additionalProperties"):
            return f"Keys and values: {words.lower()}."
    return f"{words}."


def _spell(name: str) -> str:
    """`podAntiAffinity` -> `Pod anti affinity`, `podIP` -> `Pod IP`."""
    words = [word if len(word) > 1 and word.isupper() else word.lower() for word in _WORDS.findall(name)]
    text = " ".join(words) or name
    return text[:1].upper() + text[1:]
