"""Distributed LightGBM under an XGBoostJob: the replicas find each other by a list of machines.

Rank 0 is the master, the others are workers. On a cluster every machine has the same port and a name of its own; where
Pods share one network each has a port of its own, which WORKER_ENDPOINTS tells.
"""

import os

import lightgbm as lgb
import numpy as np

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
master = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
machines = [master, *os.environ["WORKER_ENDPOINTS"].split(",")]
random = np.random.default_rng(rank)
features = random.normal(size=(2000, 4))
labels = (features[:, 0] * features[:, 1] + 0.5 * features[:, 2] > 0).astype(int)
print(f"replica {rank} of {world}: {len(features)} rows of its own", flush=True)
model = lgb.train(
    {
        "objective": "binary",
        "metric": "binary_logloss",
        "tree_learner": "data",
        "pre_partition": True,
        "num_machines": world,
        "machines": ",".join(machines),
        "local_listen_port": int(machines[rank].rpartition(":")[2]),
        "num_threads": 1,
        "verbosity": -1,
    },
    lgb.Dataset(features, labels),
    num_boost_round=40,
)
test = np.random.default_rng(1000).normal(size=(2000, 4))
answers = (test[:, 0] * test[:, 1] + 0.5 * test[:, 2] > 0).astype(int)
accuracy = float(np.mean((model.predict(test) > 0.5) == answers))
assert accuracy > 0.9
print(f"replica {rank}: accuracy {accuracy:.3f}", flush=True)
