# SPDX-License-Identifier: Apache-2.0
"""Requests to answers: the rules of the API, authentication, and the faults a test asks for."""
import asyncio
import base64
import copy
import gzip
import json
import os
import random
import re
import time

from . import dump, merge, openapi, recordings, schema
from .selector import matcher
from .store import RESOURCES, Status
from .versions import OLDER, as_asked
from .wire import Cut, EndEarly

GZIP_FROM = 128 * 1024  # bytes; as the real server has it
COLLECTION = re.compile(r"^/(?:api/v1|apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
                        r"(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[a-z]+)"
                        r"(?:/(?P<name>[^/]+)(?:/(?P<part>[a-z]+))?)?$")


class Watch:
    """One watch: the events of one resource that its client may see."""

    def __init__(self, api, exchange, resource, namespace):
        self.api, self.exchange, self.resource = api, exchange, resource
        query = exchange.query
        selects = matcher(query)
        self.matches = lambda o: o is not None and selects(o) and \
            (not namespace or o["metadata"].get("namespace") == namespace)
        self.namespace = namespace
        self.bookmarks = query.get("allowWatchBookmarks") in ("true", "1")
        self.initial = query.get("sendInitialEvents") in ("true", "1")
        self.version = query.get("resourceVersion", "")
        self.end = time.monotonic() + float(query.get("timeoutSeconds") or 1800)
        if self.initial:
            self.check_initial()

    def check_initial(self):
        if not self.api.streaming:
            raise Status(422, "Invalid", 'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: '
                         "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")
        if self.exchange.query.get("resourceVersionMatch") != "NotOlderThan":
            raise Status(422, "Invalid", 'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '
                         "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")

    async def send(self, kind, obj):
        obj = obj if kind == "ERROR" else as_asked(self.exchange.path, obj)
        line = json.dumps({"type": kind, "object": obj}, separators=(",", ":"), ensure_ascii=False) + "\n"
        await self.exchange.data(line.encode())

    async def bookmark(self, **annotations):
        meta = {"resourceVersion": str(self.api.store.version)}
        if annotations:
            meta["annotations"] = annotations["annotations"]
        await self.send("BOOKMARK", {"kind": self.resource.kind, "apiVersion": self.resource.api_version,
                                     "metadata": meta, "spec": {}, "status": {}})

    async def error(self, code, reason, message):
        await self.send("ERROR", {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                                  "message": message, "reason": reason, "code": code})

    async def begin(self):
        """Send the events before the live ones. Return the version that those begin after; None: no more follow."""
        if self.initial or self.version in ("", "0"):
            at = self.api.store.version
            for obj in self.api.store.select(self.resource, self.namespace, self.matches):
                await self.send("ADDED", obj)
            if self.initial and self.api.marker:
                await self.bookmark(annotations={"k8s.io/initial-events-end": "true"})
            return at
        if not self.version.isdigit():
            raise Status(500, "", 'resourceVersion: Invalid value: "%s": strconv.ParseUint: invalid syntax' % self.version)
        if int(self.version) < self.resource.compacted:
            await self.error(410, "Expired", "too old resource version: %s (%d)" % (self.version, self.resource.compacted))
            return None
        return int(self.version)

    async def event(self, before, after):
        had, has = self.matches(before), self.matches(after)
        if has:
            await self.send("MODIFIED" if had else "ADDED", after)
        elif had:
            last = before if after is None else dict(before, metadata=dict(
                before["metadata"], resourceVersion=after["metadata"]["resourceVersion"]))
            await self.send("DELETED", last)

    async def follow(self, at):
        sent, next_bookmark = at, time.monotonic() + self.api.bookmark_s
        while True:
            while late := [e for e in self.resource.events if e[0] > sent]:
                await asyncio.sleep(random.uniform(0, DELAY_S))
                for version, before, after in late:
                    await self.event(before, after)
                    sent = version
            now = time.monotonic()
            if now >= min(next_bookmark, self.end):
                if self.bookmarks:
                    await self.bookmark()  # nothing has come since: no other task ran
                if now >= self.end:
                    return
                next_bookmark = now + self.api.bookmark_s
            await self.wait(sent, min(next_bookmark, self.end) - time.monotonic())

    async def wait(self, sent, seconds):
        async with self.resource.changed:
            if any(e[0] > sent for e in self.resource.events[-1:]):
                return
            try:
                await asyncio.wait_for(self.resource.changed.wait(), max(seconds, 0.001))
            except asyncio.TimeoutError:
                pass

    async def run(self):
        if self.version.isdigit() or not self.version:
            await self.exchange.head(200, {"Content-Type": "application/json"})
        at = await self.begin()
        if at is not None:
            await self.follow(at)
        await self.exchange.end()


