"""Argo Workflows: a pure engine, and the controllers and executors around it."""
