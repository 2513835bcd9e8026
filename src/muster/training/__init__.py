"""Training jobs of every kind: one controller, one pure plan, and one small file per job kind."""
