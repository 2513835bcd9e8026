"""One step of a workflow."""

from __future__ import annotations

from collections.abc import Mapping

from muster.workflows.engine.run import Run
from muster.workflows.model import Actions, Outcome, World


def step(run: Run, outcomes: Mapping[str, Outcome], world: World) -> Actions:
    """Moves a run on as far as it goes: by what has been seen of its leaves, by time, by what changed about it. The
    costs are those of what changes, whatever the workflow's size. Whatever is wrong with a workflow becomes its
    message, or that of a node; nothing is raised."""
    run.begin(world)
    if run.finished:
        return run.take_actions()
    try:
        run.observe(outcomes)
        run.proceed()
    except Exception as error:  # the workflow has found a mistake of ours: it ends, and the server goes on
        run.finish("Error", f"internal error: {type(error).__name__}: {error}")
    return run.take_actions()
