"""What can go wrong with an artifact. Messages are for the user, and never hold what a Secret holds."""

from __future__ import annotations


class ArtifactError(Exception):
    """It cannot be had, or kept, the way its fields say."""


class ArtifactMissing(ArtifactError):
    """Nothing is there. An optional artifact may be."""


class ArtifactUnreachable(ArtifactError):
    """The store did not answer. Trying again may help."""
