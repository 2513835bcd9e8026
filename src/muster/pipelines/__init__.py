"""Kubeflow Pipelines: compiled pipelines (IR) run on the workflow engine."""
