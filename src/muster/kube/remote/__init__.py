"""The client of a real Kubernetes API server, or of our own over HTTP."""
