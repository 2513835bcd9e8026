"""Functions and classes by name: `shop.jobs:train`.

Jobs and hooks run in other processes, so their code is found by name and never pickled. In a script, whose module is
called `__main__`, the name is the file's: `/home/me/train.py:train`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from muster.dispatch.errors import InvalidJob

_SCRIPT = "__muster_job__"
"""The module name of a script in other processes, so that its `if __name__ == "__main__"` does not run again."""


def target_of(thing: Any) -> str:
    """Returns the name under which another process finds a function or a class. Raises InvalidJob if it cannot."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", "")
    if not module or not name or "<" in name:
        raise InvalidJob(
            f"{name or thing!r} cannot be found from another process: define it at the top level of a module"
        )
    specification = sys.modules[module].__spec__ if module in sys.modules else None
    if module == "__main__" and specification is not None:
        module = specification.name  # python -m shop.jobs
    elif module in {"__main__", _SCRIPT}:
        file = getattr(sys.modules[module], "__file__", None)
        if file is None:
            raise InvalidJob(f"{name} is defined in an interactive session: put it into a file")
        module = str(Path(file).resolve())
    return f"{module}:{name}"


def module_of(target: str) -> str:
    return target.rpartition(":")[0]


def load_target(target: str) -> Any:
    """Imports what `target_of` named, or what a user wrote, such as `shop.jobs:dispatcher`."""
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise InvalidJob(f'"{target}" is not a target; write MODULE:NAME, as in shop.jobs:dispatcher')
    found: Any = load_module(place)
    for part in name.split("."):
        if not hasattr(found, part):
            raise InvalidJob(f'{place} has no "{part}"')
        found = getattr(found, part)
    return found


def load_module(place: str) -> ModuleType:
    if not place.endswith(".py"):
        return importlib.import_module(place)
    main = sys.modules.get("__main__")
    if main is not None and getattr(main, "__file__", None) and Path(str(main.__file__)).resolve() == Path(place):
        return main
    if _SCRIPT in sys.modules and getattr(sys.modules[_SCRIPT], "__file__", None) == place:
        return sys.modules[_SCRIPT]
    specification = importlib.util.spec_from_file_location(_SCRIPT, place)
    if specification is None or specification.loader is None:
        raise InvalidJob(f"{place} cannot be imported")
    module = importlib.util.module_from_spec(specification)
    sys.modules[_SCRIPT] = module
    specification.loader.exec_module(module)
    return module
