"""Elastic PyTorch under torchrun: whenever workers come or go, all start over from the last checkpoint.

STEPS says how long to train. Ends early when the file STOP stands beside the checkpoint, for who only wants to watch.
"""

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

checkpoint = Path(os.environ["CHECKPOINT"])
steps = int(os.environ.get("STEPS", "400"))
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
torch.set_num_threads(1)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
done = 0
if checkpoint.exists():
    saved = torch.load(checkpoint)
    model.load_state_dict(saved["model"])
    done = saved["step"]
print(f"rank {rank} of {world} goes on at step {done}", flush=True)
random = torch.Generator().manual_seed(rank + 1)
features = torch.randn(200, 3, generator=random)
targets = features @ torch.tensor([[1.5], [-2.0], [0.5]])
for step in range(done + 1, steps + 1):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(features), targets)
    loss.backward()
    optimizer.step()
    enough = torch.tensor([int(checkpoint.with_name("STOP").exists())])
    dist.broadcast(enough, src=0)
    if rank == 0 and (step % 10 == 0 or enough):
        torch.save({"model": model.state_dict(), "step": step}, checkpoint.with_suffix(".new"))
        checkpoint.with_suffix(".new").rename(checkpoint)
        print(f"step {step:3d}  world {world}  loss {loss.item():.5f}", flush=True)
    if enough:
        break
    time.sleep(0.05)
weights = torch.cat([p.detach().flatten() for p in model.parameters()])
first = weights.clone()
dist.broadcast(first, src=0)
assert torch.equal(first, weights), "the ranks' models differ"
print(f"rank {rank}: same model everywhere", flush=True)
dist.barrier()
