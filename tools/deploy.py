"""Generates the files in deploy/ from `muster.operator.install_manifests` and `platform_manifests`:
`python -m tools.deploy`.

The kustomize base contains the objects as files. The Helm chart's templates contain them with the chart's values in
place of options; a template's `if` comes from comparing the objects of two options, line by line. A test compares the
files with what this program generates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from muster.kube.manifests import dump
from muster.kube.objects import Object, name_of
from muster.operator import install_manifests as source
from muster.operator import platform_manifests
from muster.operator.install_manifests import InstallOptions, build_crds, build_workspace_crds
from muster.operator.platform_manifests import PlatformOptions
from muster.operator.settings import lease_name

DEPLOY = Path(__file__).parents[1] / "deploy"
CHART = "helm/muster-operator"
BASE = "kustomize/base"
WORKSPACES = "kustomize/workspaces"
PLATFORM_CHART = "helm/muster"
PLATFORM = "kustomize/platform"
DEFINITIONS = f"{CHART}/definitions"
WORKSPACE_DEFINITIONS = f"{DEFINITIONS}/workspaces"

_HEADER = "# Written by `python -m tools.deploy`; change src/muster/operator/install_manifests.py instead.\n"
_WATCHED, _ARGUMENT = "ZZwatchedZZ", "ZZargumentZZ"
_LEASE = lease_name((_WATCHED,))
_VALUES = {
    # placeholder in an object: its replacement in the template
    "ZZnamespaceZZ": "{{ $.Release.Namespace }}",
    "ZZimageZZ": '{{ include "muster-operator.image" $ }}',
    "ZZpullPolicyZZ": "{{ $.Values.image.pullPolicy }}",
    "ZZreplicasZZ": "{{ $.Values.replicas }}",
    "ZZgangZZ": "{{ $.Values.gangSchedulerName }}",
    "ZZfailurePolicyZZ": "{{ $.Values.webhook.failurePolicy }}",
    "ZZpriorityZZ": "{{ $.Values.priorityClassName }}",
    "ZZplatformImageZZ": '{{ include "muster.image" $ }}',
    "ZZsecretZZ": "{{ $.Values.secretName }}",
    _LEASE: '{{ include "muster-operator.lease" $ }}',
}
_BLOCKS = {
    # the same for whole structures, which are left out if they are empty
    "ZZresourcesZZ": "$.Values.resources",
    "ZZpullSecretsZZ": "$.Values.imagePullSecrets",
    "ZZnodeSelectorZZ": "$.Values.nodeSelector",
    "ZZtolerationsZZ": "$.Values.tolerations",
    "ZZaffinityZZ": "$.Values.affinity",
    "ZZissuerZZ": "$.Values.webhook.certManager.issuerRef",
    "ZZingressFromZZ": "$.Values.networkPolicy.ingressFrom",
}
_LISTS = {
    _WATCHED: "$.Values.namespaces",
    _ARGUMENT: "$.Values.extraArgs",
    "ZZportZZ": "$.Values.networkPolicy.apiServerPorts",
    "ZZegressPortZZ": "$.Values.networkPolicy.egressPorts",
}
_ISSUER, _NAMESPACES = "$.Values.webhook.certManager.issuerRef", "$.Values.namespaces"
_WORKSPACES = "$.Values.workspaces.enabled"

_ALL_JOBS = InstallOptions(
    namespace="ZZnamespaceZZ",
    image="ZZimageZZ",
    pull_policy="ZZpullPolicyZZ",
    pull_secrets="ZZpullSecretsZZ",
    replicas="ZZreplicasZZ",
    gang="ZZgangZZ",
    arguments=(_ARGUMENT,),
    failure_policy="ZZfailurePolicyZZ",
    resources="ZZresourcesZZ",
    placement={
        "nodeSelector": "ZZnodeSelectorZZ",
        "tolerations": "ZZtolerationsZZ",
        "affinity": "ZZaffinityZZ",
        "priorityClassName": "ZZpriorityZZ",
    },
    api_ports=("ZZportZZ",),
)
_SOME_JOBS = replace(_ALL_JOBS, namespaces=(_WATCHED,))


FOLDERS = (
    DEFINITIONS,
    WORKSPACE_DEFINITIONS,
    BASE,
    WORKSPACES,
    f"{CHART}/templates",
    PLATFORM,
    f"{PLATFORM_CHART}/templates",
)
"""The folders whose YAML files are all generated."""


def files() -> dict[str, str]:
    """Returns the content of the files, by path below deploy/."""
    return {**_definitions(), **_base(), **_component(), **_templates(), **_platform(), **_platform_templates()}


def write() -> None:
    for folder in FOLDERS:
        for old in (DEPLOY / folder).glob("*.yaml"):
            old.unlink()
    for name, text in files().items():
        path = DEPLOY / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _definitions() -> dict[str, str]:
    found: dict[str, str] = {}
    for folder, crds in ((DEFINITIONS, build_crds()), (WORKSPACE_DEFINITIONS, build_workspace_crds())):
        named = {f"{name_of(crd)}.yaml": _HEADER + dump(crd) for crd in crds}
        found |= {f"{folder}/{name}": text for name, text in {**named, **_kustomization(sorted(named))}.items()}
    return found


def _base() -> dict[str, str]:
    options = InstallOptions()
    parts = {
        "namespace.yaml": [source.namespace(options)],
        "accounts.yaml": source.accounts(options),
        "operator.yaml": [source.deployment(options), source.disruption_budget(options)],
        "network.yaml": [source.service(options), source.network_policy(options)],
        "webhook.yaml": [source.secret(options), source.webhook(options)],
    }
    named = {name: _HEADER + _documents(objects) for name, objects in parts.items()}
    listed = _kustomization([f"../../{DEFINITIONS}", *named])
    return {f"{BASE}/{name}": text for name, text in {**named, **listed}.items()}


def _component() -> dict[str, str]:
    """The kustomize component that lets the operator run workspaces: their definitions, and what has to be added to
    objects of the base."""
    without, options = InstallOptions(), InstallOptions(workspaces=True)
    patches = []
    for build in (source.job_role, source.network_policy, source.deployment):
        obj = build(options)
        operations = [{"op": "add", "path": f"{path}/-", "value": value} for path, value in _added(build(without), obj)]
        patches.append({"target": {"kind": obj["kind"], "name": name_of(obj)}, "patch": dump(operations)})
    component = {
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
        "resources": [f"../../{WORKSPACE_DEFINITIONS}"],
        "patches": patches,
    }
    return {f"{WORKSPACES}/kustomization.yaml": _HEADER + dump(component)}


def _added(old: Any, new: Any, path: str = "") -> list[tuple[str, Any]]:
    """Returns the items at the end of lists that only `new` has, with the paths of the lists."""
    if isinstance(old, Mapping):
        assert old.keys() == new.keys(), path
        return [found for key in old for found in _added(old[key], new[key], f"{path}/{key}")]
    if isinstance(old, list | tuple):
        inner = [found for number, each in enumerate(old) for found in _added(each, new[number], f"{path}/{number}")]
        return inner + [(path, each) for each in new[len(old) :]]
    assert old == new, path
    return []


def _kustomization(resources: Iterable[str], components: Sequence[str] = ()) -> dict[str, str]:
    obj: Object = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": [*resources]}
    if components:
        obj["components"] = list(components)
    return {"kustomization.yaml": _HEADER + dump(obj)}


def _templates() -> dict[str, str]:
    some, everywhere = (dump(source.job_bindings(options)[0]) for options in (_SOME_JOBS, _ALL_JOBS))
    each = f"{{{{- range {_NAMESPACES} }}}}\n---\n{some.replace(_WATCHED, '{{ . }}')}{{{{- end }}}}\n"
    made, given = (
        dump(thing(replace(_ALL_JOBS, issuer="ZZissuerZZ"))) for thing in (source.secret, source.certificate)
    )
    fixed = (source.account, source.job_role, source.own_role, source.own_binding)
    parts = {
        "accounts.yaml": "---\n".join(_variants(thing) for thing in fixed)
        + _either(_NAMESPACES, each, f"---\n{everywhere}")
        + _either(_ISSUER, "", f"---\n{_documents(source.webhook_accounts(_ALL_JOBS))}"),
        "operator.yaml": _variants(source.deployment),
        "disruption-budget.yaml": _either(
            "$.Values.podDisruptionBudget.enabled", _variants(source.disruption_budget), ""
        ),
        "service.yaml": _variants(source.service),
        "network-policy.yaml": _either("$.Values.networkPolicy.enabled", _variants(source.network_policy), ""),
        "webhook.yaml": _variants(source.webhook),
        "certificate.yaml": _either(_ISSUER, given, made),
        "definitions.yaml": _DEFINITIONS_TEMPLATE,
    }
    return {f"{CHART}/templates/{name}": _HEADER + _fill_in(text) for name, text in parts.items()}


_PLATFORM_HEADER = _HEADER.replace("install_manifests", "platform_manifests")
_CHART_OPTIONS = PlatformOptions(
    namespace="ZZnamespaceZZ",
    image="ZZplatformImageZZ",
    pull_policy="ZZpullPolicyZZ",
    pull_secrets="ZZpullSecretsZZ",
    replicas="ZZreplicasZZ",
    secret="ZZsecretZZ",  # noqa: S106  (the name of one)
    resources="ZZresourcesZZ",
    placement=_ALL_JOBS.placement,
    egress_ports=("ZZegressPortZZ",),
    ingress_from="ZZingressFromZZ",
)


def _platform() -> dict[str, str]:
    """The kustomize folder with the operator and the server. Its Secret and settings are patches of one's own."""
    options = PlatformOptions()
    parts = {
        "accounts.yaml": [thing(options) for thing in _PLATFORM_ACCOUNTS],
        "server.yaml": [
            platform_manifests.config_map(options),
            platform_manifests.deployment(options),
            platform_manifests.disruption_budget(options),
        ],
        "network.yaml": [platform_manifests.service(options), platform_manifests.network_policy(options)],
    }
    named = {name: _PLATFORM_HEADER + _documents(objects) for name, objects in parts.items()}
    listed = _kustomization(["../base", *named], components=["../workspaces"])
    return {f"{PLATFORM}/{name}": text for name, text in {**named, **listed}.items()}


