"""Workspaces: notebooks, TensorBoards, volumes, and the metrics that jobs and runs write."""
