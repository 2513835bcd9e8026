"""The images that the form for a new notebook offers, and the settings of workspaces (`workspaces` in config.yaml).

With an image engine or on a cluster, a notebook runs the image itself. In the sandbox, an image of the list stands for
an environment of this machine with the same programs; `environments.py` installs it when it is first used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any, Final

from muster.kube.kinds import Schema
from muster.kube.schema import NUMBER, STRING, STRINGS, integer, list_of, obj

JUPYTER_PORT: Final = 8888
TENSORBOARD_PORT: Final = 6006
HOME: Final = "/home/jovyan"
"""Where Kubeflow's images, and therefore our environments, have the user's files."""
TENSORBOARD_IMAGE: Final = "muster.dev/tensorboard"
"""The image of TensorBoards in the sandbox: it stands for an environment."""

_JUPYTER: Final = ("jupyterlab>=4.2,<5", "notebook>=7.2,<8", "ipywidgets>=8", "jupyter-server-terminals>=0.5")
_KUBEFLOW: Final = "kubeflownotebookswg"
_TAG: Final = "v1.9.2"


@dataclass(frozen=True, slots=True)
class WorkspaceImage:
    name: str
    """A short word, such as `pytorch`."""
    title: str
    image: str
    """What runs on a cluster or with an image engine."""
    description: str = ""
    contents: tuple[str, ...] = ()
    """What is inside, for people: `Python`, `JupyterLab`, `PyTorch`."""
    requirements: tuple[str, ...] = ()
    """What pip installs in the environment that stands for the image in the sandbox."""
    also: tuple[str, ...] = ()
    """Patterns of other images that the environment stands for."""

    @property
    def environment(self) -> str:
        """The name of its environment: equal requirements, equal name."""
        digest = sha256("\n".join(self.requirements).encode()).hexdigest()[:10]
        return f"{self.name}-{digest}"

    @property
    def patterns(self) -> tuple[str, ...]:
        """The images for which its environment runs. A pattern without a tag matches every tag."""
        return (self.image, *self.also)


def _kubeflow(*names: str) -> tuple[str, ...]:
    """Kubeflow's images under all addresses that they had."""
    return tuple(f"*/{name}" for name in names)


DEFAULT_IMAGES: Final[tuple[WorkspaceImage, ...]] = (
    WorkspaceImage(
        "minimal",
        "JupyterLab",
        f"{_KUBEFLOW}/jupyter-scipy:{_TAG}",
        "JupyterLab and the usual scientific packages",
        ("Python", "JupyterLab", "NumPy", "pandas", "Matplotlib"),
        (*_JUPYTER, "numpy", "pandas", "matplotlib"),
        (*_kubeflow("jupyter", "jupyter-scipy"), "jupyter/base-notebook", "*/jupyter/base-notebook",
         "jupyter/minimal-notebook", "*/jupyter/minimal-notebook", "jupyter/scipy-notebook", "*/jupyter/scipy-notebook",
         "*/tensorflow-*-notebook-cpu", "*/tensorflow-*-notebook-gpu"),
    ),
    WorkspaceImage(
        "pytorch",
        "PyTorch",
        f"{_KUBEFLOW}/jupyter-pytorch-full:{_TAG}",
        "JupyterLab with PyTorch and TensorBoard's writer",
        ("Python", "JupyterLab", "PyTorch", "torchvision", "TensorBoard"),
        (*_JUPYTER, "torch", "torchvision", "tensorboard", "setuptools<81", "pandas", "matplotlib"),
        _kubeflow("jupyter-pytorch", "jupyter-pytorch-full", "jupyter-pytorch-cuda", "jupyter-pytorch-cuda-full"),
    ),
    WorkspaceImage(
        "tensorflow",
        "TensorFlow",
        f"{_KUBEFLOW}/jupyter-tensorflow-full:{_TAG}",
        "JupyterLab with TensorFlow, Keras and TensorBoard",
        ("Python", "JupyterLab", "TensorFlow", "Keras", "TensorBoard"),
        (*_JUPYTER, "tensorflow", "tensorboard", "setuptools<81", "pandas", "matplotlib"),
        _kubeflow("jupyter-tensorflow", "jupyter-tensorflow-full", "jupyter-tensorflow-cuda",
                  "jupyter-tensorflow-cuda-full"),
    ),
    WorkspaceImage(
        "paddle",
        "PaddlePaddle",
        "paddlepaddle/paddle:2.6.2-jupyter",
        "JupyterLab with PaddlePaddle",
        ("Python", "JupyterLab", "PaddlePaddle"),
        (*_JUPYTER, "paddlepaddle", "setuptools", "pandas", "matplotlib"),
        ("paddlepaddle/paddle:*jupyter*",),
    ),
    WorkspaceImage(
        "xgboost",
        "XGBoost and scikit-learn",
        "quay.io/jupyter/scipy-notebook:latest",
        "JupyterLab with XGBoost, LightGBM and scikit-learn",
        ("Python", "JupyterLab", "XGBoost", "LightGBM", "scikit-learn"),
        (*_JUPYTER, "xgboost", "lightgbm", "scikit-learn", "pandas", "matplotlib"),
        (),
    ),
)  # fmt: skip

