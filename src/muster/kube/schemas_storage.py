"""PersistentVolume, PersistentVolumeClaim, StorageClass."""

from __future__ import annotations

from typing import Final

from muster.kube.schema import (
    BOOLEAN,
    INT32,
    RESOURCES,
    STRING,
    STRING_MAP,
    STRINGS,
    TIME,
    list_of,
    obj,
    of,
    root,
    string,
)
from muster.kube.schemas_meta import NODE_SELECTOR, OBJECT_REFERENCE, SECRET_REFERENCE, TOPOLOGY_SELECTOR_TERM
from muster.kube.schemas_volumes import (
    AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE,
    AZURE_DISK_VOLUME_SOURCE,
    FC_VOLUME_SOURCE,
    FLOCKER_VOLUME_SOURCE,
    GCE_PERSISTENT_DISK_VOLUME_SOURCE,
    HOST_PATH_VOLUME_SOURCE,
    NFS_VOLUME_SOURCE,
    PERSISTENT_VOLUME_CLAIM_SPEC,
    PHOTON_PERSISTENT_DISK_VOLUME_SOURCE,
    PORTWORX_VOLUME_SOURCE,
    QUOBYTE_VOLUME_SOURCE,
    VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE,
)

AZURE_FILE_PERSISTENT_VOLUME_SOURCE: Final = obj(
    {
        **of(STRING, "secretName secretNamespace shareName"),
        "readOnly": BOOLEAN,
    },
    ["secretName", "shareName"],
)
CEPH_FS_PERSISTENT_VOLUME_SOURCE: Final = obj(
    {
        **of(STRING, "path secretFile user"),
        "monitors": STRINGS,
        "readOnly": BOOLEAN,
        "secretRef": SECRET_REFERENCE,
    },
    ["monitors"],
)
CINDER_PERSISTENT_VOLUME_SOURCE: Final = obj(
    {
        **of(STRING, "fsType volumeID"),
        "readOnly": BOOLEAN,
        "secretRef": SECRET_REFERENCE,
    },
    ["volumeID"],
)
CSI_PERSISTENT_VOLUME_SOURCE: Final = obj(
    {
        **of(SECRET_REFERENCE, "controllerExpandSecretRef controllerPublishSecretRef nodeExpandSecretRef"),
        **of(SECRET_REFERENCE, "nodePublishSecretRef nodeStageSecretRef"),
        **of(STRING, "driver fsType volumeHandle"),
        "readOnly": BOOLEAN,
        "volumeAttributes": STRING_MAP,
    },
    ["driver", "volumeHandle"],
)
FLEX_PERSISTENT_VOLUME_SOURCE: Final = obj(
    {
        **of(STRING, "driver fsType"),
        "options": STRING_MAP,
        "readOnly": BOOLEAN,
        "secretRef": SECRET_REFERENCE,
    },
    ["driver"],
)
GLUSTERFS_PERSISTENT_VOLUME_SOURCE: Final = obj(
    {
        **of(STRING, "endpoints endpointsNamespace path"),
        "readOnly": BOOLEAN,
    },
    ["endpoints", "path"],
)
ISCSI_PERSISTENT_VOLUME_SOURCE: Final = obj(
    {
        **of(STRING, "fsType initiatorName iqn iscsiInterface targetPortal"),
        **of(BOOLEAN, "chapAuthDiscovery chapAuthSession readOnly"),
        "lun": INT32,
        "portals": STRINGS,
        "secretRef": SECRET_REFERENCE,
    },
    ["targetPortal", "iqn", "lun"],
)
LOCAL_VOLUME_SOURCE: Final = obj({**of(STRING, "fsType path")}, ["path"])
VOLUME_NODE_AFFINITY: Final = obj({"required": NODE_SELECTOR})
RBD_PERSISTENT_VOLUME_SOURCE: Final = obj(
    {
        **of(STRING, "fsType image keyring pool user"),
        "monitors": STRINGS,
        "readOnly": BOOLEAN,
        "secretRef": SECRET_REFERENCE,
    },
    ["monitors", "image"],
)
SCALE_IO_PERSISTENT_VOLUME_SOURCE: Final = obj(
    {
        **of(STRING, "fsType gateway protectionDomain storageMode storagePool system volumeName"),
        **of(BOOLEAN, "readOnly sslEnabled"),
        "secretRef": SECRET_REFERENCE,
    },
    ["gateway", "system", "secretRef"],
)
STORAGE_OS_PERSISTENT_VOLUME_SOURCE: Final = obj(
    {
        **of(STRING, "fsType volumeName volumeNamespace"),
        "readOnly": BOOLEAN,
        "secretRef": OBJECT_REFERENCE,
    },
)
PERSISTENT_VOLUME_SPEC: Final = obj(
    {
        **of(STRING, "storageClassName volumeAttributesClassName"),
        "accessModes": list_of(string(["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"])),
        "awsElasticBlockStore": AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE,
        "azureDisk": AZURE_DISK_VOLUME_SOURCE,
        "azureFile": AZURE_FILE_PERSISTENT_VOLUME_SOURCE,
        "capacity": RESOURCES,
        "cephfs": CEPH_FS_PERSISTENT_VOLUME_SOURCE,
        "cinder": CINDER_PERSISTENT_VOLUME_SOURCE,
        "claimRef": OBJECT_REFERENCE,
        "csi": CSI_PERSISTENT_VOLUME_SOURCE,
        "fc": FC_VOLUME_SOURCE,
        "flexVolume": FLEX_PERSISTENT_VOLUME_SOURCE,
        "flocker": FLOCKER_VOLUME_SOURCE,
        "gcePersistentDisk": GCE_PERSISTENT_DISK_VOLUME_SOURCE,
        "glusterfs": GLUSTERFS_PERSISTENT_VOLUME_SOURCE,
        "hostPath": HOST_PATH_VOLUME_SOURCE,
        "iscsi": ISCSI_PERSISTENT_VOLUME_SOURCE,
        "local": LOCAL_VOLUME_SOURCE,
        "mountOptions": STRINGS,
        "nfs": NFS_VOLUME_SOURCE,
        "nodeAffinity": VOLUME_NODE_AFFINITY,
        "persistentVolumeReclaimPolicy": string(["Retain", "Recycle", "Delete"]),
        "photonPersistentDisk": PHOTON_PERSISTENT_DISK_VOLUME_SOURCE,
        "portworxVolume": PORTWORX_VOLUME_SOURCE,
        "quobyte": QUOBYTE_VOLUME_SOURCE,
        "rbd": RBD_PERSISTENT_VOLUME_SOURCE,
        "scaleIO": SCALE_IO_PERSISTENT_VOLUME_SOURCE,
        "storageos": STORAGE_OS_PERSISTENT_VOLUME_SOURCE,
        "volumeMode": string(["Filesystem", "Block"]),
        "vsphereVolume": VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE,
    },
)
PERSISTENT_VOLUME_STATUS: Final = obj(
    {
        **of(STRING, "message reason"),
        "lastPhaseTransitionTime": TIME,
        "phase": string(["Pending", "Available", "Bound", "Released", "Failed"]),
    },
)
PERSISTENT_VOLUME_SCHEMA: Final = root({"spec": PERSISTENT_VOLUME_SPEC, "status": PERSISTENT_VOLUME_STATUS})
PERSISTENT_VOLUME_CLAIM_CONDITION: Final = obj(
    {
        **of(STRING, "message reason status type"),
        **of(TIME, "lastProbeTime lastTransitionTime"),
    },
)
MODIFY_VOLUME_STATUS: Final = obj({**of(STRING, "status targetVolumeAttributesClassName")})
PERSISTENT_VOLUME_CLAIM_STATUS: Final = obj(
    {
        **of(RESOURCES, "allocatedResources capacity"),
        "accessModes": STRINGS,
        "allocatedResourceStatuses": STRING_MAP,
        "conditions": list_of(PERSISTENT_VOLUME_CLAIM_CONDITION, map_keys=["type"], patch_merge_key="type"),
        "currentVolumeAttributesClassName": STRING,
        "modifyVolumeStatus": MODIFY_VOLUME_STATUS,
        "phase": string(["Pending", "Bound", "Lost"]),
    },
)
PERSISTENT_VOLUME_CLAIM_SCHEMA: Final = root(
    {
        "spec": PERSISTENT_VOLUME_CLAIM_SPEC,
        "status": PERSISTENT_VOLUME_CLAIM_STATUS,
    },
)
STORAGE_CLASS_SCHEMA: Final = root(
    {
        "allowVolumeExpansion": BOOLEAN,
        "allowedTopologies": list_of(TOPOLOGY_SELECTOR_TERM),
        "mountOptions": STRINGS,
        "parameters": STRING_MAP,
        "provisioner": STRING,
        "reclaimPolicy": string(["Delete", "Retain"]),
        "volumeBindingMode": string(["Immediate", "WaitForFirstConsumer"]),
    },
    ["provisioner"],
)
