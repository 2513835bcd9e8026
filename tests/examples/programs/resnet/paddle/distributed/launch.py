"""Replaces Paddle's launcher and prints its arguments."""

import os
import sys
from pathlib import Path

mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
kind = [mount[2] for mount in mounts if mount[1] == "/dev/shm"][-1]
print(sys.argv[1], kind, os.environ["PADDLE_TRAINER_ID"], "of", os.environ["PADDLE_TRAINERS_NUM"])
