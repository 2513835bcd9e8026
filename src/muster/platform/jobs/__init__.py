"""Training jobs of every kind: whose they are, how they fare, and what is wrong with a manifest of one."""
