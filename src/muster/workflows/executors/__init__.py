"""Executors run the leaf nodes of workflows: Pods, resource templates and HTTP requests."""
