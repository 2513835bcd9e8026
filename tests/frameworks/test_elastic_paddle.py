"""An elastic PaddleJob writes the wanted number of workers to a real etcd, at the start and when it is scaled."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.training.kinds.paddlecloud import ETCD_ANNOTATION
from tests.cli.commands import Muster
from tests.frameworks.conftest import ROOT
from tests.http_server import reserve_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

JOB = """
apiVersion: batch.paddlepaddle.org/v1
kind: PaddleJob
metadata: {{name: elastic, annotations: {{{etcd}: "{server}"}}}}
spec:
  elastic: 1
  cleanPodPolicy: Never
  worker:
    replicas: {replicas}
    template:
      spec:
        containers: [{{name: paddle, image: busybox, command: [sh, -c, "echo np $PADDLE_ELASTIC_NP; sleep 600"]}}]
"""


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[str]:
    if shutil.which("etcd") is None:
        subprocess.run([ROOT / "scripts" / "apt-install", "etcd-server"], check=True)
    client, peer = (f"http://127.0.0.1:{reserve_port()}" for _ in range(2))
    flags = {
        "data-dir": str(tmp_path / "etcd"), "listen-client-urls": client, "advertise-client-urls": client,
        "listen-peer-urls": peer, "initial-advertise-peer-urls": peer, "initial-cluster": f"default={peer}",
    }  # fmt: skip
    command = ["etcd", *(f"--{name}={value}" for name, value in flags.items())]
    log = (tmp_path / "etcd.log").open("wb")
    process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "ETCD_UNSUPPORTED_ARCH": "arm64"})
    try:
        yield client.removeprefix("http://")
    finally:
        process.terminate()
        process.wait(30)
        log.close()


def test_scaling_is_written_to_etcd(etcd: str, muster: Muster, tmp_path: Path) -> None:
    manifest = tmp_path / "job.yaml"
    muster("up", "-d").ok()
    for replicas in (2, 3):
        manifest.write_text(JOB.format(etcd=ETCD_ANNOTATION, server=etcd, replicas=replicas))
        muster("apply", "-f", str(manifest)).ok()
        wait_for(etcd, "/paddle/default-elastic/np", str(replicas))
        muster("wait", "--for", "condition=Ready", f"pod/elastic-worker-{replicas - 1}", "--timeout", "60s").ok()


def wait_for(server: str, key: str, value: str) -> None:
    body = json.dumps({"key": base64.b64encode(key.encode()).decode()}).encode()
    found: str | None = None
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://{server}/v3/kv/range", body, timeout=5) as answer:
                stored = json.load(answer).get("kvs") or [{}]
            found = base64.b64decode(stored[0].get("value", "")).decode()
            if found == value:
                return
        except OSError as error:
            found = str(error)
        time.sleep(0.1)
    raise AssertionError(f"{key} is {found!r}, not {value!r}")
