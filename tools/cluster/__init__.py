"""A real Kubernetes for the tests, built from package registries and run in a network namespace of its own."""
