"""`python -m muster` is the `muster` command."""

from muster.cli.main import main

main()
