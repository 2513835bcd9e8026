"""The Kubernetes API over HTTP, as kubectl and other clients expect it."""
