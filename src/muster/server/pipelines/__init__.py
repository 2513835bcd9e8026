"""The REST API of Kubeflow Pipelines (v2beta1)."""
