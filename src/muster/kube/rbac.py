"""Role-based access control as in Kubernetes: the user record, and pure functions on Roles and bindings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple, Protocol, TypeAlias

from muster.kube.objects import Object, labels_of, name_of, namespace_of
from muster.kube.selectors import label_selector_from

MASTERS = "system:masters"
"""Members of this group may do everything, regardless of roles."""

AUTHENTICATED = "system:authenticated"
SERVICE_ACCOUNTS = "system:serviceaccounts"
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class User:
    name: str
    groups: frozenset[str] = frozenset()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False, compare=False)

    @property
    def is_master(self) -> bool:
        return MASTERS in self.groups


def service_account_user(namespace: str, name: str, uid: str = "") -> User:
    return User(
        f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}",
        frozenset((SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}", AUTHENTICATED)),
        uid,
    )


Rule: TypeAlias = Mapping[str, Any]
"""A PolicyRule: apiGroups, resources, resourceNames, verbs, nonResourceURLs."""


class Action(NamedTuple):
    """What a request wants to do. For non-resource URLs, only `verb` and `path` are set."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return f'{self.verb} path "{self.path}"'
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        where = f' in the namespace "{self.namespace}"' if self.namespace else " at the cluster scope"
        return f'{self.verb} resource "{resource}" in API group "{self.group}"{where}'


class Grant(NamedTuple):
    """Rules that a user has in one namespace, or everywhere ('')."""

    namespace: str
    rules: tuple[Rule, ...]


AUTHENTICATED_RULES: tuple[Rule, ...] = (
    {
        "verbs": ["get"],
        "nonResourceURLs": ["/", "/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version"],
    },
    {
        "verbs": ["create"],
        "apiGroups": ["authorization.k8s.io"],
        "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
    },
    {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]},
)
"""What every authenticated user may do: read the API's description, and ask who they are and what they may do."""


def is_allowed_by_roles(user: User, action: Action, roles: Iterable[Object], bindings: Iterable[Object]) -> bool:
    return is_allowed(user, action, grants_of(user, roles, bindings))


def is_allowed(user: User, action: Action, grants: Iterable[Grant]) -> bool:
    """Whether the grants of a user allow an action."""
    if user.is_master:
        return True
    return any(
        rule_permits(rule, action)
        for grant in grants
        if grant.namespace in ("", action.namespace)
        for rule in grant.rules
    )


def grants_of(user: User, roles: Iterable[Object], bindings: Iterable[Object]) -> list[Grant]:
    """Returns what the bindings grant to `user`. A binding whose role does not exist grants nothing."""
    known = {(namespace_of(role), name_of(role)): role for role in roles}
    found = [Grant("", AUTHENTICATED_RULES)] if AUTHENTICATED in user.groups else []
    for binding in bindings:
        namespace = namespace_of(binding)
        if not any(_is_subject(user, subject, namespace) for subject in binding.get("subjects") or ()):
            continue
        ref = binding.get("roleRef") or {}
        where = namespace if ref.get("kind") == "Role" else ""
        role = known.get((where, str(ref.get("name") or "")))
        given = () if role is None else effective_rules(role, known.values())
        if given:
            found.append(Grant(namespace, given))
    return found


def rule_permits(rule: Rule, action: Action) -> bool:
    verbs = rule.get("verbs") or ()
    if action.verb not in verbs and "*" not in verbs:
        return False
    if action.path:
        return any(_matches_path(pattern, action.path) for pattern in rule.get("nonResourceURLs") or ())
    groups = rule.get("apiGroups") or ()
    if action.group not in groups and "*" not in groups:
        return False
    names = rule.get("resourceNames")
    if names and action.name not in names:
        return False
    return _matches_resource(rule.get("resources") or (), action.resource, action.subresource)


FULL_AUTHORITY: tuple[Rule, ...] = (
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
)
"""What a user needs to set an aggregation rule, which can gather anything."""

MOST_COMBINATIONS = 100_000
_MOST_MISSING = 20


class TooManyCombinations(ValueError):
    """A rule with so many verbs, groups, resources and names that comparing them would take long."""


