"""Training jobs of every kind: one reconciler, and one small dialect per kind."""
