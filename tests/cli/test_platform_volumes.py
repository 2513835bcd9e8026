"""`muster volumes ...` against a complete Muster, as users run it."""

from __future__ import annotations

import json

import pytest

from muster.cli.platform_volumes import Place, format_size, parse_place
from tests.cli.commands import Muster


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("data:", Place("data", "")),
        ("data:a/b", Place("data", "a/b")),
        ("user-ann/data:/a/", Place("user-ann/data", "a")),
        ("data:a:b", Place("data", "a:b")),
        ("./data:a", None),
        ("/tmp/data:a", None),
        ("~/data:a", None),
        ("a/b/c:d", None),
        ("data", None),
        (":a", None),
    ],
)
def test_a_place_in_a_volume_is_told_from_a_path_of_this_machine(text: str, place: Place | None) -> None:
    assert parse_place(text) == place


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB"), (1 << 60, "1048576.0 TiB")],
)
def test_a_size_is_shown(size: int, text: str) -> None:
    assert format_size(size) == text


def test_files_are_copied_to_a_volume_and_back(cluster: Muster) -> None:
    tree = cluster.folder / "tree"
    (tree / "below").mkdir(parents=True)
    (tree / "below" / "100%.txt").write_text("percent")
    (tree / "words.txt").write_text("hello")
    assert (
        cluster("volumes", "create", "cp-data", "--size", "1Gi", "--access", "rwo").ok().out
        == "default/cp-data created\n"
    )
    assert "2 files copied to default/cp-data:tree" in _until_bound(cluster, "volumes", "cp", "tree", "cp-data:")
    assert cluster("volumes", "du", "cp-data:tree").ok().out.endswith("in 2 files and 1 folders\n")
    cluster("volumes", "cp", "cp-data:tree", "back").ok()
    assert (cluster.folder / "back" / "below" / "100%.txt").read_text() == "percent"
    (cluster.folder / "words.txt").write_text("an old file")
    assert cluster("volumes", "cp", "default/cp-data:tree/words.txt", ".").ok().out == "5 B copied to words.txt\n"
    assert (cluster.folder / "words.txt").read_text() == "hello"
    cluster("volumes", "rm", "cp-data:tree/below").ok()
    missing = cluster("volumes", "ls", "cp-data:tree/below")
    assert missing.code == 1 and 'there is no "tree/below" in the volume' in missing.err
    (found,) = json.loads(cluster("volumes", "list", "-q", "cp-data", "--json").ok().out)
    assert (found["state"], found["size"], found["access_modes"]) == ("bound", "1Gi", ["ReadWriteOnce"])
    assert cluster("volumes", "delete", "cp-data").ok().out == "default/cp-data deleted\n"


def _until_bound(cluster: Muster, *words: str) -> str:
    """A new volume has no folder for a moment."""
    while True:
        result = cluster(*words)
        if "has no storage yet" not in result.err:
            return result.ok().out
