"""Which refusals of the cluster end a run."""

from __future__ import annotations

import pytest

from muster.kube.errors import ApiError, BadRequest, Conflict, Forbidden, Invalid, Unavailable
from muster.platform.runs.controller import is_final


@pytest.mark.parametrize(
    ("error", "final"),
    [
        (Invalid('Workflow "run-1" is invalid: spec.templates: Required value'), True),
        (BadRequest("strict decoding error: unknown field"), True),
        (Forbidden('pods "x" is forbidden: violates PodSecurity "baseline:latest": hostPath volumes'), True),
        (Forbidden('pods "x" is forbidden: exceeded quota: compute'), True),
        (Forbidden('the namespace "user-ann" exists on the cluster and does not belong to the platform'), True),
        # An API server says this of every request until it has read its roles.
        (
            Forbidden(
                'workflows.argoproj.io is forbidden: User "muster:operator" cannot create resource "workflows" in API '
                'group "argoproj.io" in the namespace "user-ann"'
            ),
            False,
        ),
        (
            Forbidden(
                'secrets is forbidden: User "muster:operator" cannot create resource "secrets" in API group "" in the '
                'namespace "user-ann": RBAC: [clusterrole.rbac.authorization.k8s.io "system:discovery" not found]'
            ),
            False,
        ),
        (Unavailable("cannot reach the API server"), False),
        (Conflict("changed"), False),
    ],
)
def test_is_final(error: ApiError, final: bool) -> None:
    assert is_final(error) == final