def missing_actions(wanted: Iterable[Rule], namespace: str, grants: Sequence[Grant]) -> list[Action]:
    """Returns what the rules in `wanted` allow and `grants` do not, the first ones if there are many: users may not
    grant more than they have. As in Kubernetes, one of the own rules has to cover each combination of a verb, a group,
    a resource and a name."""
    own = [rule for grant in grants if grant.namespace in ("", namespace) for rule in grant.rules]
    missing: list[Action] = []
    budget = MOST_COMBINATIONS
    for rule in wanted:
        if any(_covers_rule(mine, rule) for mine in own):
            continue
        budget -= _combinations(rule)
        if budget < 0:
            raise TooManyCombinations(f"the rules have more than {MOST_COMBINATIONS:,} combinations; split the role")
        for action in _actions_of(rule, namespace):
            if not any(_covers(mine, action) for mine in own):
                missing.append(action)
                if len(missing) >= _MOST_MISSING:
                    return missing
    return missing


def effective_rules(role: Object, roles: Iterable[Object]) -> tuple[Rule, ...]:
    """Returns the rules of a role. Those of an aggregated ClusterRole are the rules of the ClusterRoles that it
    selects, of those that these select, and so on; its own do not count, because Kubernetes overwrites them."""
    if not role.get("aggregationRule"):
        return tuple(role.get("rules") or ())
    others = [other for other in roles if not namespace_of(other)]
    found: list[Rule] = []
    waiting, seen = [role], {name_of(role)}
    while waiting:
        for selector in (waiting.pop().get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
            chosen = label_selector_from(selector)
            for other in others:
                if name_of(other) in seen or not chosen.matches(labels_of(other)):
                    continue
                seen.add(name_of(other))
                if other.get("aggregationRule"):
                    waiting.append(other)
                else:
                    found.extend(other.get("rules") or ())
    return tuple(found)


def _is_subject(user: User, subject: Mapping[str, Any], namespace: str) -> bool:
    name = subject.get("name")
    match subject.get("kind"):
        case "User":
            return name == user.name
        case "Group":
            return name in user.groups
        case "ServiceAccount":
            return f"{SERVICE_ACCOUNT_PREFIX}{subject.get('namespace') or namespace}:{name}" == user.name
    return False


def _matches_resource(patterns: Sequence[str], resource: str, subresource: str) -> bool:
    if "*" in patterns:
        return True
    if not subresource:
        return resource in patterns
    return f"{resource}/{subresource}" in patterns or f"*/{subresource}" in patterns


def _matches_path(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern


def _covers(own: Rule, action: Action) -> bool:
    """Like `rule_permits`, but a rule for certain names covers no action without a name, whatever these names are."""
    if not action.name and not action.path and own.get("resourceNames"):
        return False
    return rule_permits(own, action)


def _covers_rule(own: Rule, wanted: Rule) -> bool:
    """Whether one rule covers another one as a whole: the usual case, and quick."""
    verbs, groups = own.get("verbs") or (), own.get("apiGroups") or ()
    if "*" not in verbs and not set(wanted.get("verbs") or ()) <= set(verbs):
        return False
    if wanted.get("nonResourceURLs"):
        return False
    if "*" not in groups and not set(wanted.get("apiGroups") or ()) <= set(groups):
        return False
    names = own.get("resourceNames")
    if names and (not wanted.get("resourceNames") or not set(wanted["resourceNames"]) <= set(names)):
        return False
    resources = own.get("resources") or ()
    return "*" in resources or set(wanted.get("resources") or ()) <= set(resources)


def _combinations(rule: Rule) -> int:
    verbs = len(rule.get("verbs") or ())
    resources = len(rule.get("apiGroups") or ()) * len(rule.get("resources") or ())
    return verbs * (len(rule.get("nonResourceURLs") or ()) + resources * max(1, len(rule.get("resourceNames") or ())))


def _actions_of(rule: Rule, namespace: str) -> Iterator[Action]:
    """Yields the single actions that a rule allows. A `*` stays a `*`: only a `*` covers it."""
    verbs = rule.get("verbs") or ()
    for verb, path in product(verbs, rule.get("nonResourceURLs") or ()):
        yield Action(verb, path=path)
    for verb, group, resource, name in product(
        verbs, rule.get("apiGroups") or (), rule.get("resources") or (), rule.get("resourceNames") or ("",)
    ):
        yield Action(verb, group, *_split(resource), namespace, name)


def _split(resource: str) -> tuple[str, str]:
    name, _, subresource = resource.partition("/")
    return name, subresource


class Authorizer(Protocol):
    """Decides what users may do, from the Roles and bindings of a cluster."""

    def is_allowed(self, user: User, action: Action) -> bool: ...

    def rules_of_role(self, kind: str, namespace: str, name: str) -> Iterable[Rule]:
        """Returns the rules of a Role, or of a ClusterRole in the namespace '', with what it aggregates. Raises
        NotFound."""
        ...
