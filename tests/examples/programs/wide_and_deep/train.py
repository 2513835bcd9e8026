"""Replaces wide_and_deep/train.py: workers report to every server, and servers count the reports."""

import os
import socket
import time

role, number = os.environ["TRAINING_ROLE"], os.environ["PADDLE_TRAINER_ID"]
servers = os.environ["PADDLE_PSERVERS_IP_PORT_LIST"].split(",")
trainers = os.environ["PADDLE_TRAINER_ENDPOINTS"].split(",")
assert len(trainers) == int(os.environ["PADDLE_TRAINERS_NUM"])
assert role == os.environ["PADDLE_TRAINING_ROLE"]
if role == "PSERVER":
    own = servers[int(number)]
    assert own == os.environ["POD_IP"] + ":" + os.environ["PADDLE_PORT"]
    heard: set[str] = set()
    with socket.create_server(("", int(os.environ["PADDLE_PORT"]))) as server:
        while len(heard) < len(trainers):
            peer, _ = server.accept()
            with peer:
                heard.add(peer.recv(99).decode())
    print("heard of trainers", *sorted(heard))
else:
    for end in servers:
        host, port = end.split(":")
        for _ in range(300):
            try:
                with socket.create_connection((host, int(port)), timeout=5) as peer:
                    peer.sendall(number.encode())
                break
            except OSError:
                time.sleep(0.1)
        else:
            raise SystemExit(f"{end} does not answer")
    print("told", len(servers), "servers; gloo", os.environ.get("PADDLE_WITH_GLOO"))
