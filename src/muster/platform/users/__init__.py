"""Users of the platform: accounts, teams, sessions, tokens and the audit log."""
