"""Training jobs of every kind: owners, status, and validation of manifests."""
