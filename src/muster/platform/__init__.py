"""What a team needs on top of a cluster: users, workflows with versions, modules, runs and shared resources."""
