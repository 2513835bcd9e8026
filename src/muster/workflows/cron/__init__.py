"""CronWorkflows: workflows that run at certain times."""
