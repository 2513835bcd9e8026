"""What runs in the supervisor's process: one Pod, to its end.

The zygote forks this process for every Pod, so it imports as little as possible: the standard library, without
asyncio.
"""
