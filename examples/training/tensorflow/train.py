"""Distributed TensorFlow: MultiWorkerMirrored when all replicas are workers, a parameter server when there are any.

Reads TF_CONFIG, which a TFJob writes. A custom loop, since Keras 3 `fit` does not work with MultiWorkerMirrored.
"""

import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf

# A single worker gets no TF_CONFIG.
config = json.loads(os.environ.get("TF_CONFIG") or '{"cluster": {}, "task": {"type": "worker", "index": 0}}')
task, cluster = config["task"], config["cluster"]
truth = np.array([[1.5], [-2.0], [0.5]], dtype=np.float32)


def rows(seed: int, number: int = 500) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    features = random.normal(size=(number, 3)).astype(np.float32)
    return features, features @ truth + 0.01 * random.normal(size=(number, 1)).astype(np.float32)


def all_reduce() -> None:
    """Every worker computes on its own rows; the strategy sums their gradients."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    rank, world = task["index"], strategy.num_replicas_in_sync
    print(f"worker {rank} of {world}", flush=True)
    features, targets = (tf.constant(part) for part in rows(rank))
    with strategy.scope():
        weights = tf.Variable(tf.zeros([3, 1]))

    @tf.function
    def step():
        def own():
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((features @ weights - targets) ** 2)
            slope = tape.gradient(loss, weights)
            context = tf.distribute.get_replica_context()
            loss, slope = context.all_reduce(tf.distribute.ReduceOp.MEAN, [loss, slope])
            weights.assign_sub(0.1 * slope)
            return loss

        return strategy.run(own)

    for number in range(1, 101):
        loss = float(step().numpy())
        if rank == 0 and number % 20 == 0:
            print(f"step {number:3d}  loss {loss:.5f}", flush=True)
    assert np.abs(weights.numpy() - truth).max() < 0.05
    print(f"worker {rank}: loss {loss:.5f}, weights {np.round(weights.numpy().ravel(), 4).tolist()}", flush=True)


def parameter_server() -> None:
    """The chief hands out steps; workers compute them; the weights live on the parameter servers."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if task["type"] in ("ps", "worker"):
        server = tf.distribute.Server(
            resolver.cluster_spec(), job_name=task["type"], task_index=task["index"], protocol="grpc"
        )
        print(f"{task['type']} {task['index']} serves", flush=True)
        server.join()
        return
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    features, targets = rows(0)
    with strategy.scope():
        weights = tf.Variable(tf.zeros([3, 1]))

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.constant(features) @ weights - tf.constant(targets)) ** 2)
        weights.assign_sub(0.05 * tape.gradient(loss, weights))
        return loss

    for number in range(1, 101):
        result = coordinator.schedule(step)
        if number % 20 == 0:
            coordinator.join()
            print(f"step {number:3d}  loss {float(result.fetch()):.5f}", flush=True)
    coordinator.join()
    assert np.abs(weights.numpy() - truth).max() < 0.05
    print(f"chief: weights {np.round(weights.numpy().ravel(), 4).tolist()}", flush=True)


if "ps" in cluster:
    parameter_server()
else:
    all_reduce()
