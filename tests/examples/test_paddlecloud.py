"""PaddleCloud's five examples, with small programs in place of their images."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.commands import Muster

FOLDER = "examples/paddlecloud"

PROGRAMS = Path(__file__).parent / "programs"


def settings(muster: Muster, *, gpus: int = 0, label: str = "") -> None:
    (muster.home / "config.yaml").write_text(
        f"""\
node:
  capacity: {{nvidia.com/gpu: {gpus}}}
  labels: {{accelerator: "{label}"}}
images:
  "paddle-operator/demo-wide-and-deep*":
    workingDir: {PROGRAMS}/wide_and_deep
    command: [python3, train.py]
nfs:
  "10.12.201.xx:/nas": {PROGRAMS}
"""
    )


def lines(out: str) -> list[str]:
    """Returns the lines that the Pods printed, sorted."""
    return sorted(line for line in out.splitlines() if " | " in line)


def spoke_to_each_other(out: str, job: str, gloo: str) -> None:
    assert [re.sub(r" +\|", " |", line) for line in lines(out)] == [
        *(f"{job}-ps-{n} | heard of trainers 0 1" for n in (0, 1)),
        *(f"{job}-worker-{n} | told 2 servers; gloo {gloo}" for n in (0, 1)),
    ], out


def test_1_parameter_servers(muster: Muster) -> None:
    settings(muster)
    out = muster("run", f"{FOLDER}/1-wide-and-deep.yaml").ok().out
    spoke_to_each_other(out, "wide-ande-deep", "1")
    muster("up", "-d").ok()
    header, row = muster("get", "pdj").ok().out.splitlines()
    assert header.split() == ["NAME", "STATUS", "MODE", "AGE"]
    assert row.split()[:3] == ["wide-ande-deep", "Completed", "PS"]
    assert len(muster("get", "pods", "--no-headers").ok().out.splitlines()) == 4, "cleanPodPolicy: Never"


def test_2_collective_with_shared_memory(muster: Muster) -> None:
    (muster.home / "config.yaml").write_text(
        "node:\n  capacity: {nvidia.com/gpu: 2}\n"
        f'images:\n  "paddle-operator/demo-resnet*":\n    workingDir: {PROGRAMS}/resnet\n'
    )
    out = muster("run", f"{FOLDER}/2-resnet.yaml").ok().out
    assert [line.split(" | ")[1] for line in lines(out)] == [f"train_fleet.py tmpfs {n} of 2" for n in (0, 1)]


def test_3_only_nodes_with_a_gpu(muster: Muster) -> None:
    settings(muster, gpus=4, label="nvidia-tesla-v100")
    late = muster("run", "--timeout=3s", f"{FOLDER}/3-node-selector.yaml")
    assert late.code == 1
    assert "node(s) didn't match Pod's node affinity/selector" in late.out

    config = muster.home / "config.yaml"
    config.write_text(config.read_text().replace("v100", "p100"))
    out = muster("run", f"{FOLDER}/3-node-selector.yaml").ok().out
    spoke_to_each_other(out, "wide-ande-deep", "None")
    muster("up", "-d").ok()
    assert muster("get", "pods", "--no-headers").ok().out == "", "cleanPodPolicy: OnCompletion"


def test_4_the_users_own_pod_group(muster: Muster) -> None:
    settings(muster)
    out = muster("run", f"{FOLDER}/4-volcano.yaml").ok().out
    spoke_to_each_other(out, "wide-ande-deep", "1")


def test_5_code_and_data_on_a_network_drive(muster: Muster) -> None:
    settings(muster)
    out = muster("run", f"{FOLDER}/5-pv-pvc.yaml", f"{FOLDER}/5-data-demo.yaml").ok().out
    spoke_to_each_other(out, "paddlejob-demo-1", "None")


def test_5_an_unmapped_network_drive_says_what_to_write(muster: Muster) -> None:
    late = muster("run", "--timeout=5s", f"{FOLDER}/5-pv-pvc.yaml", f"{FOLDER}/5-data-demo.yaml")
    assert late.code == 1
    assert '"10.12.201.xx:/nas": /mnt/FOLDER' in late.out


def test_registry_hosts_are_omitted() -> None:
    for file in (Path(__file__).parents[2] / FOLDER).glob("*.yaml"):
        for image in re.findall(r"image: (\S+)", file.read_text()):
            assert "." not in image.split("/")[0], f"{file.name}: {image}"
