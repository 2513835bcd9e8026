"""Runs: executions of versions, each a Workflow on the cluster."""
