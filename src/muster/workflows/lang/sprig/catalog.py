"""`sprig.*`: the functions of github.com/Masterminds/sprig that Argo's expressions may call, all themes together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_values import Function
from muster.workflows.lang.sprig import (
    sprig_cases,
    sprig_chance,
    sprig_dates,
    sprig_defaults,
    sprig_dicts,
    sprig_encodings,
    sprig_lists,
    sprig_numbers,
    sprig_paths,
    sprig_reflection,
    sprig_regex,
    sprig_semver,
    sprig_strings,
    sprig_urls,
)
from muster.workflows.lang.sprig.sprig_functions import FunctionTable

_REFUSED = {
    "getHostByName": "an expression may not reach the network here",
    **dict.fromkeys(
        (
            "genPrivateKey", "genCA", "genCAWithKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert",
            "genSignedCertWithKey", "buildCustomCert", "bcrypt", "htpasswd", "derivePassword", "encryptAES",
            "decryptAES",
        ),
        "make keys, certificates and passwords in a step, or keep them in a Secret",
    ),
}  # fmt: skip
"""Functions that Argo has and Muster refuses, by name, with what to do instead."""


def _refusal(name: str, reason: str) -> Callable[..., Any]:
    def call(*_: Any) -> Any:
        raise ExpressionError(f"sprig.{name} is not available: {reason}")

    return call


SPRIG_FUNCTIONS: FunctionTable = {
    **sprig_strings.FUNCTIONS,
    **sprig_cases.FUNCTIONS,
    **sprig_numbers.FUNCTIONS,
    **sprig_defaults.FUNCTIONS,
    **sprig_lists.FUNCTIONS,
    **sprig_dicts.FUNCTIONS,
    **sprig_encodings.FUNCTIONS,
    **sprig_paths.FUNCTIONS,
    **sprig_reflection.FUNCTIONS,
    **sprig_regex.FUNCTIONS,
    **sprig_semver.FUNCTIONS,
    **sprig_urls.FUNCTIONS,
    **sprig_dates.FUNCTIONS,
    **sprig_chance.FUNCTIONS,
    **{name: Function(name, "...any", _refusal(name, reason)) for name, reason in _REFUSED.items()},
}
"""Every function by its name."""
