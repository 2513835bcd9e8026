"""Why an artifact cannot be fetched or stored."""

from __future__ import annotations


class ArtifactError(Exception):
    """The artifact cannot be fetched or stored. The message is for the user and never contains secret values."""


class ArtifactMissing(ArtifactError):
    """Nothing is stored there. An optional artifact may be missing."""


class ArtifactUnreachable(ArtifactError):
    """The store did not respond. Retrying may help."""
