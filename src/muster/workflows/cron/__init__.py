"""CronWorkflows: workflows that run on a schedule."""
