"""Pods that record on a volume what they do, so a Pod that ran twice cannot be hidden."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

from muster.kube.objects import Object

GATE = "gate"
"""A file on the volume. Long-running Pods end some time after it is created."""

_SCRIPT = """
echo start >> /books/{name}
i=0
line() {{ i=$((i + 1)); echo "{name} $i"; }}
while {waits} && [ ! -e /books/{gate} ]; do line; sleep {pace}; done
n=0
while [ $n -lt {bursts} ]; do
  n=$((n + 1)); line; line; line; sleep {pause}
done
echo "{name} wrote $i"
echo end >> /books/{name}
[ $(grep -c start /books/{name}) -le {failures} ] && exit 9
exit {code}
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a Pod will do, and therefore what the test must find afterwards."""

    name: str
    volume: Object
    bursts: int
    pause: float
    code: int = 0
    failures: int = 0
    """How often it fails before it succeeds. It is restarted each time."""
    steady: bool = False
    """Runs until the gate file exists."""
    pace: float = 1.0
    doomed: bool = False
    """Is deleted right after it is created."""

    def pod(self) -> Object:
        script = _SCRIPT.format(
            name=self.name,
            gate=GATE,
            waits="true" if self.steady else "false",
            pace=f"{self.pace:.2f}",
            bursts=self.bursts,
            pause=f"{self.pause:.3f}",
            failures=self.failures,
            code=self.code,
        )
        container = {
            "name": "main",
            "image": "busybox",
            "command": ["sh", "-c", script],
            "volumeMounts": [{"name": "books", "mountPath": "/books"}],
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.name, "namespace": "default"},
            "spec": {
                "restartPolicy": "OnFailure" if self.failures else "Never",
                "containers": [container],
                "volumes": [{"name": "books", **self.volume}],
            },
        }

    @property
    def phase(self) -> str:
        return "Failed" if self.code else "Succeeded"

    def faults(self, pod: Object, books: str) -> list[str]:
        """Returns what is wrong with a Pod that has ended. Its record shows how often it ran."""
        if self.doomed:
            return [] if books.split() in ([], ["start"], ["start", "end"]) else [f"{self.name}: its book is {books!r}"]
        status = pod.get("status") or {}
        container = (status.get("containerStatuses") or [{}])[0]
        ended = (container.get("state") or {}).get("terminated") or {}
        found = {
            "phase": (status.get("phase"), self.phase),
            "exit code": (ended.get("exitCode"), self.code),
            "restart count": (container.get("restartCount"), self.failures),
            "book": (books.split(), ["start", "end"] * (self.failures + 1)),
        }
        return [f"{self.name}: its {what} is {got}, not {want}" for what, (got, want) in found.items() if got != want]

    def log_faults(self, log: str) -> list[str]:
        """Checks the log of one attempt: every line is there once and in order. A steady Pod prints the number of its
        lines last."""
        lines = log.splitlines()
        said = lines[-1].rpartition(" ")[2] if lines else ""
        written = int(said) if self.steady and said.isdigit() else 3 * self.bursts
        wanted = [*(f"{self.name} {number}" for number in range(1, written + 1)), f"{self.name} wrote {written}"]
        return [] if lines == wanted else [f"{self.name}: its log is {lines}, not {wanted}"]


def steady_plan(number: int, random: Random, books: Path) -> Plan:
    volume = {"hostPath": {"path": str(books), "type": "Directory"}}
    pace = random.uniform(2.0, 4.0)
    return Plan(f"steady-{number}", volume, random.randint(1, 8), random.uniform(0.1, 1.0), steady=True, pace=pace)


def short_plan(number: int, random: Random, claim: str) -> Plan:
    """Runs 0.1 to 3 seconds. One in ten fails, one in ten fails only at first, and one in ten is deleted at once."""
    bursts = random.randint(1, 6)
    pause = random.uniform(0.1, 3.0) / bursts
    volume = {"persistentVolumeClaim": {"claimName": claim}}
    fate = random.random()
    if fate > 0.9:
        return Plan(f"short-{number}", volume, bursts, pause, doomed=True)
    if fate < 0.1:
        return Plan(f"short-{number}", volume, bursts, pause, code=random.randint(1, 100))
    return Plan(f"short-{number}", volume, bursts, pause, failures=1 if fate < 0.2 else 0)


def a_job(name: str, completions: int, claim: str) -> Object:
    """Each of its Pods keeps a record in a file named after both."""
    book = f"/books/{name}.$HOSTNAME"
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", f"echo start >> {book}; sleep 0.3; echo end >> {book}"],
        "volumeMounts": [{"name": "books", "mountPath": "/books"}],
    }
    volumes = [{"name": "books", "persistentVolumeClaim": {"claimName": claim}}]
    template = {"spec": {"restartPolicy": "Never", "containers": [container], "volumes": volumes}}
    spec = {"completions": completions, "parallelism": completions, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def job_faults(job: Object, books: dict[str, str]) -> list[str]:
    """A Job creates as many Pods as it needs, and each runs once."""
    wanted, succeeded = job["spec"]["completions"], (job.get("status") or {}).get("succeeded")
    as_wanted = len(books) == wanted == succeeded and set(books.values()) == {"start\nend\n"}
    return [] if as_wanted else [f"Job {job['metadata']['name']}: {succeeded} of {wanted} Pods succeeded: {books}"]
