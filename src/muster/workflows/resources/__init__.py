"""Steps that create, change, read or delete an object of the cluster, and wait for it."""
