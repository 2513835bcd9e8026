"""The webhook as an API server calls it: over TLS, trusting the configuration's authority."""

from __future__ import annotations

import asyncio
import base64
import logging
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import SECRET, new_catalogue
from muster.kube.certificates import IssuedCertificate, issue_certificate
from muster.kube.errors import BadRequest
from muster.kube.objects import Object
from muster.operator.webhook import WEBHOOK_PATH, Webhook, WebhookSettings, review, serve_webhook
from muster.operator.webhook_certificates import CONFIGURATION, CertificateError, CertificateSecret, KeyPair

TRAINER = {"name": "pytorch", "image": "i"}


def job(container: Object = TRAINER, api_version: str = "kubeflow.org/v1", **more: Any) -> Object:
    worker = {"restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
    spec = {"pytorchReplicaSpecs": {"Worker": worker}, **more}
    return {"apiVersion": api_version, "kind": "PyTorchJob", "metadata": {"name": "job"}, "spec": spec}


def review_request(new: Object | None, old: Object | None = None, operation: str = "", **kind: str) -> Object:
    asked = {"group": "kubeflow.org", "version": "v1", "kind": "PyTorchJob", **kind}
    request = {
        "uid": "u-1",
        "kind": asked,
        "operation": operation or ("CREATE" if old is None else "UPDATE"),
        "object": new,
        "oldObject": old,
    }
    answer = review({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: Object = answer["response"]
    assert response.pop("uid") == "u-1"
    return response


def test_a_good_job_is_let_in_without_a_word() -> None:
    assert review_request(job()) == {"allowed": True}


@pytest.mark.parametrize(
    ("wrong", "field", "message"),
    [
        (
            job({"name": "main", "image": "i"}),
            "spec.pytorchReplicaSpecs.Worker.template.spec.containers",
            'one container must be named "pytorch", the training container; found "main"',
        ),
        (
            job(TRAINER | {"imagePullPolicy": "Sometimes"}),
            "spec.pytorchReplicaSpecs[Worker].template.spec.containers[0].imagePullPolicy",
            'Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never"',
        ),
        (
            job(runPolicy={"managedBy": "me"}),
            "spec.runPolicy.managedBy",
            '"me" is not one of kubeflow.org/training-operator, kueue.x-k8s.io/multikueue',
        ),
    ],
)
def test_a_wrong_job_is_refused_in_the_words_of_the_box(wrong: Object, field: str, message: str) -> None:
    answer = review_request(wrong)
    assert answer["allowed"] is False
    status = answer["status"]
    assert status["message"] == f'PyTorchJob.kubeflow.org "job" is invalid: {field}: {message}'
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert [cause["field"] for cause in status["details"]["causes"]] == [field]


def test_what_has_no_effect_is_named() -> None:
    new = job()
    new["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["restartPolicy"] = "Always"
    answer = review_request(new)
    assert answer["allowed"] is True
    assert [warning.partition(":")[0] for warning in answer["warnings"]] == [
        "spec.pytorchReplicaSpecs.Worker.template.spec.restartPolicy"
    ]


WRONG = job({"name": "main", "image": "i"})


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (WRONG | {"metadata": {"name": "job", "labels": {"a": "b"}}}, WRONG),
        (WRONG | {"metadata": {"name": "job", "deletionTimestamp": "2026-11-15T12:00:00Z"}}, job()),
        (None, WRONG),
    ],
    ids=["only its labels change", "it is being deleted", "it is deleted"],
)
def test_a_job_from_before_the_webhook_is_not_stuck(new: Object | None, old: Object) -> None:
    assert review_request(new, old) == {"allowed": True}


def test_a_change_that_makes_it_wrong_is_refused() -> None:
    assert review_request(WRONG, job())["allowed"] is False
    moved = job(runPolicy={"schedulingPolicy": {"queue": "b"}})
    answer = review_request(moved, job(runPolicy={"schedulingPolicy": {"queue": "a"}}))
    assert "queue: field is immutable" in answer["status"]["message"]


def test_unknown_kinds_are_allowed_with_a_warning() -> None:
    answer = review_request(job(), version="v3")
    assert answer["allowed"] is True
    assert "kubeflow.org/v3 PyTorchJob" in answer["warnings"][0]


@pytest.mark.parametrize("nonsense", [{}, [], None, {"request": None}, {"request": {}}])
def test_an_invalid_review_is_an_error(nonsense: Any) -> None:
    with pytest.raises(BadRequest, match="AdmissionReview"):
        review(nonsense)


SETTINGS = WebhookSettings(port=0, namespace="muster-system")
HOST = "muster-operator.muster-system.svc"
NOW = datetime(2026, 11, 15, tzinfo=UTC)
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "u-1",
        "kind": {"group": "kubeflow.org", "version": "v1", "kind": "PyTorchJob"},
        "operation": "CREATE",
        "object": {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "job"}, "spec": {}},
    },
}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    """Has what `muster operator install` leaves for the webhook to fill in."""
    catalogue = new_catalogue()
    catalogue.register(CONFIGURATION)
    async with EmbeddedCluster(tmp_path / "cluster", catalogue, durability="process") as embedded:
        await embedded.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "muster-system"}})
        await embedded.create(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "muster-operator-webhook", "namespace": "muster-system"},
            }
        )
        await embedded.create(
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": "muster-operator"},
                "webhooks": [{"name": "jobs.muster.dev", "clientConfig": {"service": {"name": "muster-operator"}}}],
            }
        )
        yield embedded


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


