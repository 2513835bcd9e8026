"""Luigi: a Task with a file for its target, two worker processes."""

import subprocess
import sys
from pathlib import Path

import luigi
from benchmarks.shapes import tasks

shape, count, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
NEEDED = dict(tasks(shape, count))


class Noop(luigi.Task):
    name = luigi.Parameter()

    def requires(self):
        return [Noop(name=name) for name in NEEDED[self.name]]

    def output(self):
        return luigi.LocalTarget(folder / str(self.name))

    def run(self):
        subprocess.run(["sh", "-c", "true"], check=True)
        self.output().open("w").close()


sys.setrecursionlimit(100_000)
done = luigi.build([Noop(name=name) for name in NEEDED], workers=2, local_scheduler=True, log_level="ERROR")
assert done
