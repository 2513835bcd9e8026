"""kfp.local: a pipeline of Python components, each a process in this environment."""

import sys

from benchmarks.shapes import tasks
from kfp import dsl, local

shape, count, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]


@dsl.component(base_image="python:3.11")
def noop():
    import subprocess

    subprocess.run(["sh", "-c", "true"], check=True)


@dsl.pipeline(name="bench")
def everything():
    made = {}
    for name, needed in tasks(shape, count):
        made[name] = noop().after(*(made[other] for other in needed))


local.init(runner=local.SubprocessRunner(use_venv=False), pipeline_root=folder)
everything()
