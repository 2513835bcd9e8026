"""Artifacts: their locations, archives and stores."""
