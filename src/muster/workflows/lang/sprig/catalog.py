"""`sprig.*`: all functions of sprig that an Argo expression may call, and those that Muster refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_values import Function
from muster.workflows.lang.sprig.arguments import FunctionTable
from muster.workflows.lang.sprig.dates import DATE_FUNCTIONS
from muster.workflows.lang.sprig.lists_and_dicts import DICT_FUNCTIONS, LIST_FUNCTIONS
from muster.workflows.lang.sprig.numbers import NUMBER_FUNCTIONS, RANDOM_FUNCTIONS
from muster.workflows.lang.sprig.semver import SEMVER_FUNCTIONS
from muster.workflows.lang.sprig.strings import CASE_FUNCTIONS, REGEX_FUNCTIONS, STRING_FUNCTIONS
from muster.workflows.lang.sprig.urls_and_paths import PATH_FUNCTIONS, URL_FUNCTIONS
from muster.workflows.lang.sprig.values import DEFAULT_FUNCTIONS, ENCODING_FUNCTIONS, TYPE_FUNCTIONS

_REFUSED = {
    "getHostByName": "an expression may not reach the network here",
    **dict.fromkeys(
        (
            "genPrivateKey", "genCA", "genCAWithKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert",
            "genSignedCertWithKey", "buildCustomCert", "bcrypt", "htpasswd", "derivePassword", "encryptAES",
            "decryptAES",
        ),
        "create keys, certificates and passwords in a step, or keep them in a Secret",
    ),
}  # fmt: skip
"""Functions that Argo has and Muster refuses, with the reason or what to do instead."""


def _refusal(name: str, reason: str) -> Callable[..., Any]:
    def call(*_: Any) -> Any:
        raise ExpressionError(f"sprig.{name} is not available: {reason}")

    return call


SPRIG_FUNCTIONS: FunctionTable = {
    **STRING_FUNCTIONS,
    **CASE_FUNCTIONS,
    **NUMBER_FUNCTIONS,
    **DEFAULT_FUNCTIONS,
    **LIST_FUNCTIONS,
    **DICT_FUNCTIONS,
    **ENCODING_FUNCTIONS,
    **PATH_FUNCTIONS,
    **TYPE_FUNCTIONS,
    **REGEX_FUNCTIONS,
    **SEMVER_FUNCTIONS,
    **URL_FUNCTIONS,
    **DATE_FUNCTIONS,
    **RANDOM_FUNCTIONS,
    **{name: Function(name, "...any", _refusal(name, reason)) for name, reason in _REFUSED.items()},
}
"""Every function by its name."""
