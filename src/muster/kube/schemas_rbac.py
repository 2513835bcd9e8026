"""Roles and who has them."""

from __future__ import annotations

from typing import Final

from muster.kube.schema import STRING, STRINGS, list_of, obj, of, root, string
from muster.kube.schemas_meta import LABEL_SELECTOR

POLICY_RULE: Final = obj({**of(STRINGS, "apiGroups nonResourceURLs resourceNames resources verbs")}, ["verbs"])
ROLE_SCHEMA: Final = root({"rules": list_of(POLICY_RULE)})
ROLE_REF: Final = obj(
    {
        **of(STRING, "apiGroup name"),
        "kind": string(["Role", "ClusterRole"]),
    },
    ["apiGroup", "kind", "name"],
    atomic=True,
)
SUBJECT: Final = obj(
    {
        **of(STRING, "apiGroup name namespace"),
        "kind": string(["User", "Group", "ServiceAccount"]),
    },
    ["kind", "name"],
    atomic=True,
)
ROLE_BINDING_SCHEMA: Final = root({"roleRef": ROLE_REF, "subjects": list_of(SUBJECT)}, ["roleRef"])
AGGREGATION_RULE: Final = obj({"clusterRoleSelectors": list_of(LABEL_SELECTOR)})
CLUSTER_ROLE_SCHEMA: Final = root({"aggregationRule": AGGREGATION_RULE, "rules": list_of(POLICY_RULE)})
CLUSTER_ROLE_BINDING_SCHEMA: Final = root({"roleRef": ROLE_REF, "subjects": list_of(SUBJECT)}, ["roleRef"])
