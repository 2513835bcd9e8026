"""The server: every HTTP API, and how to start, find and stop the process."""
