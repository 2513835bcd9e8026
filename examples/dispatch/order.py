"""A web process of the shop, as a script: saves orders and their jobs together, and waits for the results."""

from __future__ import annotations

import sys

from jobs import dispatcher
from sqlalchemy import create_engine, text


def main(orders: int) -> None:
    dispatcher.list(limit=1)  # creates the dispatcher's tables, beside the shop's own
    engine = create_engine(dispatcher.database.url)
    handles = []
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, number INTEGER, job TEXT)"))
    for number in range(1, orders + 1):
        with engine.begin() as connection:  # the order and its job are saved together, or not at all
            args = {"rows": 400 * number, "seed": number}
            job = dispatcher.submit("train", args, key=f"order-{number}", connection=connection)
            insert = text("INSERT INTO orders (number, job) VALUES (:number, :job)")
            connection.execute(insert, {"number": number, "job": job.id})
        handles.append(job)
    engine.dispose()
    best = dispatcher.submit("praise", {"jobs": [job.id for job in handles]}, after=handles)
    for number, job in enumerate(handles, 1):
        print(f"order {number}: job {job.id} ran on {job.refresh().on}, accuracy {job.result()['accuracy']:.3f}")
    print(best.result())
    dispatcher.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
