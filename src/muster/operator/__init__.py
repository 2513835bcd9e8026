"""The training controller on a real Kubernetes: what surrounds it there."""
