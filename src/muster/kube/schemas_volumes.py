"""The sources a volume can come from."""

from __future__ import annotations

from typing import Final

from muster.kube.schema import (
    BOOLEAN,
    INT32,
    INT64,
    OBJECT_META,
    QUANTITY,
    STRING,
    STRING_MAP,
    STRINGS,
    list_of,
    obj,
    of,
    string,
)
from muster.kube.schemas_meta import (
    LABEL_SELECTOR,
    LOCAL_OBJECT_REFERENCE,
    TYPED_LOCAL_OBJECT_REFERENCE,
    TYPED_OBJECT_REFERENCE,
    VOLUME_RESOURCE_REQUIREMENTS,
)

AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE: Final = obj(
    {
        **of(STRING, "fsType volumeID"),
        "partition": INT32,
        "readOnly": BOOLEAN,
    },
    ["volumeID"],
)
AZURE_DISK_VOLUME_SOURCE: Final = obj(
    {
        **of(STRING, "cachingMode diskName diskURI fsType kind"),
        "readOnly": BOOLEAN,
    },
    ["diskName", "diskURI"],
)
AZURE_FILE_VOLUME_SOURCE: Final = obj(
    {
        **of(STRING, "secretName shareName"),
        "readOnly": BOOLEAN,
    },
    ["secretName", "shareName"],
)
CEPH_FS_VOLUME_SOURCE: Final = obj(
    {
        **of(STRING, "path secretFile user"),
        "monitors": STRINGS,
        "readOnly": BOOLEAN,
        "secretRef": LOCAL_OBJECT_REFERENCE,
    },
    ["monitors"],
)
CINDER_VOLUME_SOURCE: Final = obj(
    {
        **of(STRING, "fsType volumeID"),
        "readOnly": BOOLEAN,
        "secretRef": LOCAL_OBJECT_REFERENCE,
    },
    ["volumeID"],
)
KEY_TO_PATH: Final = obj({**of(STRING, "key path"), "mode": INT32}, ["key", "path"])
CONFIG_MAP_VOLUME_SOURCE: Final = obj(
    {
        "defaultMode": INT32,
        "items": list_of(KEY_TO_PATH),
        "name": STRING,
        "optional": BOOLEAN,
    },
)
CSI_VOLUME_SOURCE: Final = obj(
    {
        **of(STRING, "driver fsType"),
        "nodePublishSecretRef": LOCAL_OBJECT_REFERENCE,
        "readOnly": BOOLEAN,
        "volumeAttributes": STRING_MAP,
    },
    ["driver"],
)
OBJECT_FIELD_SELECTOR: Final = obj({**of(STRING, "apiVersion fieldPath")}, ["fieldPath"], atomic=True)
RESOURCE_FIELD_SELECTOR: Final = obj(
    {
        **of(STRING, "containerName resource"),
        "divisor": QUANTITY,
    },
    ["resource"],
    atomic=True,
)
DOWNWARD_API_VOLUME_FILE: Final = obj(
    {
        "fieldRef": OBJECT_FIELD_SELECTOR,
        "mode": INT32,
        "path": STRING,
        "resourceFieldRef": RESOURCE_FIELD_SELECTOR,
    },
    ["path"],
)
DOWNWARD_API_VOLUME_SOURCE: Final = obj({"defaultMode": INT32, "items": list_of(DOWNWARD_API_VOLUME_FILE)})
EMPTY_DIR_VOLUME_SOURCE: Final = obj({"medium": STRING, "sizeLimit": QUANTITY})
PERSISTENT_VOLUME_CLAIM_SPEC: Final = obj(
    {
        **of(STRING, "storageClassName volumeAttributesClassName volumeName"),
        "accessModes": list_of(string(["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"])),
        "dataSource": TYPED_LOCAL_OBJECT_REFERENCE,
        "dataSourceRef": TYPED_OBJECT_REFERENCE,
        "resources": VOLUME_RESOURCE_REQUIREMENTS,
        "selector": LABEL_SELECTOR,
        "volumeMode": string(["Filesystem", "Block"]),
    },
)
PERSISTENT_VOLUME_CLAIM_TEMPLATE: Final = obj(
    {
        "metadata": OBJECT_META,
        "spec": PERSISTENT_VOLUME_CLAIM_SPEC,
    },
    ["spec"],
)
EPHEMERAL_VOLUME_SOURCE: Final = obj({"volumeClaimTemplate": PERSISTENT_VOLUME_CLAIM_TEMPLATE})
FC_VOLUME_SOURCE: Final = obj(
    {
        **of(STRINGS, "targetWWNs wwids"),
        "fsType": STRING,
        "lun": INT32,
        "readOnly": BOOLEAN,
    },
)
FLEX_VOLUME_SOURCE: Final = obj(
    {
        **of(STRING, "driver fsType"),
        "options": STRING_MAP,
        "readOnly": BOOLEAN,
        "secretRef": LOCAL_OBJECT_REFERENCE,
    },
    ["driver"],
)
FLOCKER_VOLUME_SOURCE: Final = obj({**of(STRING, "datasetName datasetUUID")})
GCE_PERSISTENT_DISK_VOLUME_SOURCE: Final = obj(
    {
        **of(STRING, "fsType pdName"),
        "partition": INT32,
        "readOnly": BOOLEAN,
    },
    ["pdName"],
)
GIT_REPO_VOLUME_SOURCE: Final = obj({**of(STRING, "directory repository revision")}, ["repository"])
GLUSTERFS_VOLUME_SOURCE: Final = obj({**of(STRING, "endpoints path"), "readOnly": BOOLEAN}, ["endpoints", "path"])
HOST_PATH_VOLUME_SOURCE: Final = obj(
    {
        "path": STRING,
        "type": string(
            ["", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"]
        ),
    },
    ["path"],
)
IMAGE_VOLUME_SOURCE: Final = obj({**of(STRING, "pullPolicy reference")})
ISCSI_VOLUME_SOURCE: Final = obj(
    {
        **of(STRING, "fsType initiatorName iqn iscsiInterface targetPortal"),
        **of(BOOLEAN, "chapAuthDiscovery chapAuthSession readOnly"),
        "lun": INT32,
        "portals": STRINGS,
        "secretRef": LOCAL_OBJECT_REFERENCE,
    },
    ["targetPortal", "iqn", "lun"],
)
NFS_VOLUME_SOURCE: Final = obj({**of(STRING, "path server"), "readOnly": BOOLEAN}, ["server", "path"])
PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE: Final = obj({"claimName": STRING, "readOnly": BOOLEAN}, ["claimName"])
PHOTON_PERSISTENT_DISK_VOLUME_SOURCE: Final = obj({**of(STRING, "fsType pdID")}, ["pdID"])
PORTWORX_VOLUME_SOURCE: Final = obj({**of(STRING, "fsType volumeID"), "readOnly": BOOLEAN}, ["volumeID"])
CLUSTER_TRUST_BUNDLE_PROJECTION: Final = obj(
    {
        **of(STRING, "name path signerName"),
        "labelSelector": LABEL_SELECTOR,
        "optional": BOOLEAN,
    },
    ["path"],
)
CONFIG_MAP_PROJECTION: Final = obj({"items": list_of(KEY_TO_PATH), "name": STRING, "optional": BOOLEAN})
DOWNWARD_API_PROJECTION: Final = obj({"items": list_of(DOWNWARD_API_VOLUME_FILE)})
POD_CERTIFICATE_PROJECTION: Final = obj(
    {
        **of(STRING, "certificateChainPath credentialBundlePath keyPath keyType signerName"),
        "maxExpirationSeconds": INT32,
        "userAnnotations": STRING_MAP,
    },
    ["signerName", "keyType"],
)
SECRET_PROJECTION: Final = obj({"items": list_of(KEY_TO_PATH), "name": STRING, "optional": BOOLEAN})
SERVICE_ACCOUNT_TOKEN_PROJECTION: Final = obj({**of(STRING, "audience path"), "expirationSeconds": INT64}, ["path"])
VOLUME_PROJECTION: Final = obj(
    {
        "clusterTrustBundle": CLUSTER_TRUST_BUNDLE_PROJECTION,
        "configMap": CONFIG_MAP_PROJECTION,
        "downwardAPI": DOWNWARD_API_PROJECTION,
        "podCertificate": POD_CERTIFICATE_PROJECTION,
        "secret": SECRET_PROJECTION,
        "serviceAccountToken": SERVICE_ACCOUNT_TOKEN_PROJECTION,
    },
)
PROJECTED_VOLUME_SOURCE: Final = obj({"defaultMode": INT32, "sources": list_of(VOLUME_PROJECTION)})
QUOBYTE_VOLUME_SOURCE: Final = obj(
    {
        **of(STRING, "group registry tenant user volume"),
        "readOnly": BOOLEAN,
    },
    ["registry", "volume"],
)
RBD_VOLUME_SOURCE: Final = obj(
    {
        **of(STRING, "fsType image keyring pool user"),
        "monitors": STRINGS,
        "readOnly": BOOLEAN,
        "secretRef": LOCAL_OBJECT_REFERENCE,
    },
    ["monitors", "image"],
)
SCALE_IO_VOLUME_SOURCE: Final = obj(
    {
        **of(STRING, "fsType gateway protectionDomain storageMode storagePool system volumeName"),
        **of(BOOLEAN, "readOnly sslEnabled"),
        "secretRef": LOCAL_OBJECT_REFERENCE,
    },
    ["gateway", "system", "secretRef"],
)
SECRET_VOLUME_SOURCE: Final = obj(
    {
        "defaultMode": INT32,
        "items": list_of(KEY_TO_PATH),
        "optional": BOOLEAN,
        "secretName": STRING,
    },
)
STORAGE_OS_VOLUME_SOURCE: Final = obj(
    {
        **of(STRING, "fsType volumeName volumeNamespace"),
        "readOnly": BOOLEAN,
        "secretRef": LOCAL_OBJECT_REFERENCE,
    },
)
VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE: Final = obj(
    {
        **of(STRING, "fsType storagePolicyID storagePolicyName volumePath"),
    },
    ["volumePath"],
)
VOLUME: Final = obj(
    {
        "awsElasticBlockStore": AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE,
        "azureDisk": AZURE_DISK_VOLUME_SOURCE,
        "azureFile": AZURE_FILE_VOLUME_SOURCE,
        "cephfs": CEPH_FS_VOLUME_SOURCE,
        "cinder": CINDER_VOLUME_SOURCE,
        "configMap": CONFIG_MAP_VOLUME_SOURCE,
        "csi": CSI_VOLUME_SOURCE,
        "downwardAPI": DOWNWARD_API_VOLUME_SOURCE,
        "emptyDir": EMPTY_DIR_VOLUME_SOURCE,
        "ephemeral": EPHEMERAL_VOLUME_SOURCE,
        "fc": FC_VOLUME_SOURCE,
        "flexVolume": FLEX_VOLUME_SOURCE,
        "flocker": FLOCKER_VOLUME_SOURCE,
        "gcePersistentDisk": GCE_PERSISTENT_DISK_VOLUME_SOURCE,
        "gitRepo": GIT_REPO_VOLUME_SOURCE,
        "glusterfs": GLUSTERFS_VOLUME_SOURCE,
        "hostPath": HOST_PATH_VOLUME_SOURCE,
        "image": IMAGE_VOLUME_SOURCE,
        "iscsi": ISCSI_VOLUME_SOURCE,
        "name": STRING,
        "nfs": NFS_VOLUME_SOURCE,
        "persistentVolumeClaim": PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE,
        "photonPersistentDisk": PHOTON_PERSISTENT_DISK_VOLUME_SOURCE,
        "portworxVolume": PORTWORX_VOLUME_SOURCE,
        "projected": PROJECTED_VOLUME_SOURCE,
        "quobyte": QUOBYTE_VOLUME_SOURCE,
        "rbd": RBD_VOLUME_SOURCE,
        "scaleIO": SCALE_IO_VOLUME_SOURCE,
        "secret": SECRET_VOLUME_SOURCE,
        "storageos": STORAGE_OS_VOLUME_SOURCE,
        "vsphereVolume": VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE,
    },
    ["name"],
)
