"""Dispatch on the server: one dispatcher on the platform's database, and whose jobs they are."""
