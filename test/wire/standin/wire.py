# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 and HTTP/2 (RFC 9113) on asyncio streams, as much of them as a server needs.

An Exchange is one request and the way to answer it; its subclasses know the framing. HPACK comes
from libnghttp2, which libcurl brings along wherever the client under test can run at all.
"""
import asyncio
import ctypes
import email.utils
import json
import struct
import time
import urllib.parse

REASONS = {200: "OK", 201: "Created", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden",
           404: "Not Found", 405: "Method Not Allowed", 409: "Conflict", 410: "Gone",
           422: "Unprocessable Entity", 429: "Too Many Requests", 500: "Internal Server Error",
           503: "Service Unavailable", 504: "Gateway Timeout"}


class Cut(Exception):
    """The connection is to break now, without a goodbye."""


class Exchange:
    protocol = ""

    def __init__(self, method, target, headers, body, connection):
        self.method, self.target, self.headers, self.body = method, target, headers, body
        self.connection = connection
        parts = urllib.parse.urlsplit(target)
        self.path = parts.path
        self.query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
        self.status = 0
        self.sent = 0
        self.faults = {}

    async def head(self, status, headers):
        raise NotImplementedError

    def dated(self, headers):
        """With the time that this server believes it is (RFC 9110, 6.6.1)."""
        date = email.utils.formatdate(time.time() + self.connection.server.clock_s, usegmt=True)
        return {**dict(headers), "Date": date}

    async def raw_data(self, data):
        raise NotImplementedError

    async def end(self):
        raise NotImplementedError

    async def data(self, data):
        """Body bytes, as far as the faults of this exchange let them through."""
        left = {k: self.faults[k] - self.sent for k in ("cut_after", "end_after", "stall_after") if k in self.faults}
        if left and min(left.values()) <= len(data):
            what = min(left, key=left.get)
            await self.pieces(data[:max(0, left[what])])
            if what == "stall_after":
                await asyncio.Event().wait()
            if what == "end_after":
                await self.end()
                raise EndEarly()
            raise Cut()
        await self.pieces(data)

    async def pieces(self, data):
        size = self.faults.get("pieces", len(data) or 1)
        for at in range(0, len(data), size):
            await self.raw_data(data[at:at + size])
        self.sent += len(data)

    async def answer(self, status, body, headers=()):
        if not isinstance(body, (bytes, str)):
            body = json.dumps(body, separators=(",", ":"), ensure_ascii=False) + "\n"
        if isinstance(body, str):
            body = body.encode()
        headers = dict(headers)
        headers.setdefault("Content-Type", "application/json")
        if "chunked" not in self.faults:
            headers["Content-Length"] = str(len(body))
        await asyncio.sleep(self.faults.get("late", 0))
        await self.head(status, headers)
        await self.data(body)
        await self.end()


class EndEarly(Exception):
    """The answer has been ended, cleanly as far as HTTP goes."""


# ---- HTTP/1.1


class Exchange1(Exchange):
    protocol = "1.1"
    chunked = False

    async def write(self, data):
        self.connection.writer.write(data)
        await self.connection.writer.drain()

    async def head(self, status, headers):
        self.status = status
        headers = self.dated(headers)
        self.chunked = not any(k.lower() == "content-length" for k in headers)
        if self.chunked:
            headers["Transfer-Encoding"] = "chunked"
        lines = ["HTTP/1.1 %d %s" % (status, REASONS.get(status, "?"))] + ["%s: %s" % h for h in headers.items()]
        await self.write("\r\n".join(lines + ["", ""]).encode())

    async def raw_data(self, data):
        if data:
            await self.write(b"%x\r\n%s\r\n" % (len(data), data) if self.chunked else data)

    async def end(self):
        if self.chunked:
            await self.write(b"0\r\n\r\n")


class Connection:
    count = 0

    def __init__(self, server, reader, writer):
        Connection.count += 1
        self.id = Connection.count
        self.server, self.reader, self.writer = server, reader, writer
        self.peer = writer.get_extra_info("peercert") or {}

    def cut(self):
        self.writer.transport.abort()


class Connection1(Connection):
    async def read_request(self):
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ", 2)
        headers = {k.strip().lower(): v.strip() for k, _, v in (h.partition(":") for h in head[1:] if h)}
        body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        return Exchange1(method, target, headers, body, self)

    async def serve(self):
        while True:
            exchange = await self.read_request()
            gone = asyncio.ensure_future(self.reader.read(1))  # a client that leaves ends its watch
            work = asyncio.ensure_future(self.server.handle(exchange))
            try:
                await asyncio.wait({gone, work}, return_when=asyncio.FIRST_COMPLETED)
                if not work.done():
                    return
                gone.cancel()
                await asyncio.gather(gone, return_exceptions=True)
                work.result()
            finally:
                work.cancel()
            if exchange.headers.get("connection", "").lower() == "close":
                return


# ---- HTTP/2

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, PADDED, PRIORITY = 1, 4, 8, 0x20


class Nv(ctypes.Structure):
    _fields_ = [("name", ctypes.POINTER(ctypes.c_ubyte)), ("value", ctypes.POINTER(ctypes.c_ubyte)),
                ("namelen", ctypes.c_size_t), ("valuelen", ctypes.c_size_t), ("flags", ctypes.c_uint8)]


class Hpack:
    def __init__(self):
        self.lib = ctypes.CDLL("libnghttp2.so.14")
        self.lib.nghttp2_hd_inflate_hd2.restype = ctypes.c_ssize_t
        self.lib.nghttp2_hd_inflate_hd2.argtypes = [ctypes.c_void_p, ctypes.POINTER(Nv), ctypes.POINTER(ctypes.c_int),
                                                    ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]
        self.state = ctypes.c_void_p()
        if self.lib.nghttp2_hd_inflate_new(ctypes.byref(self.state)) != 0:
            raise MemoryError("nghttp2_hd_inflate_new")

    def decode(self, block):
        headers = {}
        while True:
            nv, flags = Nv(), ctypes.c_int()
            used = self.lib.nghttp2_hd_inflate_hd2(self.state, ctypes.byref(nv), ctypes.byref(flags), block, len(block), 1)
            if used < 0:
                raise ValueError("HPACK: error %d" % used)
            block = block[used:]
            if flags.value & 2:  # a header
                headers[ctypes.string_at(nv.name, nv.namelen).decode()] = ctypes.string_at(nv.value, nv.valuelen).decode()
            if flags.value & 1:  # the last one
                self.lib.nghttp2_hd_inflate_end_headers(self.state)
                return headers

    @staticmethod
    def number(value, bits):
        if value < (1 << bits) - 1:
            return bytes([value])
        out, value = [(1 << bits) - 1], value - ((1 << bits) - 1)
        while value >= 128:
            out.append(value % 128 + 128)
            value //= 128
        return bytes(out + [value])

    @classmethod
    def encode(cls, headers):
        """Literals without indexing: longer, and never wrong."""
        def text(s):
            s = s.encode()
            return cls.number(len(s), 7) + s
        return b"".join(b"\0" + text(k.lower()) + text(v) for k, v in headers)

    def __del__(self):
        self.lib.nghttp2_hd_inflate_del(self.state)


class Exchange2(Exchange):
    protocol = "2"

    def __init__(self, *args, stream):
        super().__init__(*args)
        self.stream = stream
        self.window = self.connection.initial_window

    async def head(self, status, headers):
        self.status = status
        block = Hpack.encode([(":status", str(status))] + list(self.dated(headers).items()))
        await self.connection.frame(HEADERS, END_HEADERS, self.stream, block)

    async def raw_data(self, data):
        while data:
            connection = self.connection
            async with connection.room:
                await connection.room.wait_for(lambda: min(self.window, connection.window) > 0)
                size = min(len(data), self.window, connection.window, 16384)
                self.window -= size
                connection.window -= size
            await connection.frame(DATA, 0, self.stream, data[:size])
            data = data[size:]

    async def end(self):
        await self.connection.frame(DATA, END_STREAM, self.stream, b"")


class Connection2(Connection):
    def __init__(self, *args):
        super().__init__(*args)
        self.hpack = Hpack()
        self.window = self.initial_window = 65535
        self.room = asyncio.Condition()
        self.streams = {}  # id -> [exchange, task]

    async def frame(self, kind, flags, stream, payload):
        self.writer.write(struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload)
        await self.writer.drain()

    async def read_frame(self):
        head = await self.reader.readexactly(9)
        size = int.from_bytes(head[:3], "big")
        return head[3], head[4], int.from_bytes(head[5:], "big") & 0x7fffffff, await self.reader.readexactly(size)

    async def run(self, exchange):
        try:
            await self.server.handle(exchange)
        except Cut:
            self.cut()
        finally:
            self.streams.pop(exchange.stream, None)

    def begin(self, exchange):
        self.streams[exchange.stream][1] = asyncio.ensure_future(self.run(exchange))

    async def on_headers(self, flags, stream, payload):
        if flags & PADDED:
            payload = payload[1:len(payload) - payload[0]]
        if flags & PRIORITY:
            payload = payload[5:]
        if not flags & END_HEADERS:
            raise ValueError("HTTP/2: a request with CONTINUATION frames")
        headers = self.hpack.decode(payload)
        exchange = Exchange2(headers[":method"], headers[":path"], headers, b"", self, stream=stream)
        self.streams[stream] = [exchange, None]
        if flags & END_STREAM:
            self.begin(exchange)

    async def on_data(self, flags, stream, payload):
        if payload:
            await self.frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", len(payload)))
        if stream not in self.streams:
            return
        exchange = self.streams[stream][0]
        exchange.body += payload[1:len(payload) - payload[0]] if flags & PADDED else payload
        if flags & END_STREAM:
            self.begin(exchange)

    async def on_settings(self, flags, payload):
        if flags & 1:
            return
        for at in range(0, len(payload), 6):
            key, value = struct.unpack(">HI", payload[at:at + 6])
            if key == 4:
                for exchange, _ in self.streams.values():
                    exchange.window += value - self.initial_window
                self.initial_window = value
        await self.frame(SETTINGS, 1, 0, b"")

    async def on_window(self, stream, payload):
        more = struct.unpack(">I", payload)[0]
        async with self.room:
            if stream == 0:
                self.window += more
            elif stream in self.streams:
                self.streams[stream][0].window += more
            self.room.notify_all()

    async def serve(self):
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        if await self.reader.readexactly(len(preface)) != preface:
            raise ValueError("no HTTP/2 preface")
        await self.frame(SETTINGS, 0, 0, struct.pack(">HI", 3, 250))
        try:
            while True:
                kind, flags, stream, payload = await self.read_frame()
                if kind == HEADERS:
                    await self.on_headers(flags, stream, payload)
                elif kind == DATA:
                    await self.on_data(flags, stream, payload)
                elif kind == SETTINGS:
                    await self.on_settings(flags, payload)
                elif kind == WINDOW_UPDATE:
                    await self.on_window(stream, payload)
                elif kind == PING and not flags & 1:
                    await self.frame(PING, 1, 0, payload)
                elif kind == RST_STREAM and stream in self.streams:
                    if self.streams[stream][1]:
                        self.streams[stream][1].cancel()
                    self.streams.pop(stream, None)
                elif kind == GOAWAY:
                    return
        finally:
            for _, task in list(self.streams.values()):
                if task:
                    task.cancel()
