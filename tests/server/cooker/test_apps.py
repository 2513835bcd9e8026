"""Application templates in folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from muster.server.cooker.apps import list_apps, read_app


def write(folder: Path, **files: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        file = folder / name.replace("__", "-").replace("_", ".")
        file.write_text(content if isinstance(content, str) else json.dumps(content))


def test_a_template_has_the_parameters_and_the_command_of_each_action(tmp_path: Path) -> None:
    actions = [{"type": "train", "label": "Train"}, {"type": "create-job", "label": "Load", "templateKey": "load"}]
    write(
        tmp_path / "qwen",
        app_json={"name": "Qwen", "type": "training", "category": "model", "tags": ["llm"], "actions": actions},
        train_json={"taskParams": {"name": "qwen", "command": "old"}},
        train_command_sh="python train.py\n",
        create__job_json={"name": "load"},
        deploy_json={"taskParams": {"name": "not an action of this app"}},
    )
    (app,) = list_apps(tmp_path)
    assert app == {
        "id": "qwen",
        "name": "Qwen",
        "type": "training",
        "category": "model",
        "tags": ["llm"],
        "actions": actions,
        "templates": {
            "train": {"taskParams": {"name": "qwen", "command": "python train.py"}},
            "load": {"taskParams": {"name": "load"}},
        },
    }
    assert read_app(tmp_path, "qwen") == app


def test_actions_are_those_that_have_a_file(tmp_path: Path) -> None:
    write(tmp_path / "a", app_json={"name": "A"}, train_json={"name": "a"}, command_sh="run")
    app = read_app(tmp_path, "a")
    assert app is not None
    assert app["actions"] == [{"type": "train", "label": "train"}]
    assert app["templates"] == {"train": {"taskParams": {"name": "a", "command": "run"}}}


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    write(tmp_path / "broken", app_json="{")
    write(tmp_path / "list", app_json=[1])
    write(tmp_path / ".git", app_json={"name": "hidden"})
    write(tmp_path / "good", app_json={"name": "good"})
    (tmp_path / "file").write_text("")
    assert [app["id"] for app in list_apps(tmp_path)] == ["good"]
    assert list_apps(tmp_path / "nowhere") == []


def test_a_name_cannot_leave_the_folder(tmp_path: Path) -> None:
    write(tmp_path / "secret", app_json={"name": "secret"})
    (tmp_path / "apps").mkdir()
    for name in ("../secret", "..", ".", "", "a/b", "a\0b", str(tmp_path / "secret")):
        assert read_app(tmp_path / "apps", name) is None
