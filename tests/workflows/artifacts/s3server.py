"""A small S3 server that verifies signatures (AWS Signature Version 4), written from the published algorithm."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote, unquote
from xml.sax.saxutils import escape

from aiohttp import web

from tests.http_server import serve_http

ACCESS_KEY, SECRET_KEY, REGION = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "eu-test-1"


class S3:
    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        """`bucket/key` -> content."""
        self.buckets = {"bucket"}
        self.refused: list[str] = []
        self.port = 0
        self.is_down = False
        self._parts: dict[str, dict[int, bytes]] = {}

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[S3]:
        async with serve_http(self._handle) as self.port:
            yield self

    async def _handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        if self.is_down:
            return web.Response(status=503)
        problem = _problem(request, body)
        if problem:
            self.refused.append(problem)
            text = f"<Error><Code>{problem}</Code><AWSAccessKeyId>{ACCESS_KEY}</AWSAccessKeyId></Error>"
            return web.Response(status=403, text=text)
        bucket, _, key = request.match_info["path"].partition("/")
        key = unquote(key)
        if request.method == "PUT" and not key:
            return self._create(bucket, body.decode())
        if bucket not in self.buckets:
            return web.Response(status=404, text="<Error><Code>NoSuchBucket</Code></Error>")
        if request.method == "GET" and not key:
            return self._list(bucket, request.query.get("prefix", ""))
        return self._object(request, f"{bucket}/{key}", body)

    def _create(self, bucket: str, body: str) -> web.Response:
        if bucket in self.buckets:
            return web.Response(status=409, text="<Error><Code>BucketAlreadyOwnedByYou</Code></Error>")
        if bucket == "taken":
            return web.Response(status=403, text="<Error><Code>AccessDenied</Code></Error>")
        if f"<LocationConstraint>{REGION}</LocationConstraint>" not in body:
            return web.Response(status=400, text="<Error><Code>IllegalLocationConstraintException</Code></Error>")
        self.buckets.add(bucket)
        return web.Response()

    def _object(self, request: web.Request, name: str, body: bytes) -> web.Response:
        if request.method == "POST" and "uploads" in request.query:
            self._parts[name] = {}
            return _xml("<InitiateMultipartUploadResult><UploadId>u1</UploadId></InitiateMultipartUploadResult>")
        if request.method == "PUT" and "partNumber" in request.query:
            self._parts[name][int(request.query["partNumber"])] = body
            return web.Response(headers={"ETag": '"p"'})
        if request.method == "POST" and "uploadId" in request.query:
            parts = self._parts.pop(name)
            self.objects[name] = b"".join(parts[number] for number in sorted(parts))
            return _xml("<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>")
        if request.method == "POST" and "delete" in request.query:
            return self._delete_many(name.partition("/")[0], body.decode())
        if request.method == "PUT":
            self.objects[name] = body
            return web.Response(headers={"ETag": '"e"'})
        if name not in self.objects:
            return web.Response(status=404, text="<Error><Code>NoSuchKey</Code></Error>")
        if request.method == "DELETE":
            del self.objects[name]
            return web.Response(status=204)
        headers = {"ETag": '"e"', "Last-Modified": "Mon, 16 Nov 2026 00:00:00 GMT"}
        return web.Response(body=self.objects[name], headers=headers)

    def _delete_many(self, bucket: str, body: str) -> web.Response:
        done = []
        for piece in body.split("<Key>")[1:]:
            key = piece.partition("</Key>")[0]
            self.objects.pop(f"{bucket}/{key}", None)
            done.append(f"<Deleted><Key>{escape(key)}</Key></Deleted>")
        return _xml(f"<DeleteResult>{''.join(done)}</DeleteResult>")

    def _list(self, bucket: str, prefix: str) -> web.Response:
        found = []
        for name, content in sorted(self.objects.items()):
            key = name.removeprefix(f"{bucket}/")
            if key.startswith(prefix):
                found.append(
                    f"<Contents><Key>{escape(key)}</Key><Size>{len(content)}</Size><ETag>e</ETag>"
                    "<LastModified>2026-11-16T00:00:00.000Z</LastModified></Contents>"
                )
        return _xml(f"<ListBucketResult><IsTruncated>false</IsTruncated>{''.join(found)}</ListBucketResult>")


def _xml(text: str) -> web.Response:
    return web.Response(text=f'<?xml version="1.0"?>{text}', content_type="application/xml")


def _problem(request: web.Request, body: bytes) -> str:
    """Returns '' if the request is signed correctly with our keys, in a header or in its address."""
    method, _, fields = request.headers.get("Authorization", "").partition(" ")
    names = ("Credential", "SignedHeaders", "Signature")
    given = {name: request.query.get(f"X-Amz-{name}", "") for name in names}
    is_presigned = request.query.get("X-Amz-Algorithm") == "AWS4-HMAC-SHA256"
    if method == "AWS4-HMAC-SHA256":
        given = dict(part.strip().split("=", 1) for part in fields.split(","))
    elif not is_presigned:
        return "AccessDenied"
    access_key, day, region, service, _ = given["Credential"].split("/")
    if access_key != ACCESS_KEY or region != REGION or service != "s3":
        return "InvalidAccessKeyId"
    payload = "UNSIGNED-PAYLOAD" if is_presigned else request.headers["x-amz-content-sha256"]
    date = request.query["X-Amz-Date"] if is_presigned else request.headers["x-amz-date"]
    if payload not in ("UNSIGNED-PAYLOAD", hashlib.sha256(body).hexdigest()):
        return "XAmzContentSHA256Mismatch"
    signed = given["SignedHeaders"]
    path, _, query = request.raw_path.partition("?")
    pairs = sorted(
        tuple([*part.split("=", 1), ""][:2])
        for part in query.split("&")
        if part and not part.startswith("X-Amz-Signature=")
    )
    canonical = "\n".join(
        [
            request.method,
            path,
            "&".join(f"{_again(name)}={_again(value)}" for name, value in pairs),
            *(f"{name}:{' '.join(request.headers[name].split())}" for name in signed.split(";")),
            "",
            signed,
            payload,
        ]
    )
    scope = f"{day}/{region}/s3/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    to_sign = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{digest}"
    key = f"AWS4{SECRET_KEY}".encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    right = hmac.new(key, to_sign.encode(), "sha256").hexdigest()
    return "" if hmac.compare_digest(right, given["Signature"]) else "SignatureDoesNotMatch"


def _again(text: str) -> str:
    return quote(unquote(text), safe="-_.~")
