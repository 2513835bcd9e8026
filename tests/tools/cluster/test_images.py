from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

from tools.cluster.images import Image, write_archive


def contents(image: Image) -> dict[str, bytes]:
    archive = io.BytesIO()
    write_archive(image, archive)
    with tarfile.open(fileobj=io.BytesIO(archive.getvalue())) as opened:
        return {member.name: file.read() for member in opened if (file := opened.extractfile(member))}


def test_an_archive_lists_its_layers_and_says_what_runs(tmp_path: Path) -> None:
    layers = []
    for name in ("below", "above"):
        (tmp_path / name).write_text(name)
        layer = tmp_path / f"{name}.tar"
        with tarfile.open(layer, "w") as content:
            content.add(tmp_path / name, name)
        layers.append(layer)
    image = Image("tried:1", tuple(layers), ("/run",), ("fast",), {"MODE": "test"})
    files = contents(image)
    (manifest,) = json.loads(files["manifest.json"])
    configuration = json.loads(files[manifest["Config"]])
    digests = [hashlib.sha256(files[name]).hexdigest() for name in manifest["Layers"]]
    assert manifest["RepoTags"] == ["tried:1"]
    assert configuration["rootfs"]["diff_ids"] == [f"sha256:{digest}" for digest in digests]
    assert digests == [hashlib.sha256(layer.read_bytes()).hexdigest() for layer in layers]
    assert (configuration["config"]["Entrypoint"], configuration["config"]["Cmd"]) == (["/run"], ["fast"])
    assert "MODE=test" in configuration["config"]["Env"]


def test_an_image_may_have_several_names_and_a_folder_to_work_in() -> None:
    image = Image("tried:1", (), working_folder="/app", also_named=("tried:2", "other/name:1"))
    files = contents(image)
    (manifest,) = json.loads(files["manifest.json"])
    configuration = json.loads(files[manifest["Config"]])
    assert manifest["RepoTags"] == ["tried:1", "tried:2", "other/name:1"]
    assert configuration["config"]["WorkingDir"] == "/app"
