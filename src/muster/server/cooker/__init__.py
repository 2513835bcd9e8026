"""MLP Cooker's REST API: a dialect of dispatch for the clients and WorkflowTemplates that speak it."""
