"""The workflow engine: decides what a Workflow does next.

It is pure: it does no I/O, and clock and randomness are handed in.
"""
