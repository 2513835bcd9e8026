"""kill -9 of the server, hundreds of times, while Pods run and clients write: what it costs and that nothing is lost.

    python -m benchmarks.kill [--kills 200] [--pods 200] [--seed N] [--home DIR]

A real server is killed at random moments, every fourth time before it has come up. Clients write down what was
acknowledged to them and Pods keep books about themselves; in the end all of it is compared. The floor of a restart is
what Python takes to start and load asyncio, measured in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random, SystemRandom

sys.path.insert(0, str(Path(__file__).parent.parent))  # the storm is shared with the tests

from tests.chaos.real_server import RealServer
from tests.chaos.storm import CONFIG, Storm


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--pods", type=int, default=200, help="how many run at the same time")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(1_000_000))
    parser.add_argument("--home", type=Path, default=Path.cwd(), help="where to put the data (default: here)")
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}")
    home = Path(tempfile.mkdtemp(prefix="muster-bench-", dir=chosen.home))
    server = RealServer(home / "home", **CONFIG)
    storm = Storm(server, home / "books", Random(chosen.seed), chosen.kills, chosen.pods, chosen.kills, 0.5)
    try:
        faults = asyncio.run(_measure(storm))
    finally:
        server.end()
        shutil.rmtree(home, ignore_errors=True)
    if faults:
        print("\n".join(faults), file=sys.stderr)
        raise SystemExit(1)


async def _measure(storm: Storm) -> list[str]:
    began = time.monotonic()
    ledger = await storm.run()
    took = time.monotonic() - began
    proof = await storm.proof(ledger)
    restarts, floor = sorted(storm.restarts), _floor()
    print(f"{storm.kills} kills in {took:.0f} s, {storm.kills_before_ready} of them before the server had come up")
    for share in (0.5, 0.95):
        seconds = restarts[math.ceil(share * len(restarts)) - 1]
        print(f"restart p{share * 100:<2.0f}  {seconds:.2f} s, {seconds / floor:.1f} times the floor of {floor:.2f} s")
    print(f"{ledger.acknowledged:>6} writes acknowledged, {len(proof.writes)} lost")
    print(f"{len(storm.plans):>6} Pods, {len(proof.pods)} of which ran twice, not at all, or ended wrongly")
    print(f"{proof.lines:>6} log lines, {len(proof.logs)} logs not whole")
    return proof.faults


def _floor() -> float:
    """Seconds for Python to start and import what any server needs: the best of a few runs."""
    tries = []
    for _ in range(5):
        began = time.monotonic()
        subprocess.run([sys.executable, "-c", "import asyncio, ssl, sqlite3"], check=True)
        tries.append(time.monotonic() - began)
    return min(tries)


if __name__ == "__main__":
    main()
