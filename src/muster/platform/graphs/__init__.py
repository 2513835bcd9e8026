"""The graph document of a workflow's version: what it may say, what is wrong with it, what it compiles to. Pure."""
