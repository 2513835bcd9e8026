"""Webhooks: messages to other programs when a run ends."""
