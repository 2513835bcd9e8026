"""Distributed LightGBM under an XGBoostJob: the replicas find each other by a list of machines.

Rank 0 is the master, the others are workers. On a cluster every machine has the same port and a name of its own; where
Pods share one network each has a port of its own, which WORKER_ENDPOINTS tells.
"""

import hashlib
import os

import lightgbm as lgb
import numpy as np

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
master = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
machines = [master, *os.environ["WORKER_ENDPOINTS"].split(",")]
random = np.random.default_rng(rank)
features = random.normal(size=(2000, 4))
labels = (features[:, 0] * features[:, 1] + 0.5 * features[:, 2] > 0).astype(int)
train = lgb.Dataset(features, labels)


def progress(now):
    if rank == 0 and now.iteration % 10 == 9:
        print(f"round {now.iteration + 1:3d}  loss {now.evaluation_result_list[0][2]:.4f}", flush=True)


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
    train,
    num_boost_round=40,
    valid_sets=[train],
    callbacks=[progress],
)
test = np.random.default_rng(1000).normal(size=(2000, 4))
answers = (test[:, 0] * test[:, 1] + 0.5 * test[:, 2] > 0).astype(int)
predictions = model.predict(test)
accuracy = float(np.mean((predictions > 0.5) == answers))
assert accuracy > 0.9
digest = hashlib.sha256(predictions.tobytes()).hexdigest()[:12]
print(f"replica {rank}: accuracy {accuracy:.3f}, model {digest}", flush=True)
