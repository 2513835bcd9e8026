"""Uses the model, which arrives as an artifact."""

import sys

import numpy as np
import xgboost as xgb

path, accuracy = sys.argv[1:]
model = xgb.Booster(model_file=path)
chance = float(model.predict(xgb.DMatrix(np.array([[0.0, 1.0]])))[0])
print(f"{model.num_boosted_rounds()} trees, accuracy {accuracy}; (0, 1) is in the second moon with p = {chance:.3f}")
