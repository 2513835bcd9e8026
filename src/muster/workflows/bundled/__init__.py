"""WorkflowTemplates that come with Muster. Each folder here is a bundle, which `muster templates install` installs."""

from __future__ import annotations

from pathlib import Path

from muster.kube.manifests import Document, load_manifest_files

FOLDER = Path(__file__).parent


def list_bundles() -> list[str]:
    return sorted(path.name for path in FOLDER.iterdir() if any(path.glob("*.yaml")))


def bundle_files(bundle: str) -> list[Path]:
    """Returns the manifests of a bundle. Raises LookupError if there is no such bundle."""
    if bundle not in list_bundles():
        raise LookupError(bundle)
    return sorted((FOLDER / bundle).glob("*.yaml"))


def load_bundle(bundle: str) -> list[Document]:
    return load_manifest_files(bundle_files(bundle))
