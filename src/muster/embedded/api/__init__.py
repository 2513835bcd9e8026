"""The HTTP face of the embedded cluster: the Kubernetes API, as kubectl and every other client expect it."""
