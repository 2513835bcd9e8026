"""A process that checks text of users for the server: `python -m muster.server.worker_process MEGABYTES`.

It reads calls from its input and writes results to its output, each as a length and a pickle, until its input ends.
Both ends run this program; users control only the arguments, which are plain data. The server kills it when a call
takes too long.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import pickle
import resource
import signal
import struct
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

LENGTH = struct.Struct(">I")
OK, RAISED, OUT_OF_MEMORY = "ok", "raised", "out of memory"
_NICENESS = 5
_PR_SET_PDEATHSIG = 1
_DEEPEST_RECURSION = 5000
_MEGABYTE = 1 << 20


def main(megabytes: int) -> None:
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    _confine(megabytes)
    while (request := _read(requests)) is not None:
        outcome, value, seconds = answer(request)
        packed = pickle.dumps((outcome, value, seconds), pickle.HIGHEST_PROTOCOL)
        answers.write(LENGTH.pack(len(packed)) + packed)
        answers.flush()
        if outcome == OUT_OF_MEMORY:
            return


def answer(request: bytes) -> tuple[str, Any, float]:
    """Returns what became of a call, its result or exception, and the seconds of CPU time it took."""
    started = time.process_time()
    try:
        module, name, arguments = pickle.loads(request)  # noqa: S301 (the server wrote it)
        result = getattr(importlib.import_module(module), name)(*arguments)
        pickle.dumps(result, pickle.HIGHEST_PROTOCOL)
    except MemoryError:
        return OUT_OF_MEMORY, None, time.process_time() - started
    except RecursionError:
        return RAISED, ValueError("this is nested too deeply"), time.process_time() - started
    except Exception as error:
        return RAISED, error, time.process_time() - started
    return OK, result, time.process_time() - started


def _read(requests: BinaryIO) -> bytes | None:
    head = requests.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    return requests.read(LENGTH.unpack(head)[0])


def _confine(megabytes: int) -> None:
    """Limits the memory, yields to the server, and ends with it."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)  # what a library prints must not become a result
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then closes our input
    # When the server is killed, its end of the pipe closes before the kernel kills this process. Writing the result
    # must then end it without a traceback.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.nice(_NICENESS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = used + (megabytes + _IMPORTS_MEGABYTES) * _MEGABYTE
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    sys.setrecursionlimit(_DEEPEST_RECURSION)


_IMPORTS_MEGABYTES = 512
"""Address space of the modules that a call imports."""

if __name__ == "__main__":
    main(int(sys.argv[1]))
