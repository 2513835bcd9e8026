"""Kinds that users bring: a CustomResourceDefinition registers them, and they go with it.

A kind that a package has registered itself stays as the package made it; the definition is stored all the same, so that
manifests which bring their definitions along can be applied as they are.
"""

from __future__ import annotations

import logging

from muster.embedded.history import Change
from muster.embedded.special import CRDS
from muster.embedded.store import Store
from muster.kube.crd import kind_from_crd
from muster.kube.errors import Invalid
from muster.kube.kinds import Catalogue, Kind
from muster.kube.objects import Object, name_of

log = logging.getLogger(__name__)


class CustomKinds:
    """Keeps the catalogue in step with the definitions in the store."""

    def __init__(self, store: Store, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._registered: dict[str, list[Kind]] = {}
        for definition in store.view.objects(CRDS):
            self._register(definition)
        store.listen(self._changed)

    def _changed(self, resource: str, change: Change) -> None:
        if resource != CRDS:
            return
        if change.after is None:
            self._unregister(change.key.name)
        elif change.before is None or change.after.get("spec") is not change.before.get("spec"):
            self._register(change.after)

    def _register(self, definition: Object) -> None:
        self._unregister(name_of(definition))
        try:
            kinds = kind_from_crd(definition)
        except Invalid as error:
            log.warning("the kind of %s cannot be used: %s", name_of(definition), error)
            return
        taken = {(kind.api_version, kind.kind) for kind in self._catalogue}
        ours = [kind for kind in kinds if (kind.api_version, kind.kind) not in taken]
        # The version that is stored comes first, and what is registered last is found by the plain names.
        for kind in reversed(ours):
            self._catalogue.register(kind)
        self._registered[name_of(definition)] = ours

    def _unregister(self, name: str) -> None:
        for kind in self._registered.pop(name, ()):
            self._catalogue.unregister(kind)

    def brought_by(self, name: str) -> list[Kind]:
        """The kinds that are there because of this definition."""
        return self._registered.get(name, [])
