"""The `muster` command: one module per command group, output formats beside them."""
