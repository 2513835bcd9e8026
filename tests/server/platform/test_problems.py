"""What a client learns about an error."""

from __future__ import annotations

import logging

import pytest
from sqlalchemy.exc import DataError, OperationalError

from muster.kube import errors
from muster.kube.encryption import EncryptionError
from muster.platform.database.leases import LeaseLost
from muster.platform.errors import NotFoundProblem
from muster.server.platform.problems import problem_of


@pytest.mark.parametrize(
    ("error", "status", "retry_after", "logged"),
    [
        (NotFoundProblem("gone"), 404, None, None),
        (LeaseLost("another server has it"), 503, "2", None),
        (OperationalError("SELECT 1", {}, Exception("the server closed the connection")), 503, "2", logging.WARNING),
        (DataError("SELECT 1", {}, Exception("out of range")), 503, "2", logging.ERROR),
        (errors.Unavailable("cannot reach the API server"), 503, "2", logging.WARNING),
        # The server lacks a permission on the cluster, not the user on the platform.
        (errors.Forbidden('pods is forbidden: User "muster" cannot list resource "pods"'), 503, "2", logging.WARNING),
        (errors.Forbidden('pods "x" is forbidden: violates PodSecurity "baseline"'), 403, None, None),
        (errors.TooManyRequests("wait", retry_after=7.2), 429, "7", None),
        (errors.NotFound("no such Pod"), 404, None, None),
        (errors.Conflict("changed"), 409, None, None),
        (errors.TooLarge("2 MB"), 413, None, None),
        (errors.Invalid("no"), 400, None, None),
        (EncryptionError("no key"), 503, "2", logging.ERROR),
        (ZeroDivisionError(), 500, None, logging.ERROR),
    ],
)
def test_problem_of(
    error: Exception, status: int, retry_after: str | None, logged: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    problem = problem_of(error, "GET /x")
    assert (problem.status, problem.headers.get("Retry-After")) == (status, retry_after)
    assert [record.levelno for record in caplog.records] == ([] if logged is None else [logged])
