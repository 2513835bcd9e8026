"""The files of Pods that this machine's node agent keeps. Implements `muster.kube.node_files.NodeFiles`."""

from __future__ import annotations

from pathlib import Path

from muster.embedded.node.annotations import output_folder, scratch_folder
from muster.embedded.node.log_files import DroppedLog, LineReader, log_files, read_dropped, read_last_output
from muster.embedded.node.logs import pod_log_folder
from muster.embedded.node.settings import AgentSettings
from muster.embedded.node.supervisor.output_files import PROBLEM_FILE
from muster.kube.node_files import NodeFilesError
from muster.kube.objects import Object, name_of, namespace_of, uid_of


class AgentFiles:
    def __init__(self, settings: AgentSettings) -> None:
        self._pods = settings.pods
        self._logs = str(settings.log_folder)

    def output(self, pod: Object, container: str, index: int) -> Path | None:
        folder = output_folder(self._pods, uid_of(pod), container)
        problem = folder / PROBLEM_FILE
        if problem.exists():
            raise NodeFilesError(problem.read_text())
        copy = folder / str(index)
        return copy if copy.exists() else None

    def outputs_written_at(self, pod: Object, container: str) -> int:
        try:
            return output_folder(self._pods, uid_of(pod), container).stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def last_output(self, pod: Object, container: str, limit: int) -> bytes:
        return read_last_output(self._log_folder(pod, container), limit)

    def write_log(self, pod: Object, container: str, target: Path) -> None:
        folder = self._log_folder(pod, container)
        files = log_files(folder)
        reader = LineReader(timestamps=False)
        with target.open("wb") as text:
            dropped = read_dropped(folder, files[-1].attempt) if files else DroppedLog()
            if dropped.size:
                text.write(reader.feed(dropped.line()))
            for file in files:
                if file.attempt == files[-1].attempt:
                    text.write(reader.feed(Path(file.path).read_bytes()))

    def scratch_folder(self, pod: Object, container: str) -> str:
        return scratch_folder(f"{self._pods}/{uid_of(pod)}", container)

    def _log_folder(self, pod: Object, container: str) -> str:
        return f"{pod_log_folder(self._logs, namespace_of(pod), name_of(pod), uid_of(pod))}/{container}"
