"""Logs of attempts whose Pods are about to be replaced by others of the same names."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from muster.kube.cluster import Cluster, LogQuery
from muster.kube.errors import ApiError

_BLOCK = 1 << 16


async def keep_logs(
    cluster: Cluster, folder: Path, run_id: str, round: int, namespace: str, pods: Iterable[str]
) -> None:
    """Copies what these Pods have written so far. Again, it is the same."""
    for pod in pods:
        target = kept_log(folder, run_id, round, pod)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = target.with_suffix(".coming")
        try:
            with draft.open("wb") as file:
                async for piece in cluster.logs(pod, namespace, LogQuery(container="main", timestamps=True)):
                    file.write(piece)
        except ApiError:
            draft.unlink(missing_ok=True)  # it never began
            continue
        draft.rename(target)


def kept_log(folder: Path, run_id: str, round: int, pod: str) -> Path:
    """Lines with the times they were written at."""
    return folder / "runs" / run_id / f"{round}-{pod}.log"


async def read_kept(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block


def drop_logs(folder: Path, run_id: str) -> None:
    shutil.rmtree(folder / "runs" / run_id, ignore_errors=True)
