"""Pulls the images of a Pod before it starts, if an image engine runs it."""

from __future__ import annotations

import time

from muster.embedded.node.image_engine import ImageEngine, PullError, image_present, pull, pull_policy
from muster.embedded.node.pod_context import NotReady
from muster.embedded.node.pod_status import go_duration
from muster.embedded.node.preparation import containers_of
from muster.kube.event_recorder import EventRecorder
from muster.kube.objects import Object, spec_of

_BASE, _MAX = 10.0, 300.0


class ImageNotReady(NotReady):
    """The image is not here and could not be had; it is tried again, less and less often."""

    def __init__(self, reason: str, message: str, container: str, retry_seconds: float | None) -> None:
        super().__init__(message, container)
        self.reason = reason
        self.retry_seconds = retry_seconds


class ImagePulls:
    """Of one Pod: remembers what it has, and how long to wait after a failure."""

    def __init__(self) -> None:
        self._there: set[str] = set()
        self._failures = 0
        self._not_before = 0.0
        self._message = ""

    async def ensure(self, engine: ImageEngine, pod: Object, recorder: EventRecorder) -> None:
        """Raises ImageMissing."""
        for container, _ in containers_of(spec_of(pod)):
            image, name = str(container.get("image") or ""), str(container.get("name") or "")
            if image in self._there:
                continue
            policy = pull_policy(container)
            if policy != "Always" and await image_present(engine, image):
                recorder.event(pod, "Normal", "Pulled", f'Container image "{image}" already present on machine')
            elif policy == "Never":
                message = f'Container image "{image}" is not present with pull policy of Never'
                raise ImageNotReady("ErrImageNeverPull", message, name, 30.0)
            else:
                await self._pull(engine, pod, image, name, recorder)
            self._there.add(image)

    async def _pull(
        self, engine: ImageEngine, pod: Object, image: str, container: str, recorder: EventRecorder
    ) -> None:
        now = time.time()
        if now < self._not_before:
            left = self._not_before - now
            message = f'Back-off pulling image "{image}": {self._message}'
            raise ImageNotReady("ImagePullBackOff", message, container, left)
        recorder.event(pod, "Normal", "Pulling", f'Pulling image "{image}"')
        try:
            await pull(engine, image)
        except PullError as error:
            delay = min(_BASE * 2.0**self._failures, _MAX)
            self._failures += 1
            self._not_before = time.time() + delay
            self._message = str(error)
            raise ImageNotReady("ErrImagePull", str(error), container, min(1.0, delay)) from None
        self._failures = 0
        took = go_duration(time.time() - now)
        recorder.event(pod, "Normal", "Pulled", f'Successfully pulled image "{image}" in {took}')
