"""The supervisor process: runs one Pod to its end.

The zygote forks it for every Pod, so it imports as little as possible: the standard library, without asyncio.
"""
