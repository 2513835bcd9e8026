"""Snakemake: one rule, one file per task, two cores."""

import subprocess
import sys
from pathlib import Path

from benchmarks.shapes import tasks

shape, count, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
needed = dict(tasks(shape, count))
snakefile = f"""
NEEDED = {needed!r}
rule all:
    input: list(NEEDED)
rule noop:
    input: lambda wildcards: NEEDED[wildcards.task]
    output: "{{task,t[0-9]+}}"
    shell: "true && touch {{output}}"
"""
(folder / "Snakefile").write_text(snakefile)
command = [sys.executable, "-m", "snakemake", "--cores", "2", "--quiet", "all"]
subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
