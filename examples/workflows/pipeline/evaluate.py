"""Evaluates the model on unseen rows; passes the accuracy on as a parameter and the model as an artifact."""

import shutil
import sys
from pathlib import Path

import numpy as np
import xgboost as xgb

folder = Path(sys.argv[1])
model = xgb.Booster(model_file=folder / "model.json")
data = np.load(folder / "test.npz")
accuracy = float(np.mean((model.predict(xgb.DMatrix(data["features"])) > 0.5) == data["labels"]))
print(f"accuracy {accuracy:.3f} on {len(data['labels'])} rows it has never seen")
Path("/tmp/accuracy").write_text(f"{accuracy:.3f}")
shutil.copy(folder / "model.json", "/tmp/model.json")
