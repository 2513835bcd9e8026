"""Serves TensorBoard to those who know its token. It runs inside the Pod, as the text of `python3 -c`, and imports
nothing of Muster. TensorBoard itself has no login, and Pods may share a network with those of other people.

Arguments: the port, then one NAME=PATH for each folder with event files.
"""

import hmac
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tensorboard import default, program


def log_folder(sources: "list[str]") -> "list[str]":
    """Returns the options that say where the event files are. Several folders become links in one: other ways to
    compare folders are not supported by all parts of TensorBoard."""
    pairs = [source.split("=", 1) for source in sources]
    if len(pairs) == 1:
        return ["--logdir", pairs[0][1]]
    if any("://" in path for _, path in pairs):
        return ["--logdir_spec", ",".join(name + ":" + path for name, path in pairs)]
    folder = tempfile.mkdtemp(prefix="logs-")
    for name, path in pairs:
        Path(folder, name.replace("/", "_")).symlink_to(path)
    return ["--logdir", folder]


ACTIVITY = "/muster/activity"
"""When the board was last used, for the culler; asking for it is no use."""


class GuardedServer(program.WerkzeugServer):
    """TensorBoard's own server, behind a check of the token."""

    def __init__(self, application: Any, flags: Any) -> None:
        expected = ("Bearer " + os.environ["MUSTER_WORKSPACE_TOKEN"]).encode()
        used = [time.time()]

        def guarded(environ: "dict[str, Any]", start_response: Callable[..., Any]) -> Iterable[bytes]:
            given = str(environ.get("HTTP_AUTHORIZATION", "")).encode("latin-1", "replace")
            if hmac.compare_digest(given, expected):
                if environ.get("PATH_INFO") == ACTIVITY:
                    start_response("200 OK", [("Content-Type", "application/json")])
                    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(used[0]))
                    return [json.dumps({"last_activity": moment}).encode()]
                used[0] = time.time()
                response: Iterable[bytes] = application(environ, start_response)
                return response
            start_response("401 Unauthorized", [("Content-Type", "text/plain")])
            return [b"this TensorBoard is served by the platform\n"]

        super().__init__(guarded, flags)


def main() -> int:
    port, *sources = sys.argv[1:]
    board = program.TensorBoard(plugins=default.get_plugins(), server_class=GuardedServer)
    # The fast loader serves all data on another port, to everyone.
    options = ["--load_fast", "false", "--reload_interval", "5", "--host", os.environ["MUSTER_POD_IP"], "--port", port]
    board.configure(["tensorboard", *options, *log_folder(sources)])
    result: int = board.main()
    return result


if __name__ == "__main__":
    sys.exit(main())
