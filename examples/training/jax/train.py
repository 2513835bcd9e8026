"""Distributed JAX: each process holds its share of the data, gradients are averaged over all of them."""

import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

jax.config.update("jax_platforms", "cpu")
jax.distributed.initialize(
    coordinator_address=f"{os.environ['COORDINATOR_ADDRESS']}:{os.environ['COORDINATOR_PORT']}",
    num_processes=int(os.environ["NUM_PROCESSES"]),
    process_id=int(os.environ["PROCESS_ID"]),
)
rank, world = jax.process_index(), jax.process_count()
random = np.random.default_rng(rank)
truth = np.array([1.5, -2.0, 0.5], dtype=np.float32)
features = random.normal(size=(500, 3)).astype(np.float32)
targets = features @ truth + 0.01 * random.normal(size=500).astype(np.float32)
print(f"process {rank} of {world}: {len(features)} rows of its own", flush=True)


@jax.jit
def gradient(weights):
    return jax.value_and_grad(lambda w: jnp.mean((features @ w - targets) ** 2))(weights)


weights = np.zeros(3, dtype=np.float32)
for step in range(1, 101):
    loss, slope = gradient(weights)
    everybody = multihost_utils.process_allgather(jnp.concatenate([jnp.array([loss]), slope]))
    mean = np.asarray(everybody).reshape(world, -1).mean(axis=0)
    weights = weights - 0.1 * mean[1:]
    if rank == 0 and step % 20 == 0:
        print(f"step {step:3d}  loss {mean[0]:.5f}", flush=True)
everywhere = np.asarray(multihost_utils.process_allgather(jnp.array(weights))).reshape(world, -1)
assert np.array_equal(everywhere, np.tile(weights, (world, 1))), "the processes' weights differ"
assert np.abs(weights - truth).max() < 0.05
print(f"process {rank}: loss {mean[0]:.5f}, same weights everywhere", flush=True)
