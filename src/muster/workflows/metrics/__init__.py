"""The metrics that workflows and templates define (`metrics.prometheus`), kept in memory and shown as text."""
