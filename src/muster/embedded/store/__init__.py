"""The object store: objects in memory, every change on disk, with the API server's rules for reads and writes."""
