"""Prefect 3: a flow of tasks that run a shell command, on its thread pool."""

import subprocess
import sys

from benchmarks.shapes import tasks
from prefect import flow, task

shape, count = sys.argv[1], int(sys.argv[2])


@task
def noop(*_needed):
    subprocess.run(["sh", "-c", "true"], check=True)


@flow(log_prints=False)
def everything():
    made = {}
    for name, needed in tasks(shape, count):
        made[name] = noop.submit(*(made[other] for other in needed))
    for future in made.values():
        future.wait()


if __name__ == "__main__":
    everything()
