"""Kubernetes objects as plain data, pure functions on them, and the `Cluster` protocol with its remote client."""
