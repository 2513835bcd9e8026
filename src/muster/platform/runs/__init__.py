"""Runs: executions of versions. Each is a Workflow on the cluster."""
