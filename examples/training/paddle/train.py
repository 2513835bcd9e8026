"""Distributed PaddlePaddle: started by `python -m paddle.distributed.launch` on each replica of a PaddleJob."""

import os

import numpy as np
import paddle
import paddle.distributed as dist

paddle.set_device("cpu")
dist.init_parallel_env()
rank, world = dist.get_rank(), dist.get_world_size()
truth = np.array([[1.5], [-2.0], [0.5]], dtype="float32")
random = np.random.default_rng(rank)
features = random.normal(size=(500, 3)).astype("float32")
targets = features @ truth + 0.01 * random.normal(size=(500, 1)).astype("float32")
print(f"trainer {rank} of {world}: {len(features)} rows of its own", flush=True)
paddle.seed(0)
model = paddle.DataParallel(paddle.nn.Linear(3, 1))
optimizer = paddle.optimizer.SGD(learning_rate=0.1, parameters=model.parameters())
for step in range(1, 101):
    loss = paddle.nn.functional.mse_loss(model(paddle.to_tensor(features)), paddle.to_tensor(targets))
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    if rank == 0 and step % 20 == 0:
        print(f"step {step:3d}  loss {loss.item():.5f}", flush=True)
everywhere: list[paddle.Tensor] = []
dist.all_gather(everywhere, model.parameters()[0])
assert all(np.array_equal(w.numpy(), everywhere[0].numpy()) for w in everywhere), "the trainers' weights differ"
print(f"trainer {rank}: loss {loss.item():.5f}, same weights everywhere", flush=True)
os._exit(0)
