"""A small DeepSpeed training on CPUs: ZeRO-1 shards the optimizer, gloo connects the processes, the loss falls.

Start it with torchrun on every replica. All processes end up with the same model.
"""

import os

os.environ.setdefault("DS_ACCELERATOR", "cpu")
import deepspeed
import torch
import torch.distributed as dist

CONFIG = {
    "train_micro_batch_size_per_gpu": 64,
    "optimizer": {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True}},
    "zero_optimization": {"stage": 1},
}


def spirals(seed: int, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two interleaved spirals: no straight line tells them apart."""
    random = torch.Generator().manual_seed(seed)
    label = torch.randint(0, 2, (rows,), generator=random)
    turn = torch.rand(rows, generator=random) * 3 * torch.pi
    angle = turn + label * torch.pi
    points = torch.stack([turn * torch.cos(angle), turn * torch.sin(angle)], dim=1) / 6
    return points + 0.05 * torch.randn(rows, 2, generator=random), label


# Without this, DeepSpeed compiles an extension for processes that share memory, which replicas do not.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
deepspeed.init_distributed(dist_backend="gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(
    torch.nn.Linear(2, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2)
)
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=CONFIG)
points, labels = spirals(seed=rank + 1, rows=1024)
print(f"rank {rank} of {world}: ZeRO stage {engine.zero_optimization_stage()}", flush=True)
for step in range(1, int(os.environ.get("STEPS", "300")) + 1):
    start = step * 64 % 1024
    batch = slice(start, start + 64)
    loss = torch.nn.functional.cross_entropy(engine(points[batch]), labels[batch])
    engine.backward(loss)
    engine.step()
    if rank == 0 and step % 60 == 0:
        print(f"step {step:3d}  loss {loss.item():.4f}", flush=True)
weights = torch.cat([parameter.detach().flatten() for parameter in engine.module.parameters()])
first = weights.clone()
dist.broadcast(first, src=0)
assert torch.equal(first, weights), "the ranks' models differ"
with torch.no_grad():
    test_points, test_labels = spirals(seed=0, rows=1000)
    accuracy = (engine.module(test_points).argmax(dim=1) == test_labels).float().mean().item()
print(f"rank {rank}: accuracy {accuracy:.3f}, same model everywhere", flush=True)
dist.barrier()
# torch 2.15 aborts in about one of twenty exits, from a gloo thread, after all work is done: exit without finalizers.
os._exit(0)
