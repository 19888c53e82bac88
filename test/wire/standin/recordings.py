# SPDX-License-Identifier: Apache-2.0
"""Recorded exchanges of a real API server (wire/recordings.tar.xz): their answers."""
import gzip
import json
import os
import tarfile

ARCHIVE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "recordings.tar.xz")


def parse(name):
    """(status, headers, body as sent without its chunks' framing, that framing)"""
    with tarfile.open(ARCHIVE) as archive:
        head, _, rest = archive.extractfile(f"recordings/{name}.http").read().partition(b"\r\n\r\n")
    length = [h for h in head.split(b"\r\n") if h.lower().startswith(b"content-length:")]
    if length:
        rest = rest[int(length[0].partition(b":")[2]):]
    head, _, raw = rest.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:])
    body = raw
    if headers.get("Transfer-Encoding") == "chunked":
        body, at = b"", 0
        while at < len(raw):
            size, _, _ = raw[at:].partition(b"\r\n")
            at += len(size) + 2
            if int(size, 16) == 0:
                break
            body += raw[at:at + int(size, 16)]
            at += int(size, 16) + 2
    return int(lines[0].split()[1]), headers, body, raw


def load(name):
    _, headers, body, _ = parse(name)
    return json.loads(gzip.decompress(body) if headers.get("Content-Encoding") == "gzip" else body)


async def replay(exchange, name):
    """Byte for byte over HTTP/1.1, chunks included; over HTTP/2 the same body."""
    status, headers, body, raw = parse(name)
    if exchange.protocol == "1.1":
        exchange.status = status
        lines = ["HTTP/1.1 %d Recorded" % status] + ["%s: %s" % h for h in headers.items()]
        await exchange.write("\r\n".join(lines + ["", ""]).encode())
        exchange.chunked = False
        await exchange.data(raw)
        return
    headers.pop("Transfer-Encoding", None)
    await exchange.head(status, headers)
    await exchange.data(body)
    await exchange.end()
