"""Workflows and CronWorkflows of the cluster that are no runs of the platform."""
