"""Distributed PyTorch (DDP) on made-up data: loss falls, and all replicas end up with the same model.

Runs under a PyTorchJob as plain processes (MASTER_ADDR, RANK, WORLD_SIZE) and under torchrun (which sets the same).
"""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def spirals(seed: int, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two interleaved spirals: no straight line tells them apart."""
    random = torch.Generator().manual_seed(seed)
    label = torch.randint(0, 2, (rows,), generator=random)
    turn = torch.rand(rows, generator=random) * 3 * torch.pi
    angle = turn + label * torch.pi
    points = torch.stack([turn * torch.cos(angle), turn * torch.sin(angle)], dim=1) / 6
    return points + 0.05 * torch.randn(rows, 2, generator=random), label


def same_everywhere(model: torch.nn.Module) -> bool:
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    first = weights.clone()
    dist.broadcast(first, src=0)
    return bool(torch.equal(first, weights))


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
torch.set_num_threads(1)
model = DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(),
                        torch.nn.Linear(64, 2))
)  # fmt: skip
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
points, labels = spirals(seed=rank + 1, rows=1000)
print(f"replica {rank} of {world}: {len(points)} rows of its own", flush=True)
for step in range(1, int(os.environ.get("STEPS", "200")) + 1):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(points), labels)
    loss.backward()
    optimizer.step()
    if rank == 0 and step % 40 == 0:
        print(f"step {step:3d}  loss {loss.item():.4f}", flush=True)
with torch.no_grad():
    test_points, test_labels = spirals(seed=0, rows=1000)
    accuracy = (model(test_points).argmax(dim=1) == test_labels).float().mean().item()
assert same_everywhere(model), "the replicas' models differ"
print(f"replica {rank}: accuracy {accuracy:.3f}, same model everywhere", flush=True)
dist.barrier()
if rank == 0:
    print(f"accuracy {accuracy:.3f}", flush=True)
# torch 2.15 aborts in about one of twenty exits, from a gloo thread, after all work is done: exit without finalizers.
os._exit(0)
