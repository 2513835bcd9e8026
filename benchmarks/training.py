"""From submitting a training to all of its ranks having started, against torchrun and TorchX for the same script.

    python -m benchmarks.training [ROUNDS]          (default: 5)

Two ranks of a script that only says when it began. Muster runs it as a PyTorchJob of two replicas, as its users would:
on a cluster that is up, and by `muster run` alone, which brings a cluster up first. Contenders take turns, so that a
busy machine is as busy for all; the median counts. torchrun comes from the environment of examples/training/pytorch,
TorchX (its local_cwd scheduler, which starts the replicas itself) from .environments/peer-torchx. Both are installed
the first time.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.peers import ROOT, python_of

TORCHX = ("torchx>=0.7,<1",)
SCRIPT = ROOT / "benchmarks" / "programs" / "started.py"
RANKS = 2
TARGET = 1.3
# torch 1.13 requires redirecting or teeing; later versions do not.
TORCH = {**os.environ, "OMP_NUM_THREADS": "1", "PET_REDIRECTS": "1", "PET_TEE": "1"}
MUSTER = [sys.executable, "-m", "muster"]

JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: bench}}
spec:
  pytorchReplicaSpecs:
    Master:
      restartPolicy: Never
      template: &member
        spec:
          containers:
            - name: pytorch
              image: pytorch
              command: [{python}, {script}]
    Worker:
      restartPolicy: Never
      template: *member
"""


def main(rounds: int) -> None:
    made = subprocess.run(
        [ROOT / "scripts" / "environment", "examples/training/pytorch"], capture_output=True, text=True
    )
    if made.returncode:
        raise SystemExit(f"torchrun cannot be had here: {made.stderr.strip()}")
    python = f"{made.stdout.strip()}/python"
    with TemporaryDirectory() as folder, muster_up(Path(folder)) as muster:
        job = Path(folder) / "job.yaml"
        job.write_text(JOB.format(python=python, script=SCRIPT))
        cold = {**muster, "MUSTER_HOME": f"{folder}/cold"}
        torchx = [str(Path(python_of("torchx", TORCHX)).with_name("torchx")), "run", "-s", "local_cwd", "utils.python"]
        torchx += ["--num_replicas", str(RANKS), "--script", SCRIPT.name]
        torchrun = [python, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={RANKS}", str(SCRIPT)]
        contenders: dict[str, Callable[[], float]] = {
            "torchrun": lambda: until_started(torchrun, TORCH),
            "muster run, cluster up": lambda: until_started([*MUSTER, "run", "--rm", str(job)], muster),
            "muster run, no cluster": lambda: until_started([*MUSTER, "run", "--rm", str(job)], cold),
        }
        contenders["TorchX local"] = lambda: until_started(torchx, {**os.environ, "HOME": folder})
        times: dict[str, list[float]] = {name: [] for name in contenders}
        for number in range(rounds + 1):
            for name, run in contenders.items():
                seconds = run()
                if number:  # the first round only warms the caches
                    times[name].append(seconds)
    floor = statistics.median(times["torchrun"])
    print(f"from submit to {RANKS} ranks started, median of {rounds}; goal: at most {TARGET} x torchrun")
    for name, taken in times.items():
        median = statistics.median(taken)
        verdict = "" if name in ("torchrun", "TorchX local") else ("  ok" if median / floor <= TARGET else "  TOO SLOW")
        print(f"  {name:24s} {median:6.2f} s   {median / floor:5.2f} x torchrun{verdict}")


def until_started(command: list[str], environment: dict[str, str]) -> float:
    began = time.time()
    done = subprocess.run(
        command, env=environment, cwd=SCRIPT.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    starts = [float(moment) for moment in re.findall(r"started (\d+\.\d+)", done.stdout)]
    if done.returncode or len(starts) != RANKS:
        raise SystemExit(f"{shlex.join(command)} ended with {done.returncode}:\n{done.stdout}")
    return max(starts) - began


@contextmanager
def muster_up(folder: Path) -> Iterator[dict[str, str]]:
    environment = {**os.environ, "MUSTER_HOME": str(folder / "home")}
    subprocess.run([*MUSTER, "up", "-d"], env=environment, check=True, stdout=subprocess.DEVNULL)
    try:
        yield environment
    finally:
        subprocess.run([*MUSTER, "down"], env=environment, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", type=int, nargs="?", default=5)
    main(parser.parse_args().rounds)
