from __future__ import annotations

import asyncio
import gc
import weakref

from muster.embedded.box import GcTuner
from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import CONFIG_MAP
from muster.kube.objects import Object


class Node:
    """Refers to itself, so only the garbage collector can free it."""

    def __init__(self) -> None:
        self.itself = self


def config_map(number: int) -> Object:
    data = {"list": "x"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{number}"}, "data": data}


async def test_stored_objects_are_frozen_and_settings_are_restored_at_the_end(cluster: EmbeddedCluster) -> None:
    threshold, frozen = gc.get_threshold(), gc.get_freeze_count()
    keeping = asyncio.create_task(GcTuner(cluster.store, every=50).run())
    await asyncio.sleep(0)
    begun = gc.get_freeze_count()
    assert begun > frozen
    for number in range(100):
        await cluster.create(config_map(number))
    await asyncio.sleep(0)
    assert gc.get_freeze_count() > begun
    for number in range(100):
        await cluster.delete(CONFIG_MAP, f"c{number}")
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    assert gc.get_threshold() == threshold
    assert gc.get_freeze_count() == 0


async def test_a_cycle_that_was_set_aside_is_found_by_a_full_look(cluster: EmbeddedCluster) -> None:
    node = Node()
    gone = asyncio.Event()
    weakref.finalize(node, gone.set)
    keeping = asyncio.create_task(GcTuner(cluster.store, full_collection_seconds=0.01).run())
    await asyncio.sleep(0)
    del node
    gc.collect()
    assert not gone.is_set()
    await gone.wait()
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
