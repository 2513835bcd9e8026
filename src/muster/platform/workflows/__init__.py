"""Workflows and their versions."""
