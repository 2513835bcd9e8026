"""Muster: run machine-learning jobs and workflows on a laptop and on a Kubernetes cluster."""

__version__ = "0.1.0"