# Answers and events for the agent come after a random time up to this. So a race of a test shows.
DELAY_S = float(os.environ.get("MK_STANDIN_DELAY_MS", "0")) / 1000


class Api:
    def __init__(self, store, tokens, bookmark_s=60, streaming=True):
        self.store, self.tokens, self.bookmark_s, self.streaming = store, set(tokens), bookmark_s, streaming
        self.marker = True  # a streaming list ends with its bookmark
        self.missing = set()  # API groups and resources this server does not have
        self.versions = {}  # of API groups, other than that of RESOURCES
        self.faults = []  # {"match": {...}, "times": N, ...}
        self.log = []
        self.connections = set()
        self.applies = True  # it has server-side apply
        self.clock_s = 0  # by how much its clock is ahead

    # ---- one request

    async def handle(self, exchange):
        entry = {"method": exchange.method, "target": exchange.target, "path": exchange.path, "query": exchange.query,
                 "protocol": exchange.protocol, "connection": exchange.connection.id, "time": time.time(),
                 "encoding": exchange.headers.get("accept-encoding", ""), "status": 0,
                 "agent": exchange.headers.get("user-agent", ""),
                 "body": exchange.body.decode("utf-8", "replace") if exchange.method != "GET" else ""}
        if not exchange.path.startswith("/standin/"):
            self.log.append(entry)
        try:
            await self.dispatch(exchange, entry)
        except Status as status:
            await exchange.answer(status.code, status.body, status.more.get("headers", {}))
        except EndEarly:
            pass
        finally:
            entry["status"] = exchange.status

    def user(self, exchange):
        auth = exchange.headers.get("authorization", "")
        if auth.startswith("Bearer "):
            if auth[len("Bearer "):] in self.tokens:
                return "token"
            raise Status(401, "Unauthorized", "Unauthorized")
        for rdn in exchange.connection.peer.get("subject", ()):
            for key, value in rdn:
                if key == "commonName":
                    return value
        return None

    async def dispatch(self, exchange, entry):
        if exchange.path.startswith("/standin/"):
            await self.admin(exchange)
            return
        if entry["agent"].startswith("monokube"):
            await asyncio.sleep(random.uniform(0, DELAY_S))
        fault = self.take_fault(exchange)
        if fault:
            entry["recording"] = fault.get("recording")
        if fault and await self.fail(exchange, fault):
            return
        entry["user"] = self.user(exchange)
        if exchange.path in ("/readyz", "/livez", "/healthz"):
            await exchange.answer(200, "ok", {"Content-Type": "text/plain; charset=utf-8"})
        elif entry["user"] is None:
            raise Status(403, "Forbidden", 'User "system:anonymous" cannot %s path "%s"' % (exchange.method.lower(), exchange.path))
        else:
            await self.serve(exchange)

    async def serve(self, exchange):
        document = openapi.document(exchange.path, self.missing)
        if document is not None and exchange.method == "GET":
            await exchange.answer(200, document)
            return
        m = COLLECTION.match(exchange.path)
        if m and ((m["group"] or "") in self.missing or not self.has_version(m["group"] or "", m["version"])):
            m = None
        resource = m and m["plural"] not in self.missing and self.store.resource(m["group"] or "", m["plural"])
        if not m or (m["group"] and not any(r[0] == m["group"] for r in RESOURCES)):
            await exchange.answer(404, "404 page not found\n", {"Content-Type": "text/plain; charset=utf-8"})
        elif not resource:
            raise Status(404, "NotFound", "the server could not find the requested resource", details={})
        elif exchange.method == "GET" and not m["name"]:
            await self.read_many(exchange, resource, m["namespace"] or "")
        else:
            await self.one(exchange, resource, m["namespace"] or "", m["name"], m["part"])

    def has_version(self, group, version):
        of_table = [r[1] for r in RESOURCES if r[0] == group]
        if f"/apis/{group}/{version}/" == OLDER:
            return True
        return self.versions[group] == version if group in self.versions else not group or not of_table or version in of_table

    async def read_many(self, exchange, resource, namespace):
        if exchange.query.get("watch") in ("1", "true"):
            await Watch(self, exchange, resource, namespace).run()
        else:
            await self.list(exchange, resource, namespace)

    # ---- lists

    def list_start(self, query):
        if not query.get("continue"):
            return self.store.version, ""
        try:
            token = json.loads(base64.urlsafe_b64decode(query["continue"] + "=="))
            version, start = token["rv"], token["start"]
        except (ValueError, KeyError):
            raise Status(400, "BadRequest", "continue key is not valid") from None
        if version == -1:
            return self.store.version, start
        if version not in self.store.snapshots:
            again = base64.urlsafe_b64encode(json.dumps({"rv": -1, "start": start}).encode()).decode().rstrip("=")
            raise Status(410, "Expired", "The provided continue parameter is too old to display a consistent list result. "
                         "You can start a new list without the continue parameter, or use the continue token in this "
                         "response to retrieve the remainder of the results.", metadata={"continue": again})
        return version, start

    async def list(self, exchange, resource, namespace):
        query = exchange.query
        version, start = self.list_start(query)
        objects = self.store.snapshots.get(version, {}).get(resource.title)
        if objects is None:
            objects = dict(resource.objects)
        matches = matcher(query)
        keys = [k for k in sorted(objects) if "/".join(k) > start and (not namespace or k[0] == namespace) and matches(objects[k])]
        limit = int(query.get("limit") or 0)
        meta = {"resourceVersion": str(version)}
        if limit and len(keys) > limit:
            self.store.snapshots.setdefault(version, {})[resource.title] = objects
            token = json.dumps({"rv": version, "start": "/".join(keys[limit - 1])}).encode()
            meta["continue"] = base64.urlsafe_b64encode(token).decode().rstrip("=")
            if "labelSelector" not in query:
                meta["remainingItemCount"] = len(keys) - limit
            keys = keys[:limit]
        items = [as_asked(exchange.path, {k: v for k, v in objects[key].items() if k not in ("kind", "apiVersion")})
                 for key in keys]
        found = {"kind": resource.kind + "List", "apiVersion": resource.api_version, "metadata": meta, "items": items}
        body = json.dumps(as_asked(exchange.path, found), separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
        headers = {}
        if "gzip" in exchange.headers.get("accept-encoding", "") and len(body) >= GZIP_FROM:
            body, headers = gzip.compress(body, 4), {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        await exchange.answer(200, body, headers)

    # ---- one object

    def body(self, exchange):
        try:
            found = json.loads(exchange.body)
        except ValueError as e:
            raise Status(400, "BadRequest", "the object provided is unrecognized: %s" % e) from None
        known = next((of for plural, of in schema.of_plurals().items() if "/" + plural in exchange.path), None)  # a patch has no kind
        if exchange.query.get("fieldValidation") == "Strict" and known:
            if fields := schema.unknown(found, known):
                raise Status(400, "BadRequest", "strict decoding error: " + ", ".join('unknown field "%s"' % x[1:] for x in fields))
        return found

    async def one(self, exchange, resource, namespace, name, part):
        store, method = self.store, exchange.method
        if part not in (None, "status"):
            raise Status(404, "NotFound", "the server could not find the requested resource")
        if method == "GET":
            await exchange.answer(200, as_asked(exchange.path, store.get(resource, namespace, name)))
        elif method == "POST" and not name:
            await exchange.answer(201, await store.create(resource, namespace, self.body(exchange)))
        elif method == "PUT" and name:
            await exchange.answer(200, await store.replace(resource, namespace, name, self.body(exchange), part=part))
        elif method == "PATCH" and name:
            await self.patch(exchange, resource, namespace, name, part)
        elif method == "DELETE" and name:
            options = json.loads(exchange.body or b"{}")
            gone = await store.delete(resource, namespace, name, options.get("preconditions", {}).get("uid"))
            await exchange.answer(200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                                        "details": {"name": name, "kind": resource.plural, "uid": gone["metadata"]["uid"]}})
        else:
            raise Status(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")

    async def patch(self, exchange, resource, namespace, name, part):
        kind = exchange.headers.get("content-type", "").partition(";")[0]
        if kind not in merge.BY_TYPE or (kind == "application/apply-patch+yaml" and not self.applies):
            raise Status(415, "UnsupportedMediaType", "the body of the request was in an unknown format: " + kind)
        patch = self.body(exchange)
        expected = (patch.get("metadata") or {}).get("resourceVersion")
        applies = kind == "application/apply-patch+yaml"
        if applies and rb"\/" in exchange.body:  # Kubernetes 1.20 reads it as YAML 1.1
            raise Status(400, "BadRequest", "error decoding YAML: error converting YAML to JSON: yaml: found unknown escape character")
        if applies:
            key = (resource.title, namespace, name, part, exchange.query.get("fieldManager"))
            former, self.store.applied[key] = self.store.applied.get(key), patch
        if applies and (namespace, name) not in resource.objects and not part:
            created = merge.own(copy.deepcopy(patch), exchange.query.get("fieldManager"), patch)
            await exchange.answer(201, await self.store.create(resource, namespace, created))
            return
        before = self.store.get(resource, namespace, name)
        after = copy.deepcopy(before)
        if applies and former:
            after = merge.without(after, former, patch)
        after = merge.BY_TYPE[kind](after, patch)
        if applies and not part:
            merge.own(after, exchange.query.get("fieldManager"), patch)
        await exchange.answer(200, await self.store.replace(resource, namespace, name, after, expected, part))

    # ---- faults

    def take_fault(self, exchange):
        query = exchange.query
        mode = "watch" if query.get("watch") in ("1", "true") else "list"
        mode = "stream" if query.get("sendInitialEvents") else mode
        for fault in self.faults:
            match = fault.get("match", {})
            if fault.get("times", 1) > 0 and re.search(match.get("target", ""), exchange.target) and \
                    match.get("mode", mode) == mode and match.get("method", exchange.method) == exchange.method:
                fault["times"] = fault.get("times", 1) - 1
                return fault
        return None

    async def fail(self, exchange, fault):
        """True: that was the answer. Otherwise the answer is the usual one, with the fault in it."""
        exchange.faults = fault
        if "delay" in fault:
            await asyncio.sleep(fault["delay"])
        if "recording" in fault:
            await recordings.replay(exchange, fault["recording"])
        elif "status" in fault:
            await exchange.answer(fault["status"], fault.get("body", ""), fault.get("headers", {}))
        elif "file" in fault:
            await self.send_file(exchange, fault)
        elif "event" in fault:
            await exchange.head(200, {"Content-Type": "application/json"})
            await exchange.data(json.dumps({"type": "ERROR", "object": fault["event"]}).encode() + b"\n")
            await exchange.end()
        elif fault.get("cut"):
            raise Cut()
        else:
            return False
        return True

    async def send_file(self, exchange, fault):
        """A watch whose events are in a file; after them those that come through a FIFO, if there is one."""
        await exchange.head(200, {"Content-Type": "application/json"})
        with open(fault["file"], "rb") as f:
            while piece := f.read(1 << 18):
                await exchange.data(piece)
        if "then" in fault:
            lines = asyncio.StreamReader(limit=1 << 22)
            fifo = open(os.open(fault["then"], os.O_RDWR | os.O_NONBLOCK), "rb", 0)  # read-write: no end of file
            await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), fifo)
            while line := await lines.readline():
                await exchange.data(line)
        await asyncio.Event().wait()

    # ---- control, by the tests

    async def admin(self, exchange):
        what, body = exchange.path[len("/standin/"):], json.loads(exchange.body or b"null")
        answer = {}
        if what == "faults":
            self.faults = body
        elif what == "log":
            answer = self.log
            if exchange.method == "DELETE":
                self.log = []
        elif what == "dump":
            answer = dump.lines(self.store, self.missing)
        elif what == "objects":
            await self.store.become(body)
        elif what == "compact":
            self.store.compact()
        elif what == "cut":
            for connection in list(self.connections):
                if connection is not exchange.connection:
                    connection.cut()
        elif what == "settings":
            self.tokens = set(body.get("tokens", self.tokens))
            self.streaming = body.get("streaming", self.streaming)
            self.marker = body.get("marker", self.marker)
            self.missing = set(body.get("missing", self.missing))
            self.versions = body.get("versions", self.versions)
            self.bookmark_s = body.get("bookmark_s", self.bookmark_s)
            self.applies = body.get("applies", self.applies)
            self.clock_s = body.get("clock_s", self.clock_s)
        else:
            raise Status(404, "NotFound", "no such control: " + what)
        await exchange.answer(200, answer)
