"""Status messages as codes with values.

Controllers write messages into Kubernetes objects: the workflow engine and Argo into Workflows, the training
controllers into conditions, the scheduler into Pods and PodGroups. The dispatcher writes the reason of each state into
its jobs. `explain` finds the known messages in such a text. The API returns codes with values next to the English text,
so that a user interface does not parse English.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from muster.platform.records.common import MessagePart

TEXT: Final = "text"
"""The code of text that is not known; its only value is `text`."""
ABOUT: Final = "about"
"""The code of a name in front of a message, as in `train: No more retries left`; its only value is `name`."""

SENTENCES: Final[Mapping[str, str]] = {
    # The workflow engine and Argo
    "status.retries-used": "No more retries left",
    "status.retry-duration": "Max duration limit exceeded",
    "status.retry-backoff": "Backoff would exceed max duration limit",
    "status.retry-deadline": "retry exceeded workflow deadline {when}",
    "status.stopped": "Stopped with strategy '{strategy}'",
    "status.shutdown": "workflow shutdown with strategy: {strategy}",
    "status.child-failed": "child '{child}' failed",
    "status.fail-fast": "template has failed or errored children and failFast enabled",
    "status.pod-deadline": "Pod was active on the node longer than the specified deadline",
    "status.pod-deleted": "pod deleted",
    "status.outputs": "outputs could not be collected: {error}",
    "status.node-failed": "{node} failed",
    # The platform
    "status.workflow-deleted": "its Workflow was deleted on the cluster",
    "status.stopped-by": "Stopped by {user}",
    "status.stopped-elsewhere": "Stopped on the cluster",
    "status.stopped-with-run": "Stopped together with the run",
    "status.skipped-failed": "Skipped because {cause} failed",
    "status.skipped-stopped": "Skipped because the run was stopped",
    "status.skipped-condition": "Skipped because its condition was not met",
    "status.skipped-list": "Skipped because its list is empty",
    "status.skipped-skipped": "Skipped because {cause} was skipped",
    "status.nodes-later": "The run has ended. Its nodes cannot be read yet; the server tries again",
    "status.nodes-unknown": "Not known: Argo did not return the nodes of this run",
    "status.timeout": "Ran longer than its timeout of {seconds} seconds",
    "status.refused": "the cluster refused it: {error}",
    # Training controllers
    "status.job-created": "{kind} {job} is created.",
    "status.job-running": "{kind} {job} is running.",
    "status.job-suspended": "{kind} {job} is suspended.",
    "status.job-restarting": "{kind} {job} is restarting because {role} replica(s) failed.",
    "status.job-succeeded": "{kind} {job} successfully completed.",
    # The dispatcher and its clusters
    "status.dispatch-waits": "waits for a dispatcher",
    "status.dispatch-restarted": "restarted; waits for a dispatcher",
    "status.dispatch-job": "waits for job {job}",
    "status.dispatch-jobs": "waits for job {job} and {count} more",
    "status.dispatch-room": "waits for {resources} on {adapter}",
    "status.dispatch-never": "can never start on {adapter}: it needs more {resources} than there is in total",
    "status.dispatch-limit": "waits: at most {count} jobs of type {type} run at a time",
    "status.dispatch-project-limit": "waits: at most {count} jobs of type {type} run at a time in project {project}",
    "status.dispatch-time": "starts at {when} UTC",
    "status.dispatch-next-try": "waits for its next try",
    "status.dispatch-adapter": "waits: {adapter} is not served by a running dispatcher, or cannot be reached",
    "status.dispatch-type": 'waits: no running dispatcher has the type "{type}"',
    "status.dispatch-dependency": "job {job}, which it comes after, {state}",
    "status.dispatch-no-room": "no room on {adapter}: {error}",
    "status.dispatch-unclear-looks": "start unclear: {error}; looks for {name} on {adapter}",
    "status.dispatch-unclear-again": "start unclear: {error}; starts it again, as configured",
    "status.dispatch-unclear-hold": (
        "start unclear: {error}; look for {name} on {adapter}, then run "
        "`muster dispatch resolve {job} adopt|again|fail`"
    ),
    "status.dispatch-unclear": "start unclear: {error}",
    "status.dispatch-again": "starts again, as a user decided",
    "status.dispatch-adopted": "adopted by a user",
    "status.dispatch-stopped-there": "stopped on {adapter}, not by the dispatcher",
    "status.dispatch-timeout": "it ran for more than {seconds} seconds, its timeout",
    "status.dispatch-lost": "{adapter} has not known {job} for {seconds} seconds; was it deleted there?",
    "status.dispatch-unknown": "{adapter} does not know it",
    "status.dispatch-not-stopped": "cannot be stopped yet: {error}",
    "status.dispatch-retry": "retry {count} of {total} after: {error}",
    "status.dispatch-cancelled-early": "cancelled before it started",
    "status.dispatch-cancelled-starting": "cancelled while it started",
    "status.dispatch-cancelled-unclear": (
        "cancelled; whether it was started on {adapter} is unclear: look for {name} there"
    ),
    "status.dispatch-cancelled": "cancelled",
    "status.dispatch-not-asked": "{adapter} cannot be asked about it: {error}",
    "status.dispatch-clean-failed": "clean failed: {error}",
    "status.dispatch-strange": "{cloud} says {word}, which is not known here; the job counts as running",
    "status.aihc-queue": "waits in AIHC's queue {queue}",
    "status.aihc-scheduled": "has a place on AIHC; its pods are being created",
    "status.aihc-starting": "its pods are starting on AIHC",
    "status.aihc-abnormal": "AIHC reports a problem, and the job goes on; see its events",
    "status.aihc-restarting": "AIHC restarts it after a fault",
    "status.aihc-stopping": "AIHC is stopping it",
    "status.aihc-stopped": "stopped on AIHC",
    "status.timaker-received": "timaker has received it",
    "status.timaker-prepares": "timaker prepares its instances",
    "status.timaker-ready": "its instances are ready on timaker",
    "status.timaker-pre-resume": "timaker is about to resume it",
    "status.timaker-resumes": "timaker resumes it",
    "status.timaker-suspending": "timaker is suspending it",
    "status.timaker-pre-suspend": "timaker is about to suspend it",
    "status.timaker-suspended": "suspended on timaker",
    "status.timaker-pre-stop": "timaker is about to stop it",
    "status.timaker-stopping": "timaker is stopping it",
    "status.timaker-stopped": "stopped on timaker",
    "status.environment-waits": "Waiting for another environment to be installed",
    "status.environment-creates": "Creating the environment",
    "status.environment-downloads": "Downloading {package} (package {count})",
    "status.environment-installs": "Installing {count} packages",
    "status.environment-finishes": "Finishing",
}
"""Messages that are the whole text, or follow the name of a node or container."""

PHRASES: Final[Mapping[str, str]] = {
    "status.job-failed": "{kind} {job} is failed because {count} {role} replica(s) failed.",
    "status.pod-exit": "Pod {pod}, container {container}: exit code {code}",
    "status.oom-exit": "OOMKilled (exit code {code})",
    "status.error-exit": "Error (exit code {code})",
    "status.init-container-exit": 'init container "{container}" exited with code {code}',
    "status.container-exit": 'container "{container}" exited with code {code}',
    "status.memory": "it used more memory than its limit allows",
    "status.not-executable": "the command is not executable",
    "status.no-command": "command not found",
    "status.aborted": "aborted (SIGABRT)",
    "status.killed": "killed (SIGKILL)",
    "status.segfault": "segmentation fault (SIGSEGV)",
    "status.terminated": "asked to end (SIGTERM)",
    "status.gang-resources": "minResources not met: ",
    "status.gang-unschedulable": "{count}/{total} tasks in gang unschedulable: ",
    "status.gang-not-ready": "pod group is not ready, {detail}; ",
    "status.resource-amount": "{resource}: {asked} asked, {free} free",
    "status.no-nodes": "0/{count} nodes are available: ",
    "status.insufficient": "{count} Insufficient {resource}",
    "status.capacity-kept": "{count} node(s) had capacity kept for waiting {owner}",
    "status.not-scheduled": "the scheduler has not looked at it yet",
    "status.no-node": "no node has been chosen yet",
}
"""Messages that may be a part of a longer text."""

_VALUES: Final[Mapping[str, str]] = {
    "when": ".+", "error": ".+", "detail": "[^;]*?", "strategy": ".+?", "child": ".+?", "code": r"\d+", "count": r"\d+",
    "total": r"\d+", "cause": ".+", "container": '[^"]+?', "resource": r"[\w\-/]+(?:\.[\w\-/]+)*", "role": r"[^.]+?",
    "owner": r"\w+ [\w\-/.]*[\w\-/]",
    "resources": "[^;:]+?", "state": "[^;:]+", "seconds": r"[\d.]+", "type": ".+?", "project": ".+",
}  # fmt: skip
_OTHER_VALUE: Final = r"\S+?"
_PREFIX: Final = re.compile(r"([^\s:'\"]{1,63}): (.+)", re.DOTALL)
_LONGEST: Final = 2_000
"""A longer text is not searched: it is the output of a user's program."""


