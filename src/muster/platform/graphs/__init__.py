"""The graph document of a workflow version: its schema, its validation, and the Argo Workflow it compiles to. Pure."""
