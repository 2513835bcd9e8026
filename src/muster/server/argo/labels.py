"""Who made an object and who did something with it last, as labels on it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

from muster.embedded.identity.users import User
from muster.kube.objects import Object, labels_of, meta

Deed: TypeAlias = Literal["Update", "Suspend", "Stop", "Terminate", "Resume", "Retry"]
_PREFIX = "workflows.argoproj.io"


def created_by(user: User, obj: Object) -> Object:
    return _labelled(obj, {f"{_PREFIX}/creator": label_value(user.name)})


def labelled_by(user: User, obj: Object, deed: Deed) -> Object:
    return _labelled(obj, {f"{_PREFIX}/actor": label_value(user.name), f"{_PREFIX}/action": deed})


def label_value(text: str) -> str:
    """As much of the end of a name as a label may hold."""
    return re.sub(r"^[^a-zA-Z0-9]+|[^a-zA-Z0-9]+$", "", re.sub(r"[^-_.a-zA-Z0-9]", "-", text)[-63:])


def _labelled(obj: Object, labels: Mapping[str, str]) -> Object:
    return {**obj, "metadata": {**meta(obj), "labels": {**labels_of(obj), **labels}}}