_PLATFORM_ACCOUNTS = (platform_manifests.account, platform_manifests.role, platform_manifests.binding)


def _platform_templates() -> dict[str, str]:
    options = _CHART_OPTIONS
    config = dump(platform_manifests.config_map(options))
    given = '  config.yaml: |\n    {{- include "muster.config" $ | nindent 4 }}\n'
    config = re.sub(r"(?m)^  config\.yaml: \|\n(?:    [^\n]*\n)*", given, config)
    hashed = re.sub(
        rf"{platform_manifests.CONFIG_ANNOTATION}: \w+",
        f'{platform_manifests.CONFIG_ANNOTATION}: {{{{ include "muster.config" $ | sha256sum }}}}',
        dump(platform_manifests.deployment(options)),
    )
    limited, open_to_all = (
        dump(platform_manifests.network_policy(each)) for each in (options, replace(options, ingress_from=()))
    )
    policy = _merge("$.Values.networkPolicy.ingressFrom", limited, open_to_all)
    budget = dump(platform_manifests.disruption_budget(options))
    parts = {
        "accounts.yaml": _documents(thing(options) for thing in _PLATFORM_ACCOUNTS),
        "config.yaml": config,
        "server.yaml": hashed,
        "disruption-budget.yaml": _either("$.Values.podDisruptionBudget.enabled", budget, ""),
        "service.yaml": dump(platform_manifests.service(options)),
        "network-policy.yaml": _either("$.Values.networkPolicy.enabled", policy, ""),
        "ingress.yaml": _INGRESS_TEMPLATE,
        "service-monitor.yaml": _SERVICE_MONITOR_TEMPLATE,
    }
    return {f"{PLATFORM_CHART}/templates/{name}": _PLATFORM_HEADER + _fill_in(text) for name, text in parts.items()}


