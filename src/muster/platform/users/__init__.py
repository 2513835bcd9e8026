"""Who works with the platform: accounts, teams, sessions, tokens, and the record of what they did."""
