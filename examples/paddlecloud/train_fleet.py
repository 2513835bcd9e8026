"""The program of example 2: a small residual network, trained by Fleet on every worker. Data parallel, on the CPU.

The original downloads a set of flower photos and trains ResNet-50 on GPUs.
"""

import os

import numpy as np
import paddle
from paddle.distributed import fleet

paddle.set_device("cpu")
fleet.init(is_collective=True)
rank, world = fleet.worker_index(), fleet.worker_num()


class Residual(paddle.nn.Layer):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = paddle.nn.Conv2D(width, width, 3, padding=1)
        self.second = paddle.nn.Conv2D(width, width, 3, padding=1)

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        hidden = paddle.nn.functional.relu(self.first(images))
        return paddle.nn.functional.relu(images + self.second(hidden))


def photos(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns pictures with a bright bar, upright or flat, and which of the two it is."""
    random = np.random.default_rng(seed)
    pictures = 0.3 * random.normal(size=(count, 1, 8, 8)).astype("float32")
    upright = random.integers(0, 2, size=count)
    for picture, is_upright, place in zip(pictures, upright, random.integers(0, 8, size=count), strict=True):
        picture[0, :, place] += is_upright
        picture[0, place, :] += 1 - is_upright
    return pictures, upright.astype("int64")


paddle.seed(0)
network = paddle.nn.Sequential(
    paddle.nn.Conv2D(1, 8, 3, padding=1), Residual(8), Residual(8), paddle.nn.Flatten(), paddle.nn.Linear(512, 2)
)
model = fleet.distributed_model(network)
optimizer = fleet.distributed_optimizer(paddle.optimizer.Adam(learning_rate=0.003, parameters=network.parameters()))
pictures, kinds = photos(seed=rank, count=128)
print(f"worker {rank} of {world}: {len(pictures)} pictures of its own", flush=True)
for step in range(1, 31):
    loss = paddle.nn.functional.cross_entropy(model(paddle.to_tensor(pictures)), paddle.to_tensor(kinds))
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    if rank == 0 and step % 10 == 0:
        print(f"step {step:3d}  loss {loss.item():.5f}", flush=True)
everywhere: list[paddle.Tensor] = []
paddle.distributed.all_gather(everywhere, network.parameters()[0])
assert all(np.array_equal(w.numpy(), everywhere[0].numpy()) for w in everywhere), "the workers' weights differ"
unseen, truth = photos(seed=99, count=200)
accuracy = float((network(paddle.to_tensor(unseen)).numpy().argmax(axis=1) == truth).mean())
print(f"worker {rank}: accuracy {accuracy:.3f} on pictures it has never seen, same weights everywhere", flush=True)
os._exit(0)
