"""Changes valid requests into odd ones: other types, other sizes, other characters, in the body, the path, the query
and the headers. Everything depends on the seed of one random generator."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from urllib.parse import quote

ODD_TEXTS = (
    "",
    " ",
    "\x00",
    "a\x00b",
    "..",
    ".",
    "../../etc/passwd",
    "/",
    "//",
    "*",
    "a" * 64,
    "a" * 254,
    "b" * 5000,
    "ü",
    "名",
    "\U0001f600",
    "\u202e",
    "\ufeff",
    "-1",
    "0",
    "1e309",
    "NaN",
    "null",
    "true",
    "{}",
    "[]",
    "{{",
    "}}",
    "{{=1/0}}",
    "{{inputs.parameters.x}}",
    "{{workflow.name}}",
    "%00",
    "%2e%2e",
    "%",
    "\n",
    "\r\nX-Odd: 1",
    "=",
    "==",
    "!",
    ",",
    "(",
    "a in (",
    "a=b,c",
    "!a",
    "a notin ()",
    "metadata.name=x",
    "metadata.name!=x",
    "a=\\",
    "\\",
    "'",
    '"',
    "`",
    "$(x)",
    "$",
    "[",
    "]",
    "]]",
    "[0",
    "a[0]",
    "@latest",
    "latest",
    "0x10",
    "1_000",
    "1Gi",
    "100m",
    "1.5.6",
    "10e400",
    "-0",
    "+1",
    "2026-01-01T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "10000-01-01T00:00:00Z",
    "* * * * *",
    "*/0 * * * *",
    "61 * * * *",
    "Europe/Nowhere",
    "3s",
    "-3s",
    "9" * 40,
    "9" * 400,
    "999999h",
    "(a+)+$",
    "[[:odd:]]",
    "default",
    "name",
    "main",
    "²",
    "９",
    "1" * 5000,
    "{{" * 50,
    "a=b," * 50,
    "a.b[c].d",
    "x-y.z/w",
    ".",
    "a..b",
    "[.]",
)
ODD_NUMBERS = (
    0,
    -1,
    1,
    2,
    255,
    65536,
    2**31 - 1,
    2**31,
    -(2**31) - 1,
    2**53,
    2**63 - 1,
    -(2**63),
    2**64 - 1,
    0.5,
    -0.0,
    1e300,
)
ODD_BYTES = (
    b"",
    b"null",
    b"[]",
    b"{}",
    b"1",
    b'"x"',
    b"{",
    b"\xff\xfe",
    b'{"a":"\xff"}',
    b'{"a":"\\ud800"}',
    b"NaN",
    b'{"a":NaN}',
    b'{"a":1e999}',
    b'{"a":' + b"9" * 400 + b"}",
    b"[" * 2000,
    b'{"a":' * 2000,
    b"k8s\x00",
    b"k8s\x00\x0a\xff\xff",
    b"k8s\x00\x0a\x08\x0a\x02v1\x12\x02ab",
    b"a: &a [*a]",
    b"%YAML",
    b"---\n---\n",
    b'{"":1}',
    b'{"metadata":[]}',
    b'{"metadata":{"name":{}}}',
    b"\xef\xbb\xbf{}",
    b"\x00",
    b"a: !!python/object:os.system {}",
    b"? [a]\n: b",
)
ODD_HEADERS: tuple[tuple[str, str], ...] = (
    ("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"),
    ("Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
    ("Accept", "application/yaml"),
    ("Accept", "application/vnd.kubernetes.protobuf"),
    ("Accept", ";;;q=x,,"),
    ("Accept", "text/event-stream"),
    ("Accept-Encoding", "gzip"),
    ("Content-Type", "application/yaml"),
    ("Content-Type", "application/vnd.kubernetes.protobuf"),
    ("Content-Type", "application/json-patch+json"),
    ("Content-Type", "application/merge-patch+json"),
    ("Content-Type", "application/strategic-merge-patch+json"),
    ("Content-Type", "application/apply-patch+yaml"),
    ("Content-Type", "\x7f"),
    ("Content-Encoding", "gzip"),
    ("Impersonate-User", "\xff"),
    ("Impersonate-User", "system:serviceaccount:a"),
    ("Impersonate-Group", "x"),
    ("Impersonate-Extra-a", "x"),
    ("If-Match", "x"),
    ("Upgrade", "SPDY/3.1"),
    ("Expect", "100-continue"),
    ("X-Odd", "\xff" * 100),
    ("User-Agent", "\xff/1"),
    ("Authorization", "Bearer \xff"),
    ("Authorization", "Basic x"),
)


@dataclass(frozen=True, slots=True)
class FuzzRequest:
    method: str
    path: tuple[str, ...]
    query: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    body: Any = None
    """A JSON value, bytes, or None for no body."""

    @property
    def target(self) -> str:
        path = "/" + "/".join(segment if segment.startswith("%") else quote(segment, safe="") for segment in self.path)
        if not self.query:
            return path
        return path + "?" + "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in self.query)

    @property
    def content(self) -> bytes:
        if self.body is None:
            return b""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()

    def __str__(self) -> str:
        body = self.content
        shown = body[:600].decode(errors="backslashreplace") + (f"... ({len(body)} bytes)" if len(body) > 600 else "")
        return f"{self.method} {self.target[:600]} {dict(self.headers)} {shown}"


@dataclass(slots=True)
class Mutator:
    random: Random
    queries: tuple[str, ...] = ()
    """Names of query parameters that the API knows."""
    methods: tuple[str, ...] = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
    _pool: list[Any] = field(default_factory=list)
    """Values of earlier bodies, which appear in wrong places later."""

    def mutate(self, request: FuzzRequest) -> FuzzRequest:
        """Returns the request with one to four changes."""
        random = self.random
        for _ in range(random.choice((1, 1, 1, 2, 2, 3, 4))):
            changes = (self.mutate_body, self._bytes, self._path, self._query, self._header, self._method)
            request = random.choices(changes, (60, 4, 10, 14, 8, 2))[0](request)
        return request

    def value(self) -> Any:
        """Returns an odd value of any type."""
        random = self.random
        match random.randrange(9):
            case 0:
                return None
            case 1:
                return random.random() < 0.5
            case 2:
                return random.choice(ODD_NUMBERS)
            case 3 | 4:
                return random.choice(ODD_TEXTS)
            case 5:
                return [self.value() for _ in range(random.randrange(3))]
            case 6:
                return {random.choice(ODD_TEXTS)[:300]: self.value() for _ in range(random.randrange(3))}
            case 7:
                return _nested(random.choice((3, 60, 150)), random.random() < 0.5)
        return random.choice(self._pool) if self._pool else []

    def mutate_body(self, request: FuzzRequest) -> FuzzRequest:
        """Returns the request with one or two values of its body changed."""
        if request.body is None or isinstance(request.body, bytes):
            return self._query(request)
        body = json.loads(json.dumps(request.body))
        places = list(_places(body))
        if not places:
            return replace(request, body=self.value())
        for _ in range(self.random.choice((1, 1, 2))):
            parent, key = self.random.choice(places)
            self._change(parent, key)
        return replace(request, body=body)

    def _change(self, parent: Any, key: Any) -> None:
        random = self.random
        try:
            old = parent[key]
        except (KeyError, IndexError):
            return
        if isinstance(old, dict | list) and len(str(old)) > 2000:
            pass
        elif len(self._pool) < 500:
            self._pool.append(old)
        elif random.random() < 0.05:
            self._pool[random.randrange(len(self._pool))] = old
        match random.randrange(8):
            case 0:
                del parent[key]
            case 1:
                parent[key] = [old]
            case 2 if isinstance(old, list):
                parent[key] = old * random.choice((2, 40))
            case 2 | 3 if isinstance(old, str):
                parent[key] = old + random.choice(ODD_TEXTS)
            case 4 if isinstance(parent, dict):
                parent[random.choice(ODD_TEXTS)[:300]] = old
            case _:
                parent[key] = self.value()

    def _bytes(self, request: FuzzRequest) -> FuzzRequest:
        random, content = self.random, request.content
        match random.randrange(4):
            case 0:
                return replace(request, body=random.choice(ODD_BYTES))
            case 1:
                return replace(request, body=content[: random.randrange(len(content) + 1)])
            case 2 if content:
                at = random.randrange(len(content))
                return replace(request, body=content[:at] + bytes((random.randrange(256),)) + content[at + 1 :])
        return replace(request, body=content + random.choice(ODD_BYTES))

    def _path(self, request: FuzzRequest) -> FuzzRequest:
        random, path = self.random, list(request.path)
        at = random.randrange(len(path))
        match random.randrange(6):
            case 0:
                del path[at]
            case 1:
                path.insert(at, random.choice(ODD_TEXTS)[:1000])
            case 2:
                path.append(random.choice(("status", "scale", "log", "exec", "binding", "token", "finalize", "proxy")))
            case _:
                path[at] = random.choice(ODD_TEXTS)[:1000]
        return replace(request, path=tuple(path) or ("",))

    def _query(self, request: FuzzRequest) -> FuzzRequest:
        random = self.random
        name = random.choice(self.queries) if self.queries else "q"
        return replace(request, query=(*request.query, (name, random.choice(ODD_TEXTS))))

    def _header(self, request: FuzzRequest) -> FuzzRequest:
        return replace(request, headers=(*request.headers, self.random.choice(ODD_HEADERS)))

    def _method(self, request: FuzzRequest) -> FuzzRequest:
        return replace(request, method=self.random.choice(self.methods))


def value_of_schema(schema: dict[str, Any], random: Random, depth: int = 0) -> Any:
    """Returns a value that mostly fits the schema: all required fields, and some of the others."""
    if schema.get("x-kubernetes-int-or-string"):
        return random.choice((1, "1", "50%", "1Gi"))
    if schema.get("enum"):
        return random.choice(schema["enum"])
    match schema.get("type"):
        case "object":
            return _object_of(schema, random, depth)
        case "array":
            return [value_of_schema(schema.get("items") or {}, random, depth + 1) for _ in range(random.randrange(3))]
        case "integer":
            return random.choice((0, 1, 2, 3, 8080))
        case "number":
            return random.choice((0, 0.5, 1))
        case "boolean":
            return random.random() < 0.5
        case "string":
            if schema.get("format") == "date-time":
                return "2026-01-01T00:00:00Z"
            return random.choice(("a", "main", "x", "default", "busybox", "/tmp/x", "YQ==", "{{workflow.name}}", "1"))
    if "properties" in schema:
        return _object_of(schema, random, depth)
    return random.choice(("x", 1, {}, [], True))


def _object_of(schema: dict[str, Any], random: Random, depth: int) -> dict[str, Any]:
    fields = schema.get("properties") or {}
    wanted = set(schema.get("required") or ())
    if fields and depth < 8:
        wanted |= set(random.sample(sorted(fields), min(len(fields), random.randrange(4))))
    made = {name: value_of_schema(fields.get(name) or {}, random, depth + 1) for name in sorted(wanted)}
    rest = schema.get("additionalProperties")
    if isinstance(rest, dict):
        for name in random.sample(("a", "main", "cpu", "x.y/z"), random.randrange(3)):
            made[name] = value_of_schema(rest, random, depth + 1)
    return made


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    stack = [value]
    while stack:
        parent = stack.pop()
        keys = list(parent) if isinstance(parent, dict) else range(len(parent)) if isinstance(parent, list) else ()
        for key in keys:
            found.append((parent, key))
            stack.append(parent[key])
    return found


def _nested(depth: int, lists: bool) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value] if lists else {"a": value}
    return value
