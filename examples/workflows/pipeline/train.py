"""Distributed XGBoost: every replica of the XGBoostJob takes its share of the rows, all end up with the same model."""

import os
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import xgboost as xgb
from xgboost import collective
from xgboost.tracker import RabitTracker

folder, rounds = Path(sys.argv[1]), int(sys.argv[2])
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])

warnings.filterwarnings("ignore", module="xgboost.collective")  # the master may not be up yet: it is tried again


class Progress(xgb.callback.TrainingCallback):
    def after_iteration(self, model, epoch, log):
        if rank == 0 and epoch % 5 == 4:
            print(f"round {epoch + 1:3d}  loss {log['train']['logloss'][-1]:.4f}", flush=True)
        return False


if rank == 0:
    tracker = RabitTracker(n_workers=world, host_ip="0.0.0.0", port=port)
    tracker.start()
    threading.Thread(target=tracker.wait_for, daemon=True).start()

with collective.CommunicatorContext(dmlc_tracker_uri=address, dmlc_tracker_port=port, dmlc_task_id=str(rank)):
    data = np.load(folder / "train.npz")
    mine = xgb.DMatrix(data["features"][rank::world], data["labels"][rank::world])
    print(f"replica {rank} of {world}: {mine.num_row()} rows", flush=True)
    model = xgb.train(
        {"objective": "binary:logistic", "max_depth": 4, "eta": 0.3, "tree_method": "hist", "nthread": 1},
        mine,
        num_boost_round=rounds,
        evals=[(mine, "train")],
        verbose_eval=False,
        callbacks=[Progress()],
    )
    if rank == 0:
        model.save_model(folder / "model.json")
