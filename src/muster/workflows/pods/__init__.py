"""Leaves that are Pods: building them, feeding them, watching them, and collecting what they leave."""