@lru_cache(4096)
def explain(text: str) -> tuple[MessagePart, ...]:
    """The parts of a message, in order. Together they are the whole text; nothing is lost."""
    if len(text) > _LONGEST:
        return (MessagePart(TEXT, {"text": text}),)
    return tuple(_parts(text)) if text else ()


def format_parts(parts: tuple[MessagePart, ...]) -> str:
    """The English text of some parts."""
    templates = {**SENTENCES, **PHRASES, TEXT: "{text}", ABOUT: "{name}: "}
    return "".join(templates[part.code].format(**part.arguments) for part in parts)


def _parts(text: str, prefixes: int = 2) -> Iterator[MessagePart]:
    for code, pattern in _SENTENCE_PATTERNS:
        found = pattern.fullmatch(text)
        if found is not None:
            yield MessagePart(code, found.groupdict())
            return
    prefixed = _PREFIX.fullmatch(text) if prefixes else None
    if prefixed is not None:
        rest = list(_parts(prefixed[2], prefixes - 1))
        if rest[0].code != TEXT:
            yield MessagePart(ABOUT, {"name": prefixed[1]})
            yield from rest
            return
    yield from _phrases(text)


def _phrases(text: str) -> Iterator[MessagePart]:
    at = 0
    while at < len(text):
        found = min(
            ((match.start(), order, code, match) for order, (code, pattern) in enumerate(_PHRASE_PATTERNS)
             if (match := pattern.search(text, at)) is not None),
            default=None,
        )  # fmt: skip
        if found is None:
            break
        start, _, code, match = found
        if start > at:
            yield MessagePart(TEXT, {"text": text[at:start]})
        yield MessagePart(code, match.groupdict())
        at = match.end()
    if at < len(text):
        yield MessagePart(TEXT, {"text": text[at:]})


def _pattern(template: str) -> re.Pattern[str]:
    pieces = re.split(r"\{(\w+)\}", template)
    # A value at the beginning starts with a word, not inside of one.
    source = "" if pieces[0] else r"(?<![\w.\-/])"
    for index, piece in enumerate(pieces):
        # Argo writes two spaces in places.
        plain = " +".join(map(re.escape, piece.split(" ")))
        source += f"(?P<{piece}>{_VALUES.get(piece, _OTHER_VALUE)})" if index % 2 else plain
    return re.compile(source, re.DOTALL)


_SENTENCE_PATTERNS: Final = tuple((code, _pattern(template)) for code, template in SENTENCES.items())
_PHRASE_PATTERNS: Final = tuple((code, _pattern(template)) for code, template in PHRASES.items())
