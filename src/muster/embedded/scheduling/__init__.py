"""The scheduler: which Pod goes where, and which gang waits."""
