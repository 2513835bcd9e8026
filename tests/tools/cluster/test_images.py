from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

from tools.cluster.images import Image, write_archive


def test_an_archive_lists_its_layers_and_says_what_runs(tmp_path: Path) -> None:
    layers = []
    for name in ("below", "above"):
        (tmp_path / name).write_text(name)
        layer = tmp_path / f"{name}.tar"
        with tarfile.open(layer, "w") as content:
            content.add(tmp_path / name, name)
        layers.append(layer)
    image = Image("tried:1", tuple(layers), ("/run",), ("fast",), {"MODE": "test"})
    write_archive(image, tmp_path / "image.tar")

    with tarfile.open(tmp_path / "image.tar") as archive:

        def read(name: str) -> bytes:
            member = archive.extractfile(name)
            assert member is not None
            return member.read()

        (manifest,) = json.loads(read("manifest.json"))
        configuration = json.loads(read(manifest["Config"]))
        digests = [hashlib.sha256(read(name)).hexdigest() for name in manifest["Layers"]]
    assert manifest["RepoTags"] == ["tried:1"]
    assert configuration["rootfs"]["diff_ids"] == [f"sha256:{digest}" for digest in digests]
    assert digests == [hashlib.sha256(layer.read_bytes()).hexdigest() for layer in layers]
    assert (configuration["config"]["Entrypoint"], configuration["config"]["Cmd"]) == (["/run"], ["fast"])
    assert "MODE=test" in configuration["config"]["Env"]
