"""A real Kubernetes for the tests, built from package registries and run in its own network namespace."""
