"""No-op tasks of Celery on Redis: `celery -A celery_app worker`, and `python celery_app.py JOBS SINGLES`."""

import json
import os
import sys
import time

from celery import Celery

app = Celery("bench", broker=os.environ["REDIS_URL"], backend=os.environ["REDIS_URL"])


@app.task(name="noop")
def noop():
    return 0


def main(jobs, singles):
    for _ in range(20):
        noop.delay().get(timeout=60)
    latencies = []
    for _ in range(singles):
        began = time.perf_counter()
        noop.delay().get(timeout=60)
        latencies.append(time.perf_counter() - began)
    cpu, began = time.process_time(), time.perf_counter()
    results = [noop.delay() for _ in range(jobs)]
    submitted, submit_cpu = time.perf_counter() - began, time.process_time() - cpu
    for result in results:
        result.get(timeout=300)
    total = time.perf_counter() - began
    print(json.dumps({"latencies": latencies, "submit": submitted, "submit_cpu": submit_cpu, "total": total}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
