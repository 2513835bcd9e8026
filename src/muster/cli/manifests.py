"""The files a command is given: read, and what is odd about them told."""

from __future__ import annotations

from collections.abc import Iterable

from muster.cli.output import warn
from muster.kube.manifests import Document, load_files


def read(files: Iterable[str], *, named: bool = True) -> list[Document]:
    """Everything in these files, in order. What was read but is hardly what was meant goes to stderr. With
    `named=False`, an object may have no name yet."""
    documents = load_files(files, named=named)
    for document in documents:
        for warning in document.warnings:
            warn(f"Warning: {warning}")
    return documents
