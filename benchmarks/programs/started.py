"""Says when it began: what all contenders of benchmarks/training.py start."""

import time

print(f"started {time.time():.6f}", flush=True)
time.sleep(1)  # a job is over with its master: the others shall have begun by then
