"""What users do to workflows: retry, resubmit, stop, suspend, resume, answer. Pure: a workflow in, a workflow out.

They take workflows with their nodes (`status.nodes`), and whoever calls them writes the answer back with its nodes.
"""
