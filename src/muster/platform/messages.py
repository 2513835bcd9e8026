"""The message catalog: every message of the platform that users see.

A message travels as a code with values, next to its English text. The web UI has the same codes in Chinese
(ui/src/i18n/server-messages.zh.json; tests/platform/test_messages.py compares them). docs/messages.json is made of this
catalog; `python -m muster.platform.messages` prints it.

Messages that controllers write into Kubernetes objects are in status_messages.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from muster.kube.pod_security import RULES
from muster.platform.records.workflows import Finding


class Template(NamedTuple):
    """A message with places for values, as in `str.format`."""

    message: str
    fix: str = ""
    """What to do about it. It follows the message after a semicolon."""
    is_warning: bool = False

    def __str__(self) -> str:
        return f"{self.message}; {self.fix}" if self.fix else self.message


@dataclass(frozen=True, slots=True)
class FieldError:
    """What is wrong with a field of a request, or with the request as a whole."""

    field: str
    """As in `nodes[0].name`; '' for the whole request."""
    message: str
    code: str = ""
    """Of the catalog."""
    arguments: Mapping[str, Any] | None = None


def field_error(field: str, code: str, /, **arguments: Any) -> FieldError:
    code = _code_of_empty_name(code, arguments)
    return FieldError(field, format_message(code, arguments), code, arguments)


def make_finding(path: str, code: str, /, **arguments: Any) -> Finding:
    code = _code_of_empty_name(code, arguments)
    template, shown = CATALOG[code], _format_arguments(arguments)
    return Finding(
        path,
        code,
        template.message.format(**shown),
        template.fix.format(**shown),
        arguments,
        "warning" if template.is_warning else "error",
    )


def format_message(code: str, arguments: Mapping[str, Any]) -> str:
    """The English text. A list is joined by commas."""
    return str(CATALOG[code]).format(**_format_arguments(arguments))


def _code_of_empty_name(code: str, arguments: Mapping[str, Any]) -> str:
    """A name that is not filled in needs no lecture about valid characters."""
    return "name.missing" if code.endswith(".name") and arguments.get("name") == "" else code


def _format_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else value
        for name, value in arguments.items()
    }


_ACCOUNT_NAME: Final = "use lower-case letters, digits, and . _ - between them, at most 63 characters"
_LINE: Final = "{most} characters on one line, with no space at either end"
_START: Final = "start with a letter"
_IDENTIFIER: Final = f"use letters, digits and _, {_START}, at most 63 characters"
_REFERABLE: Final = f"use letters, digits, _ and -, {_START}, at most 63 characters"
_ONE_OF: Final = "use one of {choices}"

_REQUESTS: Final[Mapping[str, Template]] = {
    "missing": Template('there is no {kind} "{name}"'),
    "changed": Template('the {kind} "{name}" was changed by someone else', "reload it and try again"),
    "bug": Template("this is a bug in Muster", "see the server log for details"),
    "database": Template("the database did not respond", "try again in a moment"),
    "encryption": Template("a secret cannot be decrypted", "ask an admin to see the server log for the missing key"),
    "request.large": Template("the request is too large", "send at most {most} MB"),
    "request.site": Template("the request comes from a page of another site"),
    "request.etag": Template("If-Match: {etag} is not an ETag of this API"),
    "request.parameter": Template("there is no such query parameter", "known parameters: {known}"),
    "request.path": Template("there is nothing at this path"),
    "request.host": Template("{host} is not known as a name of this server", "set web.url in config.yaml"),
    "request.nul": Template("the address contains a NUL character"),
    "request.waiting": Template("{most} of your requests wait for others to end", "wait for them, or raise {setting}"),
    "request.often": Template("you send more than {most} requests per second", "send fewer, or raise {setting}"),
    "budget.count": Template("you have {most} {what}, which is the limit", "delete some, or raise {setting}"),
    "request.rule": Template("this path has no access rule"),
    "request.method": Template("this path does not support the method"),
    "page.limit": Template("{limit} is not between 1 and {most}"),
    "page.sort": Template('cannot sort by "{sort}"', 'use one of {choices}, with "-" in front for descending order'),
    "page.cursor": Template("this is not a valid cursor", "use `next` of the previous page"),
    "page.other": Template('the cursor belongs to a list sorted by "{other}", not by "{sort}"'),
    "filter.value": Template('"{value}" is not a known value', _ONE_OF),
    "field.missing": Template("this field is required"),
    "name.missing": Template("enter a name"),
    "field.unknown": Template("there is no such field"),
    "field.long": Template("use at most {most} characters"),
    "field.short": Template("use at least {least} characters"),
    "field.least": Template("use {least} or more"),
    "field.most": Template("use {most} or less"),
    "field.number": Template("use a number"),
    "field.either": Template("{other} is set, too", "leave one of them out"),
}

_USERS: Final[Mapping[str, Template]] = {
    "login.needed": Template(
        "you are not logged in", "log in, or send an API token as `Authorization: Bearer mst_...`"
    ),
    "login.wrong": Template("the name or the password is wrong"),
    "login.often": Template("there were too many failed attempts", "try again in {seconds} s"),
    "login.busy": Template("too many logins are being checked", "try again in a few seconds"),
    "login.header": Template("the Authorization header is not valid", "send `Authorization: Bearer mst_...`"),
    "login.csrf": Template(
        "the CSRF token is missing or wrong", "send the value of the cookie {cookie} as header {header}"
    ),
    "stream.rights": Template("your rights have changed", "connect again"),
    "stream.many": Template("too many streams are open", "close some of the {most}, or raise {setting}"),
    "login.cookies": Template(
        "the browser sends two different session cookies, one of which another site may have set",
        "delete the cookies of this site and log in again",
    ),
    "session.over": Template("this session has expired", "log in again"),
    "session.none": Template("this request has no session", "to end a token, revoke it"),
    "link.gone": Template("this link was used already or has expired", "ask an admin for a new one"),
    "pod.not-running": Template(
        'the Pod "{pod}" is {phase}', "a terminal needs a Pod that runs, or one that has just failed"
    ),
    "pod.not-kept": Template(
        'the Pod "{pod}" has failed, and its files are not kept, or no longer',
        "they are kept for a while after a container fails that is not started again (node.keepFailedSeconds in "
        "config.yaml), but not with podman or docker, and not on other clusters; retry the node to try again",
    ),
    "workspace.login": Template("you are not logged in to this workspace", "open it from the page of the platform"),
    "workspace.ticket": Template(
        "this link to the workspace was used already or has expired", "open it again from the page of the platform"
    ),
    "workspace.enter": Template("a workspace is opened by a link in a browser"),
    "workspace.stopped": Template("the workspace does not respond: {detail}", "start it, or wait until it has started"),
    "workspace.answer": Template("the server in the workspace did not give a valid answer ({detail})", "see its log"),
    "workspace.method": Template("the method {method} is not passed on to workspaces"),
    "workspace.target": Template("the address of the request is not a path"),
    "workspace.origin": Template(
        "a workspace needs an address of its own, and there is none for {host}",
        "open the platform as http://localhost, or set workspaces.domain or workspaces.ports in config.yaml",
    ),
    "permission.scope": Template('this token lacks the scope "{scope}", which "{action}" needs'),
    "permission.own": Template("you may not {action} your own {kind}", "ask someone else to do it"),
    "permission.only": Template("only {who} may {action} this {kind}"),
    "permission.run-token": Template("the token of a run may not {action} a {kind}"),
    "permission.other-run": Template("the token of a run cannot access other runs"),
    "user.name": Template('"{name}" is not a valid account name', _ACCOUNT_NAME),
    "user.taken": Template('there is already an account "{name}"'),
    "user.openid": Template('"{name}" logs in with the OpenID provider, and needs no password here'),
    "user.disabled": Template("this account is disabled", "ask an admin"),
    "openid.none": Template("no OpenID provider is configured", "set `oidc` in config.yaml"),
    "openid.other": Template("this login did not start here", "try again"),
    "openid.refused": Template("{provider} refused the login: {reason}"),
    "openid.key": Template("{provider} used a signing key that it does not publish"),
    "openid.token": Template("the ID token of {provider} is not valid: {reason}"),
    "openid.group": Template("you are not in any of the groups that may log in with {provider}", "ask an admin"),
    "openid.https": Template("oidc.issuer: {issuer} must be an https address"),
    "openid.issuer": Template("oidc.issuer: {issuer} calls itself {name}", "use that name"),
    "openid.unreachable": Template("{provider} cannot be reached at {url}: {error}"),
    "password.short": Template("the password has {length} characters", "use at least {least}"),
    "password.long": Template("the password has {length} characters", "use at most {most}"),
    "password.repeats": Template("the password repeats the same few characters", "use more different ones"),
    "password.name": Template("the password is made of the account name", "use another one"),
    "password.wrong": Template("this is not your password"),
    "password.session": Template("a token cannot change the password", "log in with the old password"),
    "team.name": Template('"{name}" is not a valid team name', _ACCOUNT_NAME),
    "team.taken": Template('there is already a team "{name}"'),
    "team.owns": Template('"{name}" owns virtual clusters or storage roots', "assign them to another team first"),
    "team.foreign": Template('you are not in the team "{name}"', "ask one of its leaders to add you"),
    "team.member": Template('"{user}" is not in the team "{team}"'),
    "token.scopes": Template("use one or more of {scopes}"),
    "token.more": Template("a token cannot create a token with more rights than its own", "it lacks {scopes}"),
    "token.admin": Template('only admins may use the scope "admin"'),
    "token.past": Template("the expiry is in the past"),
    "token.unknown": Template("this token is unknown, was revoked, or has expired"),
}

_WORKFLOWS: Final[Mapping[str, Template]] = {
    "workflow.name": Template('"{name}" is not a valid workflow name', f"use 1 to {_LINE}, and no /"),
    "workflow.taken": Template('there is already a workflow "{name}"'),
    "workflow.runs": Template('the workflow "{name}" has runs', "delete them first, or archive the workflow"),
    "workflow.archived": Template('the workflow "{name}" is archived', "restore it first"),
    "version.name": Template('"{name}" is not a valid version name', f"use at most {_LINE}, and no /"),
    "version.other": Template('"{name}" already means another version', "use a name such as v{name}"),
    "version.taken": Template('the workflow "{workflow}" already has a version "{name}"'),
    "version.archived": Template('the version "{name}" of "{workflow}" is archived', "restore it first"),
    "version.missing": Template('the workflow "{workflow}" has no version "{name}"'),
    "version.gone": Template("the version was deleted by someone else"),
    "version.content": Template("the document is missing", "send a graph document, or an Argo Workflow as manifest"),
    "version.export": Template("the version refers to something that has changed: {detail}"),
}

_RUNS: Final[Mapping[str, Template]] = {
    "run.name": Template('"{name}" is not a valid run name', f"use 1 to {_LINE}"),
    "run.tag": Template(
        '"{tag}" is not a tag',
        "use KEY or KEY=VALUE: a key of at most {most_key} letters, digits, and . _ / - between them, and a value of "
        "at most {most_value} characters on one line",
    ),
    "run.tag-twice": Template('the key "{key}" occurs twice', "leave one of them out"),
    "run.tags": Template("a run has at most {most} tags", "remove some"),
    "webhook.name": Template('"{name}" is not a valid name', f"use 1 to {_LINE}"),
    "webhook.url": Template("this is not the URL of a receiver", "use https://HOST/PATH"),
    "webhook.credentials": Template("the URL contains a user or a password", "use the secret to sign messages"),
    "webhook.states": Template("choose at least one state"),
    "webhook.secret": Template("the secret is too short or too long", "use {least} to {most} characters"),
    "webhook.secret-again": Template("the URL is new", "enter the secret again, or remove it"),
    "webhook.pending": Template("{most} messages wait to be sent already"),
    "webhook.address": Template(
        "{host} may not be used: it is in the server's own network", "an admin can allow it with {setting}"
    ),
    "webhook.slow": Template("the receiver did not respond within {seconds} s"),
    "webhook.tls": Template("the certificate of {host} is not trusted, or its TLS does not work"),
    "webhook.connection": Template("cannot connect to {host}"),
    "webhook.redirect": Template("the receiver redirects ({status})", "use the final URL"),
    "webhook.status": Template("the receiver responded with status {status}"),
    "run.workflow": Template(
        "the workflow is missing", "set workflow to a name or id, or version to the id of a version"
    ),
    "run.skus": Template('{node}: it needs {skus} SKUs, but "{cluster}" has only {total}', "use fewer"),
    "run.secret": Template(
        "{node}: the value of the secret variable {name} is not for you",
        "copy the version into a workflow of your own and set a value, or ask its owner to share the workflow with "
        "your team",
    ),
    "run.ended": Template("the run cannot be stopped: it has {how}"),
    "run.retry": Template("only a run that failed or was stopped can be retried", "this run {how}"),
    "run.retry-now": Template("the run cannot be retried now: {detail}"),
    "run.gone": Template("the Workflow of this run was deleted", "copy the run instead"),
    "run.nodes-unread": Template(
        "the run cannot be retried now: its nodes cannot be read", "without them, nodes that succeeded would run again"
    ),
    "run.changed": Template("the run was changed by someone else", "reload it and try again"),
    "schedule.text": Template("{detail}"),
    "schedule.name": Template("the schedule has no name", "enter one"),
    "schedule.manifest": Template("this is not a Workflow", "paste one Workflow, or one CronWorkflow"),
    "argo.managed": Template('the Workflow "{name}" belongs to a run', "use the run instead"),
    "run.node": Template('the run "{run}" has no node "{name}"'),
    "run.attempt": Template("there is no attempt {number}", "there are {count}"),
    "run.pod": Template('"{pod}" is not a Pod of this node'),
    "run.output": Template('the output "{name}" is not available', "the node is {state}"),
    "run.file": Template('the file of the output "{name}" was deleted'),
    "run.artifact": Template("{detail}"),
    "metrics.subject": Template(
        '"{given}" is not a run, a node or a job', "write run:ID, node:RUN/NODE or job:NAMESPACE/KIND/NAME"
    ),
}

_RESOURCES: Final[Mapping[str, Template]] = {
    "resource.name": Template('"{name}" is not a valid name', f"use 1 to {_LINE}, and no /"),
    "cluster.taken": Template('there is already a virtual cluster "{name}"'),
    "cluster.total": Template("{total} is not between 0 and {most}"),
    "cluster.selector": Template("this is not a node label", "use labels such as pool: rtx2080"),
    "cluster.toleration": Template('"{taint}" is not a taint', "use key=value:effect, such as pool=ml:NoSchedule"),
    "sku.resource": Template("use gpu, cpu, memory or the full name of a resource, each at most once"),
    "sku.amount": Template("{detail}"),
    "sku.negative": Template("{amount} is less than 0"),
    "sku.whole": Template("{amount} is not a whole number"),
    "sku.empty": Template("the SKU is empty", "set amounts such as gpu: 1, cpu: 10, memory: 80G"),
    "root.taken": Template('there is already a storage root "{name}"'),
    "root.path": Template('"{path}" is not a valid path', "use an absolute path such as {example}"),
    "root.claim": Template('"{name}" is not a valid PersistentVolumeClaim name'),
    "root.both": Template("host_path is set, too", "leave one of them out"),
}

_MODULES: Final[Mapping[str, Template]] = {
    "category.name": Template('"{name}" is not a valid category name', f"use 1 to {_LINE}, and no /"),
    "category.taken": Template('there is already a category "{name}"'),
    "category.full": Template('the category "{name}" has modules', "move them to another category first"),
    "module.name": Template(
        '"{name}" is not a valid module name',
        "use 1 to 63 lower-case letters, digits and -, with a letter or digit at either end",
    ),
    "module.taken": Template('there is already a module "{name}"'),
    "module.category": Template("{detail}", "choose another category, or ask an admin to create it"),
    "module.team": Template("{detail}"),
    "module.used": Template('the workflow "{workflow}" uses the module "{name}"', "deprecate the module instead"),
    "module.no-version": Template('the module "{module}" has no version "{name}"'),
    "module.step": Template('{name} is "{state}"', "only a version that is {states} can be {step}"),
    "source.repository": Template("{detail}"),
    "source.ref": Template("{detail}"),
    "source.path": Template("{detail}"),
    "source.file": Template("use the path of a file in the repository"),
    "source.variable": Template(f"use letters, digits and _, and {_START}"),
    "source.input": Template(f"use letters, digits and _, and {_START}: it becomes --name=value"),
    "source.output": Template(f"use letters, digits, _ and -, and {_START}"),
    "source.reserved": Template("names that start with {prefix} are reserved for the platform"),
    "source.value": Template("use at most {most} characters, and no NUL"),
    "source.twice": Template('the name "{name}" is used twice'),
    "source.both": Template('there is also a variable "{name}"', "rename one of them"),
    "source.type": Template("use text or file"),
    "source.output-path": Template("use an absolute path, such as /tmp/workflow_space/result.txt"),
    "source.same-path": Template('"{other}" has the same path'),
    "source.many": Template("use at most {most}"),
    "review.reason": Template("the reason is missing", "tell the author what to change"),
    "review.over": Template("this review is closed: it was {state}"),
    "review.own": Template("you may not decide about your own module", "ask someone else to do it"),
}

_JOBS: Final[Mapping[str, Template]] = {
    "job.empty": Template("there is no object in this text", "paste the manifest of a training job"),
    "job.kind": Template("{kind} is not a training job", "use one of {known}"),
    "job.twice": Template('line {other} has another {kind} named "{name}"', "rename one of them"),
    "job.namespace": Template('jobs run in the namespace "{namespace}"', "leave metadata.namespace out"),
    "job.queue": Template(
        'the queue "{name}" belongs to a virtual cluster that you may not use', "leave it out or use another one"
    ),
    "job.group": Template("{name} would put the Pods into the gang of another job", "leave it out"),
    "job.many": Template("this text has {count} jobs; {most} can be created at once", "split it"),
    "job.etcd": Template("{name} would make the controller write to your etcd", "leave it out, or ask an admin"),
    "job.cluster": Template("{detail}"),
    "job.text": Template("{detail}"),
    "job.warning": Template("{detail}", is_warning=True),
    "job.suspend": Template("a {kind} of {api_version} cannot be suspended", "delete it instead"),
    "job.ended": Template("the job has already {state}"),
    "job.pod": Template('the {kind} "{job}" has no Pod "{pod}"'),
}

_WORKSPACES: Final[Mapping[str, Template]] = {
    "workspace.name": Template(
        '"{name}" is not a valid name', "use at most {most} lower-case letters, digits and -, and begin with a letter"
    ),
    "workspace.taken": Template('there is already a {kind} named "{name}"', "use another name"),
    "workspace.image": Template(
        '"{image}" is neither an image of the list nor the name of an image', "use one of {known}"
    ),
    "workspace.cluster": Template(
        "cpu, memory and gpus come from the SKUs of the virtual cluster", "leave them out, or leave cluster out"
    ),
    "workspace.skus": Template("SKUs belong to a virtual cluster", "choose one, or leave skus out"),
    "workspace.amount": Template("{detail}", "use an amount such as 2, 500m or 4Gi"),
    "workspace.claim": Template('there is no volume "{name}" that you may use here', "use one of {known}"),
    "workspace.mount": Template("a mount is either a storage root or a claim", "send one of root and claim"),
    "workspace.mount-path": Template(
        '"{path}" cannot be a mount path',
        "use an absolute path that no other mount has, outside of /proc, /sys and /dev",
    ),
    "workspace.variable": Template('"{name}" is not a valid name of a variable', "use letters, digits and _"),
    "workspace.cluster-refused": Template("{detail}"),
    "workspace.is-stopped": Template("it is stopped already"),
    "workspace.is-started": Template("it is not stopped"),
    "tensorboard.what": Template(
        "a TensorBoard needs to know where the logs are", "send one of logs, runs, job and notebook"
    ),
    "tensorboard.path": Template('"{path}": {detail}'),
    "tensorboard.none": Template(
        "{what} has written no event files that are still there",
        "let the program write TensorBoard's logs into a volume or storage root",
    ),
    "tensorboard.mounted": Template('"{path}" is not in a volume of the notebook', "use a folder below one of {known}"),
    "tensorboard.large": Template(
        "the event files have {megabytes} MB; at most {most} are copied",
        "let the program write them into a volume or storage root",
    ),
    "tensorboard.claim": Template('the volume "{name}" for copies of the event files is not ready', "try again"),
    "tensorboard.namespace": Template(
        "these logs are in different namespaces: {namespaces}", "show them in different TensorBoards"
    ),
}

_DISPATCH: Final[Mapping[str, Template]] = {
    "dispatch.adapter": Template('there is no adapter "{name}"', "use one of {adapters}"),
    "dispatch.what": Template(
        "a job needs either an image with a command, or a manifest", "send one of them, and not the other"
    ),
    "dispatch.manifest": Template("a manifest needs a Kubernetes cluster; {adapter} is none", "use one of {adapters}"),
    "dispatch.deep": Template("this is nested in more than {most} lists and objects", "make it flatter"),
    "dispatch.one": Template("this text has {count} objects", "send one training job"),
    "dispatch.invalid": Template("{detail}"),
    "dispatch.ended": Template("the job has already {state}"),
    "dispatch.not-ended": Template("the job is {state}", "restart it when it has ended, or cancel it first"),
    "dispatch.clear": Template("the start of this job is not unclear", "resolve is for jobs that say so"),
    "dispatch.adopt": Template("only an admin may say which job of the cluster it is", "ask one, or start it again"),
    "cooker.params": Template("taskParams is missing", "send it as an object, or the same as a JSON string"),
    "cooker.json": Template("this is not valid JSON: {detail}", "correct it"),
    "cooker.type": Template("this must be {wanted}"),
    "cooker.unknown": Template("there is no such field", "use one of {fields}"),
    "cooker.text": Template("the text is too long or has a NUL character", "use at most {most} characters"),
    "cooker.name": Template(
        '"{name}" cannot be the name of a job', "use letters, digits, - _ and . in between, at most 128 characters"
    ),
    "cooker.job-type": Template('there is no job type "{type}"', "use one of {types}"),
    "cooker.no-kind": Template("this cluster runs no {type}", "use one of {types}, or configure dispatch.aihc"),
    "cooker.only-aihc": Template("{field} has an effect on AIHC only", "leave it out, or configure dispatch.aihc"),
    "cooker.password": Template(
        "a password of a registry would be stored with the job", "register it on AIHC, or use a public image"
    ),
    "cooker.resource": Template('"{name}" is not the name of a resource', "use cpu, memory, or as baidu.com/..."),
    "cooker.twice": Template('"{name}" is listed twice', "remove one of them"),
    "cooker.quantity": Template("the quantity of {name} must be a number", "use cards, cores, or GB of memory"),
    "cooker.variable": Template('"{name}" cannot be the name of an environment variable', "use letters, digits and _"),
    "cooker.source-type": Template('there is no data source of type "{type}"', "use one of {types}"),
    "cooker.source-path": Template('"{path}" is not a valid source path', "use an absolute path without .."),
    "cooker.no-source": Template(
        'the data source {type} "{name}" has no place on this cluster',
        "an admin can map it with cooker.datasources in config.yaml; or leave it out",
    ),
    "cooker.no-root": Template(
        'the data source {type} "{name}" is in the storage root "{root}", which does not exist or is not for you',
        "ask an admin",
    ),
    "cooker.queue": Template('this cluster has no queue "{name}" for you', "leave it out, or use one of {queues}"),
    "cooker.route": Template("MLP Cooker has no {method} {path} here", "see docs/cooker.md for what there is"),
    "cooker.token": Template("a token is needed", "log in, or create an API token and send it as a Bearer token"),
    "cooker.terminal": Template(
        "there is no web terminal", "use `muster exec -n {namespace} -it {pod} -- bash`, or kubectl"
    ),
    "cooker.terminal-aihc": Template("a job on AIHC has its terminal there", "open the job in the console of AIHC"),
    "cooker.pod": Template('the job has no Pod "{pod}"', "use one of {pods}"),
    "cooker.login": Template(
        "the access key or the secret key is wrong", "use your user name and password, or `token` and an API token"
    ),
}

_PIPELINES: Final[Mapping[str, Template]] = {
    "pipelines.cluster": Template(
        "compiled Kubeflow pipelines run on the embedded cluster only",
        "on this cluster, use a workflow, or Kubeflow Pipelines itself",
    ),
    "pipelines.route": Template("Kubeflow Pipelines has no {method} {path} here", "see docs/pipelines.md"),
    "pipelines.json": Template("the body is not valid JSON: {detail}", "send a JSON object"),
    "pipelines.type": Template("this must be {wanted}"),
    "pipelines.unknown": Template("there is no such field", "use one of {fields}"),
    "pipelines.name": Template('"{name}" cannot be used as a name', f"use at most {_LINE}"),
    "pipelines.taken": Template('there is already a {kind} "{name}"', "choose another name"),
    "pipelines.tags": Template(
        "the tags are too many or too long", "use at most {most}, each of at most 256 characters"
    ),
    "pipelines.filter": Template("{detail}"),
    "pipelines.sort": Template('cannot sort by "{sort}"', 'use "FIELD", "FIELD asc" or "FIELD desc"'),
    "pipelines.sort-field": Template('cannot sort by "{name}"', _ONE_OF),
    "pipelines.page-size": Template("{size} is not a valid page size", "use a whole number from 1 to {most}"),
    "pipelines.page-token": Template("this is not a valid page token", "use next_page_token of the page before"),
    "pipelines.page-other": Template(
        "the page token belongs to a list with another filter or order", "send the same, or neither"
    ),
    "pipelines.large": Template("the pipeline is too large", "a package and the files in it have at most {most} MB"),
    "pipelines.package": Template(
        'the package "{name}" cannot be used: {detail}', "upload a .yaml or .json file, or one in a .zip or .tar.gz"
    ),
    "pipelines.upload": Template(
        "the upload cannot be read: {detail}", "send the package as the form field uploadfile"
    ),
    "pipelines.spec": Template("the pipeline cannot be used: {detail}"),
    "pipelines.parameters": Template("the parameters do not fit the pipeline: {detail}"),
    "pipelines.source": Template("a run needs one pipeline", "send either pipeline_spec or pipeline_version_reference"),
    "pipelines.default-experiment": Template('the experiment "Default" cannot be deleted'),
    "pipelines.experiment-archived": Template('the experiment "{name}" is archived', "unarchive it first"),
    "pipelines.unarchive-experiment": Template("the experiment of the run is archived", "unarchive the experiment"),
    "pipelines.has-versions": Template(
        'the pipeline "{name}" has {count} versions', "delete them first, or send cascade=true"
    ),
    "pipelines.no-version": Template('the pipeline "{name}" has no version', "upload one"),
    "pipelines.ended": Template("the run has ended: it is {state}"),
    "pipelines.retry": Template("only a run that failed can be retried; this one is {state}"),
    "pipelines.gone": Template("the Workflow of the run is gone", "create a new run"),
    "pipelines.trigger": Template("{detail}"),
    "pipelines.concurrency": Template("{given} is not a valid max_concurrency", "use a whole number from 1 to 10"),
    "pipelines.often": Template(
        "a run every {given} seconds is too often", "use at least {least} seconds, or ask an admin to change {setting}"
    ),
    "pipelines.specs": Template(
        "your compiled pipelines would have more than {most} MB",
        "delete versions and runs that you do not need any more, or ask an admin to raise {setting}",
    ),
    "pipelines.url": Template("pipelines are not loaded from addresses", "upload the file"),
    "pipelines.artifact": Template('the task has no output artifact "{name}"', _ONE_OF),
    "pipelines.no-content": Template("{detail}"),
}

_VOLUMES: Final[Mapping[str, Template]] = {
    "volume.name": Template(
        '"{name}" is not a valid name of a volume',
        "use lower-case letters, digits, and - between them, at most 63 characters",
    ),
    "volume.size": Template('"{size}" is not a size', "use a size such as 10Gi or 500Mi"),
    "volume.taken": Template('there is already a volume "{name}"', "choose another name"),
    "volume.used": Template(
        'the volume "{name}" is in use by {users}', "stop or delete what uses it, and then delete the volume"
    ),
    "volume.shared": Template(
        'the volume "{name}" belongs to an admin, who shares it with you', "ask an admin to stop sharing it"
    ),
    "volume.pending": Template(
        'the volume "{name}" has no storage yet', "wait until its state is Bound; its events say what it waits for"
    ),
    "volume.source": Template(
        'the files of the volume "{name}" are not in a folder of this machine',
        "mount the volume in a notebook or a job to reach them",
    ),
    "volume.cluster": Template(
        'the files of the volume "{name}" are on the cluster, and this server cannot reach them',
        "mount the volume in a notebook or a job to reach them",
    ),
    "volume.foreign": Template(
        'the volume "{name}" is storage that an admin provides, and its files are shown to admins only',
        "mount the volume in a notebook or a job to reach them",
    ),
    "volume.read-only": Template('the volume "{name}" is read-only', "choose another volume"),
    "volume.path": Template('"{path}" is not a path inside the volume', "use a path without .."),
    "volume.path-long": Template('the path "{path}..." is too long', "use fewer folders within folders"),
    "volume.name-long": Template('a name in "{path}..." is too long', "use names of at most 255 bytes"),
    "volume.reserved": Template('"{path}" is reserved for uploads', "choose another name"),
    "volume.top": Template("this is the volume itself", "enter the path of a file or folder in it"),
    "volume.missing": Template('there is no "{path}" in the volume', "look for it in the folder above"),
    "volume.exists": Template('there is already a "{path}"', "choose another name, or delete it first"),
    "volume.is-folder": Template('"{path}" is a folder', "enter the path of a file"),
    "volume.not-folder": Template('"{path}" is not a folder, or a file is on the way to it', "enter another path"),
    "volume.link": Template(
        '"{path}" is a link or a special file, or there is a link on the way; links are not followed here',
        "use the path that the link leads to",
    ),
    "volume.inside": Template('the folder "{path}" cannot be moved into itself', "choose another folder"),
    "volume.full": Template(
        "this file does not fit: your volumes may use {most} MiB together ({setting}), and {left} MiB are left",
        "delete files, or ask an admin for more",
    ),
    "volume.disk": Template("the disk of the server is full", "delete files, or ask an admin to make room"),
    "volume.system": Template('the operating system refuses "{path}": {error}'),
    "volume.interrupted": Template("the upload was interrupted", "start it again"),
}

_POD_POLICY: Final[Mapping[str, Template]] = {
    **{f"confined.{rule}": Template(*text) for rule, text in RULES.items()},
    "confined.repository": Template(
        "artifacts are stored in the platform's own repository", "leave artifactRepositoryRef out"
    ),
    "confined.resource": Template(
        "a resource template uses the platform's rights on the cluster", "use a training node or the jobs page"
    ),
    "confined.store": Template(
        "this store also holds artifacts of other users",
        "start the key with {prefix}, or use your own store with Secrets that are shared with you",
    ),
    "confined.repo": Template('"{repo}" is on the host', "use the address of a remote repository"),
}

_GRAPHS: Final[Mapping[str, Template]] = {
    # The document
    "schema": Template("{detail}", "see docs/graph.schema.json for what is valid here"),
    "metrics.pattern": Template(
        "the pattern of log lines is not valid: {detail}", "use a regular expression of RE2 with a named group"
    ),
    "graph.empty": Template("the graph has no nodes", "add at least one node"),
    "type.field": Template('"{field}" is not valid in a document of type {type}', "leave it out, or change the type"),
    # Names
    "parameter.name": Template('"{name}" is not a valid name for an initial parameter', _REFERABLE),
    "parameter.duplicate": Template('there are two initial parameters "{name}"', "rename one of them"),
    "node.name": Template(
        '"{name}" is not a valid node name',
        "use 1 to 63 characters on one line, without {{{{, / or a space at either end",
    ),
    "node.duplicate": Template('there are two nodes "{name}"', "rename one of them"),
    "input.name": Template(
        '"{name}" is not a valid input name: the command cannot refer to it as ${name}', _IDENTIFIER
    ),
    "input.duplicate": Template('the node has two inputs "{name}"', "rename one of them"),
    "output.name": Template('"{name}" is not a valid output name', _REFERABLE),
    "output.duplicate": Template('the node has two outputs "{name}"', "rename one of them"),
    "env.name": Template('"{name}" is not a valid name for an environment variable', _IDENTIFIER),
    "env.duplicate": Template('the environment variable "{name}" is set twice', "remove one of them"),
    "env.secret": Template(
        '"{name}" looks like a secret, but all users can read it', "mark it as secret if it is one", is_warning=True
    ),
    "env.secret-value": Template('the secret "{name}" has no value', "enter it again: the old one is not shown"),
    "env.input": Template('"{name}" is both an input and an environment variable', "rename one of them"),
    "name.reserved": Template(
        '"{name}" is reserved: names that start with AI_HUB_ are set by the platform', "use another name"
    ),
    "input.shell": Template('an input "{name}" would replace a variable that the shell needs', "use another name"),
    # Edges
    "edge.unknown": Template('there is no node "{name}"', "use one of the nodes {nodes}"),
    "edge.self": Template('"{name}" would wait for itself', "remove this edge"),
    "edge.duplicate": Template('"{before}" already comes before "{after}"', "remove this edge", is_warning=True),
    "cycle": Template("these nodes wait for each other: {cycle}", "remove one of the edges between them"),
    # Where inputs come from
    "input.unbound": Template(
        'the input "{name}" has no source',
        "choose an initial parameter or an output of an earlier node, or enter a value",
    ),
    "input.ambiguous": Template(
        'the input "{name}" has more than one source', "keep one of from.parameter, from.node and value"
    ),
    "input.parameter": Template('there is no initial parameter "{parameter}"', "use one of {parameters}, or add it"),
    "input.node": Template('there is no node "{node}"', "use one of the nodes before this one: {nodes}"),
    "input.output": Template('"{node}" has no output "{output}"', "use one of its outputs: {outputs}"),
    "input.ancestor": Template(
        '"{node}" does not come before "{name}", so its output "{output}" may not exist yet',
        'add an edge from "{node}" (or a node after it) to "{name}", or use one of {nodes}',
    ),
    "input.self": Template('"{name}" cannot use its own output', "use an output of a node before it"),
    "input.path": Template(
        'the files of the inputs "{name}" and "{other}" would both be unpacked at {path}',
        "change one of the nodes that write them to another path",
    ),
    "input.loop-file": Template(
        'the input "{name}" is a file of the loop "{node}", which has one for each item',
        "use a text output: the texts of all items arrive as a JSON list",
    ),
    "input.unused": Template(
        'the command does not use the input "{name}"', "use ${name} where it is needed, or remove it", is_warning=True
    ),
    # Commands and images
    "command.missing": Template('"{name}" has no command', "enter the command to run"),
    "command.undeclared": Template(
        "the command uses ${name}, but there is no input or environment variable of that name",
        "add an input {name}, or use \\${name} for a literal dollar sign",
        is_warning=True,
    ),
    "image.missing": Template('"{name}" has no image', "enter the image that the command runs in"),
    "image.name": Template('"{image}" is not a valid image name', "use a name such as python:3.11 or team/train:1.0"),
    "number.range": Template("{value} is not in the allowed range", "use a number from {least} to {most}"),
    # Timeouts, conditions and loops
    "timeout.value": Template(
        '"{value}" is not a timeout', "use seconds, or a duration such as 90s, 30m or 1h30m, of at most {days} days"
    ),
    "timeout.training": Template("a {kind} cannot have a timeout", "leave it out, or use another kind of job"),
    "condition.left": Template(
        'a comparison of "{name}" has no left side', "choose an initial parameter or an output of an earlier node"
    ),
    "condition.right": Template(
        'a comparison of "{name}" has no right side',
        "enter a value, or choose an initial parameter or an output of an earlier node",
    ),
    "condition.ambiguous": Template(
        'a side of a comparison of "{name}" has more than one source', "keep one of from.parameter, from.node and value"
    ),
    "condition.number": Template(
        '"{value}" is not a number, so {operator} never holds', "enter a number, or compare texts with =="
    ),
    "flow.file": Template('the output "{output}", which "{name}" refers to, is a file', "use a text output"),
    "flow.zero": Template('a text of "{name}" contains a NUL character', "remove it"),
    "loop.missing": Template(
        'the loop of "{name}" has no list',
        "enter items or a count, or choose an initial parameter or an output of an earlier node",
    ),
    "loop.ambiguous": Template(
        'the loop of "{name}" has more than one list', "keep one of items, from.parameter, from.node and count"
    ),
    "loop.size": Template(
        'the items of "{name}" have {size} bytes', "use at most {most}, or let a node before it make the list"
    ),
    "loop.variable": Template(
        '"{variable}" is both the item of the loop and an input or environment variable', "rename one of them"
    ),
    "loop.unused": Template(
        "the command does not use ${variable}, the item of the loop",
        "use ${variable} where it is needed",
        is_warning=True,
    ),
    "loop.module": Template(
        'the module "{module}" has no input "{variable}" that could take the item',
        "use one of its inputs as the variable of the loop: {inputs}",
    ),
    "loop.training": Template(
        '"{name}" is a training node with files or outputs, which cannot be repeated',
        "remove the loop, its outputs and its file inputs, or repeat a plain node",
    ),
    "node.iteration": Template(
        '"{name}" looks like an item of the loop "{loop}"', "use a name without brackets, or rename the loop"
    ),
    # Outputs
    "output.path": Template(
        'the output "{name}" needs the path of the file that the node writes, not "{path}"',
        "use an absolute path without .., such as /tmp/workflow_space/{name}",
    ),
    "output.same-path": Template(
        'the outputs "{name}" and "{other}" have the same path', "write them to different files"
    ),
    "output.training": Template(
        'the output "{name}" of a training job is at {path}, which its replicas do not share',
        "write it below /tmp/workflow_space",
    ),
    # Tasks
    "task.sku": Template("a compute task needs at least 1 SKU, not {skus}", "use 1 or more"),
    "task.no-cluster": Template("a compute task needs a virtual cluster", "use one of {clusters}"),
    "task.cluster": Template('there is no virtual cluster "{cluster}"', "use one of {clusters}"),
    "task.forbidden": Template(
        'you may not use the virtual cluster "{cluster}"', "use one of {clusters}, or ask an admin"
    ),
    "task.monitor": Template(
        "a monitor task has fixed resources and no virtual cluster", 'leave out cluster and skus, or use "compute"'
    ),
    # Storage
    "storage.root": Template('there is no storage root "{root}"', "use one of {roots}, or ask an admin to add it"),
    "storage.forbidden": Template('you may not use the storage root "{root}"', "use one of {roots}, or ask an admin"),
    "storage.read-only": Template('the storage root "{root}" is read-only', "mark the mount as read-only"),
    "storage.path": Template('"{path}" is not a valid mount path', "use an absolute path below /, without .."),
    "storage.same-path": Template("two storage roots would be mounted at {path}", "use another path for one of them"),
    "storage.covers": Template("{path} holds the node's own files", "mount the storage root at another path"),
    # Module nodes
    "module.missing": Template('"{name}" is a module node without a module', "choose a module and a version"),
    "module.unknown": Template('there is no module "{module}"', "use one of {modules}"),
    "module.version": Template('the module "{module}" has no version "{version}"', "use one of {versions}"),
    "module.forbidden": Template(
        '"{module}" {version} is not published and not yours', "use a published version, or ask its author"
    ),
    "module.retired": Template(
        '"{module}" {version} is deprecated; only workflows that already use it may keep it', "use a newer version"
    ),
    "module.deprecated": Template('"{module}" {version} is deprecated', "use a newer version", is_warning=True),
    "module.input": Template(
        'the module "{module}" needs the input "{input}"', "choose where it comes from, or enter a value"
    ),
    "module.no-input": Template('the module "{module}" has no input "{input}"', "remove it, or use one of {inputs}"),
    "module.field": Template("the {field} of a module node comes from its module", "leave it out"),
    "kind.field": Template('"{field}" is not valid in a {kind} node', "leave it out, or change the kind of the node"),
    # Training nodes
    "training.missing": Template(
        '"{name}" is a training node without a training job', "choose a kind and its replicas"
    ),
    "training.kind": Template('there is no training job kind "{kind}"', "use one of {kinds}"),
    "training.role": Template('a {kind} has no role "{role}"', "use one of {roles}"),
    "training.duplicate": Template('the role "{role}" is listed twice', "remove one of them"),
    "training.empty": Template("the training job has no replicas", "give one of the roles {roles} at least 1 replica"),
    "training.storage": Template(
        'the replicas of "{name}" share files, and this cluster has no storage for that',
        "use one replica, or ask an admin to set kubernetes.sharedStorageClass",
    ),
    "training.invalid": Template("{detail}", "change the roles or their replicas"),
    # A manifest
    "manifest.missing": Template("the manifest is missing", "paste an Argo Workflow"),
    "manifest.unreadable": Template("{detail}", "correct the YAML"),
    "manifest.kind": Template("the manifest is a {kind}, not a Workflow", "paste one object of kind Workflow"),
    "manifest.invalid": Template("{detail}", "correct the manifest"),
    "manifest.confined": Template("{detail}", "or ask an admin to store it for you"),
    # The values of a run
    "value.unknown": Template('there is no initial parameter "{name}"', "use one of {parameters}"),
    "value.missing": Template('"{name}" needs a value', "enter one"),
    "value.long": Template('the value of "{name}" has {size} bytes', "use at most {most}, and pass more as a file"),
    "value.zero": Template('the value of "{name}" contains a NUL character', "remove it"),
    "value.list": Template(
        'the value of "{name}" is not a JSON list, and "{node}" runs once for each of its items: {detail}',
        'enter a list such as ["a", "b"] or [1, 2, 3]',
    ),
    "value.items": Template(
        'the value of "{name}" has {count} items, and "{node}" runs once for each of them', "use at most {most}"
    ),
    "value.item": Template(
        'the value of "{name}" has an item of {size} characters, and "{node}" runs once for each item',
        "use at most {most} characters, and pass more as a file",
    ),
    # What an imported manifest says that a graph cannot
    "import.changed": Template('step "{step}": {detail}', "change the graph if this does not fit", is_warning=True),
    "import.unmapped": Template("{detail}", "the manifest is stored and runs as it is", is_warning=True),
}

CATALOG: Final[Mapping[str, Template]] = {
    **_REQUESTS, **_USERS, **_WORKFLOWS, **_RUNS, **_RESOURCES, **_MODULES, **_JOBS, **_DISPATCH, **_PIPELINES,
    **_VOLUMES, **_WORKSPACES, **_POD_POLICY, **_GRAPHS,
}  # fmt: skip


def catalog_document() -> dict[str, Any]:
    """The catalog as JSON, for docs/messages.json."""
    return {code: {"message": each.message, "fix": each.fix} for code, each in sorted(CATALOG.items())}


if __name__ == "__main__":
    import json

    print(json.dumps(catalog_document(), indent=2))
