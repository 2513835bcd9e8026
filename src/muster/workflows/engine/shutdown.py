"""What ends a run early: `shutdown` and the workflow's deadline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.workflows.engine.node_tree import is_ended
from muster.workflows.model import Stop

if TYPE_CHECKING:
    from muster.workflows.engine.run import Run

EXCEEDED = "Step exceeded its deadline"


def apply_shutdown(run: Run) -> None:
    """Stop ends everything but exit handlers; Terminate ends those as well."""
    strategy = run.shutdown
    force = strategy == "Terminate"
    for leaf in list(run.leaves.values()):
        if not run.may_execute(leaf.call.on_exit) and (not leaf.stopped or force):
            leaf.stop(f"workflow shutdown with strategy:  {strategy}", force=force)
    for node in list(run.suspended_nodes.values()):
        if not run.may_execute(node.call.on_exit):
            node.stop(f"Stopped with strategy '{strategy}'")
    run.run_locks.cancel_waiting(f"workflow shutdown with strategy: {strategy}", keep_exit=not force)
    run.wake_all()


def apply_deadline(run: Run) -> None:
    """The workflow's deadline has passed. Exit handlers are not subject to it."""
    for leaf in list(run.leaves.values()):
        if not leaf.call.on_exit and not leaf.stopped:
            leaf.stop(EXCEEDED)
    for node in list(run.suspended_nodes.values()):
        if not node.call.on_exit:
            node.stop(EXCEEDED)
    run.run_locks.cancel_waiting(EXCEEDED, keep_exit=True)
    run.wake_all()


def abandon(run: Run, message: str) -> None:
    """The workflow has ended although some of its nodes have not: stop them without waiting for their outcome."""
    for leaf in list(run.leaves.values()):
        run.actions.stop.append(Stop(leaf.id))
        run.stopping[leaf.id] = leaf
        run.tree.mark(leaf.id, "Failed", message)
    run.leaves.clear()
    run.suspended_nodes.clear()
    run.live.clear()
    for node in list(run.tree.nodes.values()):
        if not is_ended(node):
            run.tree.mark(node["id"], "Failed", message)
