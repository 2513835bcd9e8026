"""The server: the embedded cluster behind HTTPS, and how to start, find and stop one."""
