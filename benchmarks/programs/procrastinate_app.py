"""No-op tasks of Procrastinate on PostgreSQL: `procrastinate --app procrastinate_app.app worker`, and
`python procrastinate_app.py JOBS SINGLES`."""

import json
import os
import sys
import time

import procrastinate
import psycopg

URL = os.environ["DATABASE_URL"]
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=URL))


@app.task(name="noop")
def noop():
    return 0


def main(jobs, singles):
    submitting = procrastinate.App(connector=procrastinate.SyncPsycopgConnector(conninfo=URL))
    task = submitting.task(name="noop")(lambda: 0)
    with submitting.open(), psycopg.connect(URL, autocommit=True) as connection:

        def wait(first, last):
            query = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded' AND id BETWEEN %s AND %s"
            while connection.execute(query, (first, last)).fetchone()[0] < last - first + 1:
                time.sleep(0.002)

        for _ in range(20):
            id = task.defer()
            wait(id, id)
        latencies = []
        for _ in range(singles):
            began = time.perf_counter()
            id = task.defer()
            wait(id, id)
            latencies.append(time.perf_counter() - began)
        cpu, began = time.process_time(), time.perf_counter()
        ids = [task.defer() for _ in range(jobs)]
        submitted, submit_cpu = time.perf_counter() - began, time.process_time() - cpu
        wait(ids[0], ids[-1])
        total = time.perf_counter() - began
    print(json.dumps({"latencies": latencies, "submit": submitted, "submit_cpu": submit_cpu, "total": total}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