TENSORBOARD: Final = WorkspaceImage(
    "tensorboard",
    "TensorBoard",
    TENSORBOARD_IMAGE,
    contents=("TensorBoard",),
    requirements=("tensorboard>=2.16,<3", "setuptools<81", "boto3>=1.34"),
)

WORKSPACES_SCHEMA: Final[Schema] = obj({
    "cullIdleMinutes": NUMBER,
    "cullWarningMinutes": NUMBER,
    "homeSize": STRING,
    "packageIndex": STRING,
    "images": list_of(
        obj(
            {
                "name": STRING,
                "title": STRING,
                "image": STRING,
                "description": STRING,
                "contents": STRINGS,
                "requirements": STRINGS,
                "also": STRINGS,
            },
            ["name", "image"],
        )
    ),
    "environmentsAtOnce": integer(1, 16),
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class WorkspaceSettings:
    cull_idle_minutes: float = 0.0
    """How long a notebook may be idle before it is stopped; 0 for as long as it likes."""
    cull_warning_minutes: float = 15.0
    """How long before that its users are warned."""
    home_size: str = "10Gi"
    """The size of the home volume of a new notebook, unless the form says another."""
    package_index: str = ""
    """Where pip finds packages for environments; '' for what pip is configured to use."""
    images: tuple[WorkspaceImage, ...] = field(default=DEFAULT_IMAGES)
    environments_at_once: int = 1
    """How many environments are installed at the same time."""


def read_workspace_settings(config: Mapping[str, Any]) -> WorkspaceSettings:
    """Reads the settings from a config that has been validated. Raises ValueError."""
    given = config.get("workspaces") or {}
    usual = WorkspaceSettings()
    listed = given.get("images")
    names = [str(each["name"]) for each in listed or ()]
    twice = next((name for name in names if names.count(name) > 1), "")
    if twice:
        raise ValueError(f'workspaces.images: two images are named "{twice}"; give each a name of its own')
    return WorkspaceSettings(
        cull_idle_minutes=given.get("cullIdleMinutes", usual.cull_idle_minutes),
        cull_warning_minutes=given.get("cullWarningMinutes", usual.cull_warning_minutes),
        home_size=given.get("homeSize") or usual.home_size,
        package_index=given.get("packageIndex") or "",
        images=usual.images if listed is None else tuple(map(_read_image, listed)),
        environments_at_once=given.get("environmentsAtOnce", usual.environments_at_once),
    )


def _read_image(given: Mapping[str, Any]) -> WorkspaceImage:
    return WorkspaceImage(
        name=given["name"],
        title=given.get("title") or given["name"],
        image=given["image"],
        description=given.get("description") or "",
        contents=tuple(given.get("contents") or ()),
        requirements=tuple(given.get("requirements") or ()),
        also=tuple(given.get("also") or ()),
    )


def find_image(image: str, images: Iterable[WorkspaceImage]) -> WorkspaceImage | None:
    """Returns the entry of the list whose environment stands for an image. The longest pattern wins."""
    untagged = _without_tag(image)
    fitting = [
        (len(pattern), each)
        for each in images
        if each.requirements
        for pattern in each.patterns
        if fnmatchcase(image, pattern) or fnmatchcase(untagged, pattern)
    ]
    return max(fitting, key=lambda found: found[0])[1] if fitting else None


def _without_tag(image: str) -> str:
    name, _, _ = image.partition("@")
    head, colon, tag = name.rpartition(":")
    return head if colon and "/" not in tag else name
