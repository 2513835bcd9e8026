"""What is the user's to mend."""

from __future__ import annotations


class ResourceError(Exception):
    """The step cannot do what it says; trying again would not help. The message is the node's."""