def shared(cluster: EmbeddedCluster, clock: Clock) -> CertificateSecret:
    return CertificateSecret(
        cluster,
        namespace="muster-system",
        secret="muster-operator-webhook",
        service="muster-operator",
        configuration="muster-operator",
        clock=clock,
    )


async def trusted(cluster: EmbeddedCluster) -> bytes:
    configuration = await cluster.get(CONFIGURATION, "muster-operator")
    return base64.b64decode(configuration["webhooks"][0]["clientConfig"]["caBundle"])


async def ask(webhook: Webhook, authority: bytes, body: Object = REVIEW) -> tuple[int, Object]:
    async with asyncio.timeout(10):
        await webhook.listening.wait()
    context = ssl.create_default_context(cadata=authority.decode())
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            f"https://127.0.0.1:{webhook.port}{WEBHOOK_PATH}", json=body, ssl=context, server_hostname=HOST
        ) as response,
    ):
        return response.status, await response.json() if response.status == 200 else {}


async def test_it_makes_its_certificate_and_has_the_api_server_trust_it(cluster: EmbeddedCluster) -> None:
    async with serve_webhook(SETTINGS, cluster) as webhook:
        async with asyncio.timeout(10):
            await webhook.listening.wait()
        status, answer = await ask(webhook, await trusted(cluster))
        assert webhook.ready
    assert status == 200
    assert answer["response"]["allowed"] is False
    assert answer["response"]["status"]["message"].endswith("spec.pytorchReplicaSpecs: Required value")


async def test_an_invalid_review_is_a_bad_request(cluster: EmbeddedCluster) -> None:
    async with serve_webhook(SETTINGS, cluster) as webhook:
        async with asyncio.timeout(10):
            await webhook.listening.wait()
        assert (await ask(webhook, await trusted(cluster), {"kind": "Pod"}))[0] == 400


async def test_replicas_share_one_certificate(cluster: EmbeddedCluster) -> None:
    clock = Clock()
    pairs = await asyncio.gather(*(shared(cluster, clock).pair() for _ in range(5)))
    assert len(set(pairs)) == 1
    assert (await trusted(cluster)).count(b"BEGIN CERTIFICATE") == 1


