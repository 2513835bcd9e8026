"""Distributed least squares over MPI: every rank has its own rows, gradients are summed by allreduce."""

import random

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
print(f"rank {rank} of {size} on {MPI.Get_processor_name()}", flush=True)
source = random.Random(rank)
rows = [(x, 3.0 * x - 1.0 + source.gauss(0, 0.01)) for x in (source.uniform(-1, 1) for _ in range(500))]
slope = offset = 0.0
for step in range(1, 101):
    errors = [(slope * x + offset - y, x) for x, y in rows]
    own = (sum(e * x for e, x in errors), sum(e for e, _ in errors), sum(e * e for e, _ in errors), len(rows))
    by_slope, by_offset, squares, count = (world.allreduce(value) for value in own)
    slope, offset = slope - 0.5 * by_slope / count, offset - 0.5 * by_offset / count
    if rank == 0 and step % 20 == 0:
        print(f"step {step:3d}  loss {squares / count:.5f}", flush=True)
assert all(other == (slope, offset) for other in world.allgather((slope, offset))), "the ranks disagree"
assert abs(slope - 3) < 0.01
assert abs(offset + 1) < 0.01
if rank == 0:
    print(f"slope {slope:.3f}, offset {offset:.3f}; all {size} ranks agree", flush=True)
