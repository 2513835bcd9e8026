"""config.yaml: every setting is optional, all are checked, and errors have file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.server.settings import CONFIG_FILE, Settings, SettingsError


def write(home: Path, text: str) -> Path:
    (home / CONFIG_FILE).write_text(text)
    return home


@pytest.mark.parametrize("text", ["", "# nothing but a comment\n", "{}\n"])
def test_an_empty_file_has_the_defaults(tmp_path: Path, text: str) -> None:
    settings = Settings.load(write(tmp_path, text))
    assert settings.agent.runtime == "sandbox"
    assert settings.durability == "power"
    assert settings.host == "127.0.0.1"


def test_reads_settings(tmp_path: Path) -> None:
    settings = Settings.load(
        write(
            tmp_path,
            """
            node:
              name: laptop
              capacity: {nvidia.com/gpu: 1}
            nodes:
              - name: gpu-1
                simulated: true
                capacity: {cpu: "64", memory: 512Gi}
                taints: [{key: gpu, effect: NoSchedule}]
            images:
              "pytorch/*":
                path: [/opt/torch/bin]
                env: {OMP_NUM_THREADS: "1"}
            scheduler: {reserveAfterSeconds: 5}
            logs: {fileMegabytes: 64, keepDays: 1}
            gang: true
            listen: {port: 6443}
            """,
        )
    )
    assert settings.agent.node_name == "laptop"
    assert settings.agent.capacity == {"nvidia.com/gpu": "1"}
    (simulated,) = settings.agent.nodes
    assert simulated.simulated
    assert simulated.capacity["memory"] == "512Gi"
    assert settings.agent.images["pytorch/*"].path == ("/opt/torch/bin",)
    assert settings.scheduler.reserve_after_seconds == 5
    assert settings.agent.logs.file_bytes == 64 * 1024 * 1024
    assert settings.agent.logs.keep_seconds == 86400
    assert settings.gang
    assert settings.port == 6443


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("runtime: dokcer\n", r"config\.yaml:1 runtime: .*docker"),
        ("listen:\n  prot: 1\n", r"config\.yaml:2 listen\.prot: .*port"),
        ("node:\n  capacity:\n    cpu: many\n", r"config\.yaml:3 node\.capacity\[cpu\]"),
        ("nodes:\n  - simulated: true\n", r"config\.yaml:2 nodes\[0\]\.name: Required"),
        ("- a\n- b\n", r"config\.yaml:1"),
        ("a: [\n", r"config\.yaml:"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        Settings.load(write(tmp_path, text))
