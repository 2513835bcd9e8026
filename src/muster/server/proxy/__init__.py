"""The proxy to workspaces: notebooks, TensorBoards, other servers in Pods. Its threat model: docs/workspaces.md."""
