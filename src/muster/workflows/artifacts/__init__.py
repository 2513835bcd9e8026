"""Artifacts: where they are kept, how they are packed, and the stores that hold them."""