_METADATA_TEMPLATE = "".join(f"    {name}: {value}\n" for name, value in sorted(platform_manifests.LABELS.items()))
_INGRESS_TEMPLATE = f"""\
{{{{- if .Values.ingress.enabled }}}}
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
{{{{- with .Values.ingress.annotations }}}}
  annotations:
    {{{{- toYaml . | nindent 4 }}}}
{{{{- end }}}}
  labels:
{_METADATA_TEMPLATE}  name: {platform_manifests.NAME}
  namespace: {{{{ .Release.Namespace }}}}
spec:
{{{{- with .Values.ingress.className }}}}
  ingressClassName: {{{{ . }}}}
{{{{- end }}}}
  rules:
  - host: {{{{ include "muster.host" . }}}}
    http:
      paths:
      - backend:
          service:
            name: {platform_manifests.NAME}
            port:
              name: http
        path: /
        pathType: Prefix
{{{{- with .Values.ingress.tlsSecretName }}}}
  tls:
  - hosts:
    - {{{{ include "muster.host" $ }}}}
    secretName: {{{{ . }}}}
{{{{- end }}}}
{{{{- end }}}}
"""
_SERVICE_MONITOR_TEMPLATE = f"""\
{{{{- if .Values.serviceMonitor.enabled }}}}
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  labels:
{_METADATA_TEMPLATE}  name: {platform_manifests.NAME}
  namespace: {{{{ .Release.Namespace }}}}
spec:
  endpoints:
  - interval: {{{{ .Values.serviceMonitor.interval }}}}
    port: monitoring
  selector:
    matchLabels:
      app.kubernetes.io/component: server
      app.kubernetes.io/name: {platform_manifests.NAME}
{{{{- end }}}}
"""


