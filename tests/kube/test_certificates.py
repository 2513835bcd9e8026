"""Certificates are renewed when they have to be, and not before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from muster.kube.certificates import CertificateSet, issue_certificate, renew_certificates

NOW = datetime(2026, 1, 31, tzinfo=UTC)
NONE = CertificateSet(b"", b"", b"", b"")


@pytest.mark.parametrize(
    ("names", "later", "valid"),
    [
        (("a.svc",), timedelta(0), True),
        (("a.svc", "10.0.0.7"), timedelta(days=300), True),
        (("a.svc",), timedelta(days=340), False),
        (("a.svc",), timedelta(days=-1), False),
        (("b.svc",), timedelta(0), False),
    ],
)
def test_a_certificate_is_valid_for_its_names_until_a_month_before_it_expires(
    names: tuple[str, ...], later: timedelta, valid: bool
) -> None:
    issued = issue_certificate(("a.svc", "10.0.0.7"), NOW)
    assert issued.is_valid(names, NOW + later) is valid


def test_an_unreadable_certificate_is_not_valid() -> None:
    issued = issue_certificate(("a.svc",), NOW)
    other = issue_certificate(("a.svc",), NOW)
    for damaged in (issued._replace(certificate=b"x"), issued._replace(authority=b""), issued._replace(key=other.key)):
        assert not damaged.is_valid(("a.svc",), NOW)


@pytest.mark.parametrize(
    ("later", "changed"),
    [
        (timedelta(days=1), ()),
        (timedelta(days=340), ("certificate", "key")),
        (timedelta(days=3400), ("authority", "authority_key", "certificate", "key")),
    ],
)
def test_only_what_expires_is_replaced(later: timedelta, changed: tuple[str, ...]) -> None:
    old, period = renew_certificates(NONE, ("a.svc",), NOW)
    assert period.since <= NOW < period.until
    new, later_period = renew_certificates(old, ("a.svc",), NOW + later)
    assert tuple(name for name in new._fields if getattr(new, name) != getattr(old, name)) == changed
    assert later_period.since <= NOW + later < later_period.until
