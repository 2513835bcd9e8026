"""Application templates: folders with `app.json`, `{action}.json` and `{action}.command.sh`.

A template has the task parameters of an action, such as `train`; the shell script beside it is the command.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Final

import orjson

ACTIONS: Final = ("deploy", "train", "create-job", "deploy-tool")

log = logging.getLogger(__name__)

_LARGEST_FILE: Final = 1_000_000
_MOST_APPS: Final = 1_000


def list_apps(folder: Path) -> list[dict[str, Any]]:
    """Reads all templates of a folder, by name. Those that cannot be read are logged and left out."""
    if not folder.is_dir():
        return []
    names = sorted(each.name for each in folder.iterdir() if each.is_dir() and not each.name.startswith("."))
    found = (read_app(folder, name) for name in names[:_MOST_APPS])
    return [app for app in found if app is not None]


def read_app(folder: Path, name: str) -> dict[str, Any] | None:
    """Reads one template; None if there is none."""
    place = folder / name
    if not name or name.startswith(".") or "/" in name or "\0" in name or not place.is_dir():
        return None
    app = _read_json(place / "app.json")
    if app is None:
        return None
    templates = app.get("templates")
    if not isinstance(templates, dict):
        templates = _read_templates(place, app)
    actions = app.get("actions") or [{"type": each, "label": each} for each in templates]
    return {"id": name, **app, "actions": actions, "templates": templates}


def _read_templates(place: Path, app: dict[str, Any]) -> dict[str, Any]:
    actions = app.get("actions")
    listed = [each for each in actions if isinstance(each, dict)] if isinstance(actions, list) else []
    wanted = {str(each.get("type")): str(each.get("templateKey") or each.get("type")) for each in listed}
    found: dict[str, Any] = {}
    for action in ACTIONS:
        if wanted and action not in wanted:
            continue
        template = _read_json(place / f"{action}.json")
        if template is None:
            continue
        params = template.get("taskParams")
        if not isinstance(params, dict):
            template = {"taskParams": template}
        command = _read_text(place / f"{action}.command.sh") or _read_text(place / "command.sh")
        if command:
            template = {**template, "taskParams": {**template["taskParams"], "command": command.strip()}}
        found[wanted.get(action, action)] = template
    return found


def _read_json(path: Path) -> dict[str, Any] | None:
    text = _read_text(path)
    if text is None:
        return None
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        log.warning("the application template %s is not valid JSON: %s", path, error)
        return None
    return document if isinstance(document, dict) else None


def _read_text(path: Path) -> str | None:
    try:
        if path.stat().st_size > _LARGEST_FILE:
            log.warning("the application template %s is larger than %d bytes and is ignored", path, _LARGEST_FILE)
            return None
        return path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        log.warning("the application template %s cannot be read: %s", path, error)
        return None
