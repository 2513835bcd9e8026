"""Schemas of artifacts: locations, archives, garbage collection, repositories."""

from __future__ import annotations

from typing import Final

from muster.kube.schema import (
    BOOLEAN,
    EMPTY,
    INT32,
    STRING,
    STRING_MAP,
    STRINGS,
    integer,
    list_of,
    obj,
    of,
    upstream_schema,
)

METADATA: Final = obj({**of(STRING_MAP, "annotations labels")})

ARCHIVE: Final = obj({"none": EMPTY, "tar": obj({"compressionLevel": INT32}), "zip": EMPTY})
_GARBAGE_COLLECTION: Final = {"podMetadata": METADATA, "serviceAccountName": STRING, "strategy": STRING}
ARTIFACT_GC: Final = obj(_GARBAGE_COLLECTION)
WORKFLOW_ARTIFACT_GC: Final = obj({**_GARBAGE_COLLECTION, "forceFinalizerRemoval": BOOLEAN, "podSpecPatch": STRING})

_SECRET_KEY: Final = upstream_schema("core.v1.SecretKeySelector")
_ARTIFACTORY: Final = of(_SECRET_KEY, "passwordSecret usernameSecret")
_AZURE: Final = {
    **of(STRING, "container endpoint"),
    "accountKeySecret": _SECRET_KEY,
    "useSDKCreds": BOOLEAN,
}
_GCS: Final = {"bucket": STRING, "serviceAccountKeySecret": _SECRET_KEY}
_HDFS: Final = {
    **of(STRING, "dataTransferProtection hdfsUser krbRealm krbServicePrincipalName krbUsername"),
    **of(_SECRET_KEY, "krbCCacheSecret krbKeytabSecret"),
    "addresses": STRINGS,
    "force": BOOLEAN,
    "krbConfigConfigMap": upstream_schema("core.v1.ConfigMapKeySelector"),
}
_OSS: Final = {
    **of(STRING, "bucket endpoint securityToken"),
    **of(BOOLEAN, "createBucketIfNotPresent useSDKCreds"),
    **of(_SECRET_KEY, "accessKeySecret secretKeySecret"),
    "lifecycleRule": obj({**of(INT32, "markDeletionAfterDays markInfrequentAccessAfterDays")}),
}
_PLUGIN: Final = {**of(STRING, "configuration name")}
_S3: Final = {
    **of(STRING, "bucket endpoint region roleARN"),
    **of(BOOLEAN, "insecure useSDKCreds"),
    **of(_SECRET_KEY, "accessKeySecret caSecret secretKeySecret sessionTokenSecret"),
    "createBucketIfNotPresent": obj({"objectLocking": BOOLEAN}),
    "encryptionOptions": obj({
        **of(STRING, "kmsEncryptionContext kmsKeyId"),
        "enableEncryption": BOOLEAN,
        "serverSideCustomerKeySecret": _SECRET_KEY,
    }),
}  # fmt: skip

GIT: Final = obj({
    **of(STRING, "branch repo revision"),
    **of(BOOLEAN, "disableSubmodules insecureIgnoreHostKey insecureSkipTLS singleBranch"),
    **of(_SECRET_KEY, "passwordSecret sshPrivateKeySecret usernameSecret"),
    "depth": integer(0, format="int64"),
    "fetch": STRINGS,
})  # fmt: skip
HTTP_AUTH: Final = obj({
    "basicAuth": obj({**of(_SECRET_KEY, "passwordSecret usernameSecret")}),
    "clientCert": obj({**of(_SECRET_KEY, "clientCertSecret clientKeySecret")}),
    "oauth2": obj({
        **of(_SECRET_KEY, "clientIDSecret clientSecretSecret tokenURLSecret"),
        "endpointParams": list_of(obj({**of(STRING, "key value")})),
        "scopes": STRINGS,
    }),
})  # fmt: skip
HTTP: Final = obj({"auth": HTTP_AUTH, "headers": list_of(obj({**of(STRING, "name value")})), "url": STRING})

_LOCATION: Final = {
    "archiveLogs": BOOLEAN,
    "artifactory": obj({**_ARTIFACTORY, "url": STRING}),
    "azure": obj({**_AZURE, "blob": STRING}),
    "gcs": obj({**_GCS, "key": STRING}),
    "git": GIT,
    "hdfs": obj({**_HDFS, "path": STRING}),
    "http": HTTP,
    "oss": obj({**_OSS, "key": STRING}),
    "plugin": obj({**_PLUGIN, "connectionTimeoutSeconds": INT32, "key": STRING}),
    "raw": obj({"data": STRING}),
    "s3": obj({**_S3, "key": STRING}),
}
LOCATION: Final = obj(_LOCATION)
ARTIFACT: Final = obj({
    **_LOCATION,
    **of(STRING, "from fromExpression globalName name path subPath"),
    **of(BOOLEAN, "deleted optional recurseMode"),
    "archive": ARCHIVE,
    "artifactGC": ARTIFACT_GC,
    "mode": INT32,
})  # fmt: skip
ARTIFACTS: Final = list_of(ARTIFACT)

REPOSITORY_REF: Final = obj({**of(STRING, "configMap key")})
REPOSITORY: Final = obj({
    "archiveLogs": BOOLEAN,
    "artifactory": obj({**_ARTIFACTORY, **of(STRING, "keyFormat repoURL")}),
    "azure": obj({**_AZURE, "blobNameFormat": STRING}),
    "gcs": obj({**_GCS, "keyFormat": STRING}),
    "hdfs": obj({**_HDFS, "pathFormat": STRING}),
    "oss": obj({**_OSS, "keyFormat": STRING}),
    "plugin": obj({**_PLUGIN, "keyFormat": STRING}),
    "s3": obj({**_S3, **of(STRING, "keyFormat keyPrefix")}),
})  # fmt: skip
