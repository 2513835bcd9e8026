"""Distributed XGBoost on made-up data: each replica trains on its own rows, all end up with the same model.

Reads what an XGBoostJob tells its replicas: MASTER_ADDR, MASTER_PORT, WORLD_SIZE, RANK.
"""

import hashlib
import os
import socket
import threading
import time

import numpy as np
import xgboost as xgb
from xgboost import collective
from xgboost.tracker import RabitTracker

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])


def wait_for(name: str, seconds: float = 60) -> None:
    """On a cluster, a replica's name is known a moment after the replica is. XGBoost does not wait for that."""
    until = time.monotonic() + seconds
    while True:
        try:
            socket.getaddrinfo(name, None)
            return
        except socket.gaierror:
            if time.monotonic() > until:
                raise
            time.sleep(0.5)


def moons(seed: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Two interleaved half circles: no straight line tells them apart."""
    random = np.random.default_rng(seed)
    label = random.integers(0, 2, rows)
    angle = random.uniform(0, np.pi, rows)
    x = np.where(label == 0, np.cos(angle), 1 - np.cos(angle))
    y = np.where(label == 0, np.sin(angle), 0.5 - np.sin(angle))
    return np.stack([x, y], axis=1) + random.normal(0, 0.15, (rows, 2)), label


class Progress(xgb.callback.TrainingCallback):
    def after_iteration(self, model, epoch, log):
        if rank == 0 and epoch % 5 == 4:
            print(f"round {epoch + 1:3d}  loss {log['test']['logloss'][-1]:.4f}", flush=True)
        return False


if rank == 0:
    # Names resolve to addresses that the tracker can bind; in the cluster the Service's name is this Pod.
    tracker = RabitTracker(n_workers=world, host_ip="0.0.0.0", port=port)
    tracker.start()
    threading.Thread(target=tracker.wait_for, daemon=True).start()

wait_for(address)
with collective.CommunicatorContext(dmlc_tracker_uri=address, dmlc_tracker_port=port, dmlc_task_id=str(rank)):
    features, labels = moons(seed=rank + 1, rows=2000)
    train = xgb.DMatrix(features, labels)
    test = xgb.DMatrix(*moons(seed=0, rows=2000))
    print(f"replica {rank} of {world}: {train.num_row()} rows of its own", flush=True)
    model = xgb.train(
        {"objective": "binary:logistic", "max_depth": 4, "eta": 0.3, "tree_method": "hist", "nthread": 1},
        train,
        num_boost_round=30,
        evals=[(test, "test")],
        verbose_eval=False,
        callbacks=[Progress()],
    )
    accuracy = float(np.mean((model.predict(test) > 0.5) == test.get_label()))
    digest = hashlib.sha256(bytes(model.save_raw("json"))).hexdigest()[:12]
    print(f"replica {rank}: accuracy {accuracy:.3f}, model {digest}", flush=True)
    assert digest == collective.broadcast(digest, root=0), "the replicas' models differ"
    if rank == 0:
        print(f"accuracy {accuracy:.3f}; all {world} replicas have the same model", flush=True)
