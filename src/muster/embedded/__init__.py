"""The cluster in a box: an object store, a scheduler and a node agent in one process. Knows nothing of jobs."""