_DEFINITIONS_TEMPLATE = """\
{{- if .Values.crds.install }}
{{- range $path, $_ := .Files.Glob (ternary "definitions/**.yaml" "definitions/*.yaml" .Values.workspaces.enabled) }}
{{ include "muster-operator.definition" (dict "root" $ "path" $path) }}
{{- end }}
{{- end }}
"""


def _variants(thing: Callable[[InstallOptions], Object]) -> str:
    """Returns the object as a template: with and without an issuer, for jobs of all or of some namespaces, with and
    without workspaces."""

    def of_namespaces(workspaces: bool) -> str:
        some, everywhere = (
            _merge(_ISSUER, dump(thing(replace(options, issuer="ZZissuerZZ"))), dump(thing(options)))
            for options in (replace(each, workspaces=workspaces) for each in (_SOME_JOBS, _ALL_JOBS))
        )
        return _merge(_NAMESPACES, some, everywhere)

    return _merge(_WORKSPACES, of_namespaces(True), of_namespaces(False))


def _merge(condition: str, wanted: str, other: str) -> str:
    """Returns one text that is `wanted` where the condition holds, and otherwise `other`."""
    yes, no = wanted.splitlines(keepends=True), other.splitlines(keepends=True)
    pieces = []
    for tag, a, b, c, d in SequenceMatcher(None, yes, no, autojunk=False).get_opcodes():
        same = tag == "equal"
        pieces.append("".join(yes[a:b]) if same else _either(condition, "".join(yes[a:b]), "".join(no[c:d])))
    return "".join(pieces)


def _either(condition: str, wanted: str, other: str) -> str:
    if not wanted:
        return f"{{{{- if not {condition} }}}}\n{other}{{{{- end }}}}\n"
    otherwise = f"{{{{- else }}}}\n{other}" if other else ""
    return f"{{{{- if {condition} }}}}\n{wanted}{otherwise}{{{{- end }}}}\n"


def _fill_in(text: str) -> str:
    """Replaces the placeholders by the chart's values."""
    for placeholder, value in _BLOCKS.items():

        def block(found: re.Match[str], value: str = value) -> str:
            indent, key = found["indent"], found["key"]
            if found["dash"]:  # the first field of an item, which cannot be left out alone
                return f"{indent}- {key}:\n{indent}    {{{{- toYaml {value} | nindent {len(indent) + 4} }}}}\n"
            inner = f"{indent}  {{{{- toYaml . | nindent {len(indent) + 2} }}}}"
            return f"{{{{- with {value} }}}}\n{indent}{key}:\n{inner}\n{{{{- end }}}}\n"

        text = re.sub(rf"(?m)^(?P<indent> *)(?P<dash>- )?(?P<key>\w+): {placeholder}\n", block, text)
    for placeholder, value in _LISTS.items():

        def listed(found: re.Match[str], placeholder: str = placeholder, value: str = value) -> str:
            item = found[0].replace(placeholder, "{{ . | quote }}" if placeholder == _ARGUMENT else "{{ . }}")
            return f"{{{{- range {value} }}}}\n{item}{{{{- end }}}}\n"

        # An item, and its further lines.
        text = re.sub(rf"(?m)^(?P<indent> *)- [^\n]*{placeholder}\n(?:(?P=indent)  [^\n]*\n)*", listed, text)
    text = re.sub(
        r"(?m)^ *priorityClassName: ZZpriorityZZ\n",
        lambda found: f"{{{{- if $.Values.priorityClassName }}}}\n{found[0]}{{{{- end }}}}\n",
        text,
    )
    for placeholder, value in _VALUES.items():
        text = text.replace(placeholder, value)
    left = re.search(r"ZZ\w+ZZ", text)
    assert left is None, f"{left and left[0]} remains in a template"
    return text


def _documents(objects: Iterable[Object]) -> str:
    return "---\n".join(dump(obj) for obj in objects)


if __name__ == "__main__":
    write()