async def test_it_is_renewed_in_time_and_the_old_one_stays_trusted(cluster: EmbeddedCluster) -> None:
    clock = Clock()
    source = shared(cluster, clock)
    first, before = await source.pair(), await trusted(cluster)
    clock.now += timedelta(days=330)
    assert await source.pair() == first, "still good for more than a month"
    clock.now += timedelta(days=10)
    second, after = await source.pair(), await trusted(cluster)
    assert second != first
    assert after.endswith(before) and after.count(b"BEGIN CERTIFICATE") == 2
    assert await shared(cluster, clock).pair() == second
    clock.now += timedelta(days=340)
    await source.pair()
    assert (await trusted(cluster)).count(b"BEGIN CERTIFICATE") == 2, "those long out of use are dropped"


async def test_manual_changes_of_the_configuration_are_reverted(cluster: EmbeddedCluster) -> None:
    source = shared(cluster, Clock())
    await source.pair()
    bundle = await trusted(cluster)
    configuration = await cluster.get(CONFIGURATION, "muster-operator")
    emptied = [{**webhook, "clientConfig": {"service": {"name": "x"}}} for webhook in configuration["webhooks"]]
    await cluster.update({**configuration, "webhooks": emptied})
    await source.pair()
    assert await trusted(cluster) == bundle


async def test_a_spoilt_secret_is_filled_again(cluster: EmbeddedCluster) -> None:
    source = shared(cluster, Clock())
    first = await source.pair()
    secret = await cluster.get(SECRET, "muster-operator-webhook", "muster-system")
    await cluster.update({**secret, "data": {**secret["data"], "tls.key": base64.b64encode(b"nonsense").decode()}})
    assert (await source.pair()).certificate != first.certificate


async def test_without_its_secret_the_error_says_what_creates_it(cluster: EmbeddedCluster) -> None:
    await cluster.delete(SECRET, "muster-operator-webhook", "muster-system")
    with pytest.raises(CertificateError, match="muster operator install"):
        await shared(cluster, Clock()).pair()


async def test_without_a_configuration_it_serves_and_warns(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    await cluster.delete(CONFIGURATION, "muster-operator")
    with caplog.at_level(logging.WARNING):
        await shared(cluster, Clock()).pair()
    assert "is never called" in caplog.text


def written(folder: Path, issued: IssuedCertificate) -> None:
    (folder / "tls.crt").write_bytes(issued.certificate)
    (folder / "tls.key").write_bytes(issued.key)


async def test_files_that_are_renewed_are_served_without_a_restart(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    old, new = (issue_certificate((HOST,), datetime.now(UTC)) for _ in range(2))
    written(tmp_path, old)
    settings = WebhookSettings(port=0, certificates=tmp_path)
    async with serve_webhook(settings, cluster, look_seconds=0.01) as webhook:
        assert (await ask(webhook, old.authority))[0] == 200
        written(tmp_path, new)
        async with asyncio.timeout(10):
            while True:
                try:
                    assert (await ask(webhook, new.authority))[0] == 200
                    break
                except aiohttp.ClientConnectorCertificateError:
                    continue


async def test_files_that_come_late_are_waited_for(
    cluster: EmbeddedCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    issued = issue_certificate((HOST,), datetime.now(UTC))
    settings = WebhookSettings(port=0, certificates=tmp_path)
    async with serve_webhook(settings, cluster, look_seconds=0.01) as webhook:
        async with asyncio.timeout(10):
            while True:
                await asyncio.sleep(0.01)
                if "tls.crt" in caplog.text:
                    break
        assert not webhook.ready
        written(tmp_path, issued)
        assert (await ask(webhook, issued.authority))[0] == 200


def test_halves_that_do_not_belong_together_leave_the_context_as_it_was() -> None:
    one, other = (issue_certificate((HOST,), NOW) for _ in range(2))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    KeyPair(one.certificate, one.key).load_into(context)
    with pytest.raises(ssl.SSLError):
        KeyPair(other.certificate, one.key).load_into(context)
