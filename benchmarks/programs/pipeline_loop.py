"""A pipeline with one loop over a lightweight component: compiled to a file, or run by kfp.local."""

import sys

from kfp import compiler, dsl, local

action, count, target = sys.argv[1], int(sys.argv[2]), sys.argv[3]


@dsl.component(base_image="python:3.11")
def double(number: int) -> int:
    return 2 * number


@dsl.pipeline(name="bench")
def loop():
    with dsl.ParallelFor(items=list(range(count))) as number:
        double(number=number).set_caching_options(False)


if action == "compile":
    compiler.Compiler().compile(loop, target)
else:
    local.init(runner=local.SubprocessRunner(use_venv=action == "venv"), pipeline_root=target)
    loop()
