"""python -m tools.cluster up|down|status|run|logs|restart|fake-nodes: called by `make cluster-up` and similar
targets."""

from __future__ import annotations

import argparse
import os
import signal
import sys

from tools.cluster import kwok, network, processes
from tools.cluster.build import BuildError, build, missing, program
from tools.cluster.cluster import PARTS, USUAL, Cluster, ClusterError, chosen
from tools.cluster.images import ImageError
from tools.cluster.kubectl import KubectlFailed, kubectl
from tools.cluster.processes import ComponentFailed
from tools.cluster.progress import say
from tools.cluster.sources import KUBERNETES


def main(arguments: list[str]) -> int:
    # When terminated, stop what was started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    told = _parser().parse_args(arguments)
    cluster = Cluster(told.name)
    try:
        return _do(told, cluster)
    except BrokenPipeError:
        # The reader has closed the pipe. Discard the rest of the buffer.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (BuildError, ClusterError, ComponentFailed, ImageError, KubectlFailed) as error:
        say(f"error: {error}")
        return 1


def _do(told: argparse.Namespace, cluster: Cluster) -> int:
    if told.action == "build":
        build([source for part in chosen(told.parts) for source in PARTS[part].sources])
    elif told.action == "up":
        cluster.up(told.parts, fake_nodes=told.fake_nodes)
        say(f"The cluster is up. {_how_to_use(cluster)}")
    elif told.action == "down":
        cluster.down()
        say("The cluster is gone.")
    elif told.action == "status":
        return _status(cluster)
    elif told.action == "logs":
        print(cluster.log(told.component), end="")
    elif told.action == "restart":
        cluster.restart(told.component, *told.arguments)
    elif told.action == "fake-nodes":
        kwok.fake_nodes(cluster.layout, told.count, cpu=told.cpu, memory=told.memory, gpus=told.gpus)
    elif told.action == "run":
        return _run(cluster, told.command)
    return 0


def _status(cluster: Cluster) -> int:
    components = cluster.status()
    if not components:
        to_build = len(missing([source for part in USUAL for source in PARTS[part].sources]))
        print("The cluster is down." + (f" {to_build} programs are to be built first." if to_build else ""))
        return 1
    for name, pid in components.items():
        state = f"running, pid {pid}" if pid else f"ENDED, see {processes.log_of(cluster.layout, name)}"
        print(f"{name:24} {state}")
    if cluster.is_up():
        print(kubectl(cluster.layout, "get", "nodes", "--output=wide"), end="")
        print(_how_to_use(cluster))
    return 0 if all(components.values()) else 1


def _run(cluster: Cluster, command: list[str]) -> int:
    """Replaces this process."""
    if not cluster.is_up():
        raise ClusterError("the cluster is down: make cluster-up")
    folder = program(KUBERNETES, "kubectl").parent
    environment = {
        **os.environ, "KUBECONFIG": str(cluster.kubeconfig), "PATH": f"{folder}:{os.environ['PATH']}",
    }  # fmt: skip
    whole = network.inside(cluster.layout, command or [os.environ.get("SHELL", "/bin/sh")])
    sys.stdout.flush()
    os.execvpe(whole[0], whole, environment)  # noqa: S606 (it is what the user asked for)


def _how_to_use(cluster: Cluster) -> str:
    name = "" if cluster.layout.name == "muster" else f" --name {cluster.layout.name}"
    return f"Use it: {sys.executable} -m tools.cluster{name} run kubectl get pods"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.cluster", description=__doc__)
    parser.add_argument("--name", default="muster", help="several clusters may run side by side, each with its name")
    actions = parser.add_subparsers(dest="action", required=True)
    for action in ("build", "up"):
        action_parser = actions.add_parser(action)
        known = f"of {', '.join(PARTS)}; if none, all but {' and '.join(part for part in PARTS if part not in USUAL)}"
        action_parser.add_argument("parts", nargs="*", default=list(USUAL), help=known)
        action_parser.add_argument("--fake-nodes", type=int, help="how many nodes KWOK plays")
    actions.add_parser("down")
    actions.add_parser("status")
    logs = actions.add_parser("logs")
    logs.add_argument("component")
    restart = actions.add_parser("restart", help="a component, with further arguments")
    restart.add_argument("component")
    restart.add_argument("arguments", nargs=argparse.REMAINDER)
    fake_nodes = actions.add_parser("fake-nodes", help="have exactly so many of them")
    fake_nodes.add_argument("count", type=int)
    fake_nodes.add_argument("--cpu", type=int, default=32)
    fake_nodes.add_argument("--memory", default="256Gi")
    fake_nodes.add_argument("--gpus", type=int, default=0)
    run = actions.add_parser("run", help="a command in the cluster's network; a shell, if none")
    run.add_argument("command", nargs=argparse.REMAINDER)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
