"""Every message of the platform that users see: a code, its values and the English text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from muster.platform.errors import FieldError

_ACCOUNT_NAME = "write lower-case letters, digits, and . _ - between them, 63 characters at most"
_LINE = "{most} characters on one line, without blanks at either end"

TEXTS: Final[Mapping[str, str]] = {
    "user.name": f'"{{name}}" cannot be the name of an account; {_ACCOUNT_NAME}',
    "user.taken": 'there is an account "{name}" already',
    "password.short": "it has {length} characters; take at least {least}",
    "password.long": "it has {length} characters; take at most {most}",
    "password.repeats": "it repeats the same few characters; take more different ones",
    "password.name": "it is made of the account's name; take something else",
    "password.wrong": "this is not your password",
    "team.name": f'"{{name}}" cannot be the name of a team; {_ACCOUNT_NAME}',
    "team.taken": 'there is a team "{name}" already',
    "team.owns": '"{name}" has virtual clusters or storage roots of its own; give those to others first',
    "team.foreign": 'you are not in the team "{name}"; ask one of its leaders to take you in',
    "token.scopes": "write one or more of {scopes}",
    "token.more": "a token cannot make one that may do more than itself: it lacks {scopes}",
    "token.admin": '"admin" is for admins',
    "token.past": "that is in the past",
    "category.name": f'"{{name}}" cannot be the name of a category; write 1 to {_LINE}, and without /',
    "category.taken": 'there is a category "{name}" already',
    "category.full": 'the category "{name}" has modules; put them into another one first',
    "resource.name": f'"{{name}}" cannot be a name; write 1 to {_LINE}, and without /',
    "cluster.taken": 'there is a virtual cluster "{name}" already',
    "cluster.total": "{total} is not between 0 and {most}",
    "cluster.selector": "write labels of nodes, such as pool: rtx2080",
    "sku.resource": "write gpu, cpu, memory, or the name of a resource, each once",
    "sku.amount": "{detail}",
    "sku.negative": "{amount} is less than nothing",
    "sku.whole": "{amount} is not a whole number",
    "sku.empty": "it is nothing at all; write amounts, such as gpu: 1, cpu: 10, memory: 80G",
    "storage.taken": 'there is a storage root "{name}" already',
    "storage.path": '"{path}" is not a place; write a whole path such as {example}',
    "storage.claim": '"{name}" cannot be the name of a PersistentVolumeClaim',
    "storage.both": "there is a host_path, too; leave one of them out",
    "workflow.name": f'"{{name}}" cannot be the name of a workflow; write 1 to {_LINE}, and without /',
    "workflow.taken": 'there is a workflow "{name}" already',
    "workflow.runs": 'the workflow "{name}" has runs; delete those first, or archive it instead',
    "workflow.archived": 'the workflow "{name}" is archived; restore it first',
    "version.name": f'"{{name}}" cannot be the name of a version; write at most {_LINE}, and without /',
    "version.other": '"{name}" means another version; write a name such as v{name}',
    "version.taken": 'the workflow "{workflow}" has a version "{name}" already',
    "version.archived": 'the version "{name}" of "{workflow}" is archived; restore it first',
    "run.name": f'"{{name}}" cannot be the name of a run; write 1 to {_LINE}',
    "run.skus": '{node}: it needs {skus} SKUs, and all of "{cluster}" are {total}; write fewer',
    "run.ended": "it cannot be stopped: it has {how} already",
    "run.retry": "only what failed or was stopped can be retried; it {how}",
    "run.gone": "its Workflow is not there any more; copy the run instead",
    "run.changed": "the run has just been changed by somebody else; look at it again",
    "field.missing": "it is missing",
    "field.unknown": "there is no such field",
    "field.long": "write at most {most} characters",
    "field.short": "write at least {least} characters",
    "field.least": "write {least} or more",
    "field.most": "write {most} or less",
    "field.number": "write a number",
}


def field_error(where: str, code: str, **arguments: Any) -> FieldError:
    """`code` is one of TEXTS. Arguments that are lists are joined by commas in the text."""
    return FieldError(where, format_message(code, arguments), code, arguments)


def format_message(code: str, arguments: Mapping[str, Any]) -> str:
    shown = {name: ", ".join(value) if isinstance(value, list) else value for name, value in arguments.items()}
    return TEXTS[code].format(**shown)
