#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""sctp.py - an SCTP server and client on raw sockets, for kernels without SCTP: as much of RFC 9260 as
one message each way needs, each packet's CRC32c computed here and checked by the other side.

serve: answers a message with one line, `NAME PEER_ADDRESS PEER_PORT BYTES DIGEST`, as echo.py does, as
long as a message that begins with `want N ` says. What is larger than the path's MTU is one chunk that
IP cuts.
ask: associates, sends a message, prints the answer, shuts down. Exit status as echo.py's: 0 answered,
3 refused (ICMP port unreachable, ABORT), 4 no answer in time, 5 another error, 6 wrong digest."""
import argparse
import errno
import hashlib
import os
import random
import select
import socket
import struct
import sys
import time

import backwards

REFUSED, TIMEOUT, FAILED, DAMAGED = 3, 4, 5, 6
IP_RECVERR, IP_PKTINFO, IPV6_RECVERR = 11, 8, 25
DATA, INIT, INIT_ACK, SACK, ABORT, SHUTDOWN, SHUTDOWN_ACK = 0, 1, 2, 3, 6, 7, 8
COOKIE_ECHO, COOKIE_ACK, SHUTDOWN_COMPLETE = 10, 11, 14
COOKIE = b"the cookie of a server that is not afraid of floods "[:52]


def crc_table():
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        yield byte


TABLE = list(crc_table())


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return struct.pack("<I", crc ^ 0xFFFFFFFF)


def chunk(kind, value=b"", flags=0):
    return struct.pack("!BBH", kind, flags, 4 + len(value)) + value + b"\0" * (-len(value) % 4)


def init_chunk(kind, tag, parameters=b""):
    return chunk(kind, struct.pack("!IIHHI", tag, 65536, 1, 1, 1) + parameters)


def data_chunk(text):
    return chunk(DATA, struct.pack("!IHHI", 1, 0, 0, 0) + text, flags=3)


def packet(sport, dport, tag, *chunks):
    body = b"".join(chunks)
    head = struct.pack("!HHI", sport, dport, tag)
    return head + crc32c(head + b"\0\0\0\0" + body) + body


def raw_socket(family):
    sock = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_SCTP)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        sock.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVERR, 1)
    else:
        sock.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
    return sock


def receive(sock):
    """(SCTP, source address, control message to answer from the address that was asked)"""
    data, control, _, peer = sock.recvmsg(65536, socket.CMSG_SPACE(20))
    if sock.family == socket.AF_INET6:  # without the IP header; struct in6_pktinfo: addr, ifindex
        return data, peer[0], (socket.IPPROTO_IPV6, socket.IPV6_PKTINFO, control[0][2][:16] + b"\0" * 4)
    asked = (socket.IPPROTO_IP, IP_PKTINFO, b"\0" * 4 + data[16:20] + b"\0" * 4)
    return data[(data[0] & 0xF) * 4:], peer[0], asked


def parse(sctp, source):
    """(source address, source port, destination port, tag, [(kind, value)]), or None."""
    if len(sctp) < 16:
        return None
    if crc32c(sctp[:8] + b"\0\0\0\0" + sctp[12:]) != sctp[8:12]:
        print(f"wrong checksum from {source}", file=sys.stderr)
        return None
    sport, dport, tag = struct.unpack("!HHI", sctp[:8])
    chunks, rest = [], sctp[12:]
    while len(rest) >= 4:
        kind, _, length = struct.unpack("!BBH", rest[:4])
        if length < 4:
            return None
        chunks.append((kind, rest[4:length]))
        rest = rest[length + -length % 4:]
    return source, sport, dport, tag, chunks


def wanted_size(text):
    word, number = (text.split(b" ", 2) + [b""])[:2]
    return int(number) if word == b"want" and number.isdigit() else 0


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


# ---- server


def reply(args, peer, tags, chunk_seen):
    """The chunks that answer one chunk, and the tag to send them with."""
    kind, value = chunk_seen
    if kind == INIT:
        tags[peer] = struct.unpack("!I", value[:4])[0]
        cookie = struct.pack("!HH", 7, 4 + len(COOKIE)) + COOKIE
        return [init_chunk(INIT_ACK, 0x5E17E000 + peer[1], cookie)]
    if kind == COOKIE_ECHO and value == COOKIE:
        return [chunk(COOKIE_ACK)]
    if kind == DATA and peer in tags:
        text = value[12:]
        line = f"{args.name} {peer[0]} {peer[1]} {len(text)} {digest(text)}".ljust(wanted_size(text)) + "\n"
        return [chunk(SACK, struct.pack("!IIHH", 1, 65536, 0, 0)), data_chunk(line.encode())]
    if kind == SHUTDOWN:
        return [chunk(SHUTDOWN_ACK)]
    return []


def serve(args):
    tags = {}  # by peer: the tag it wants to see
    families = [socket.AF_INET] + [socket.AF_INET6] * os.path.exists("/proc/net/if_inet6")
    socks = [raw_socket(family) for family in families]
    print("serving", flush=True)
    while True:
        for sock in select.select(socks, [], [])[0]:
            try:
                serve_packet(args, sock, tags)
            except OSError as err:  # an ICMP error about an earlier answer
                print(err.strerror, file=sys.stderr)


def serve_packet(args, sock, tags):
    sctp, source, asked = receive(sock)
    seen = parse(sctp, source)
    if not seen or seen[2] != args.port:
        return
    peer = seen[:2]
    chunks = [out for one in seen[4] for out in reply(args, peer, tags, one)]
    if chunks:
        sock.sendmsg([packet(args.port, peer[1], tags.get(peer, 0), *chunks)], [asked], 0, (peer[0], 0))


# ---- client


class Refused(Exception):
    pass


class Association:
    def __init__(self, address, port, timeout):
        self.sock = raw_socket(backwards.family_of(address))
        self.sock.connect((address, 0))
        self.address = address
        self.sport, self.dport = random.randint(20000, 29999), port
        self.own_tag, self.tag = random.getrandbits(32) or 1, 0
        self.deadline = time.monotonic() + timeout

    def send(self, *chunks):
        self.sock.send(packet(self.sport, self.dport, self.tag, *chunks))

    def wait(self, kind):
        """The value of the next chunk of that kind."""
        while True:
            self.sock.settimeout(max(self.deadline - time.monotonic(), 0.001))
            seen = parse(*receive(self.sock)[:2])
            if not seen or seen[1:3] != (self.dport, self.sport) or seen[3] != self.own_tag:
                continue
            for got, value in seen[4]:
                if got == ABORT:
                    raise Refused
                if got == kind:
                    return value

    def open(self):
        self.send(init_chunk(INIT, self.own_tag))
        value = self.wait(INIT_ACK)
        self.tag = struct.unpack("!I", value[:4])[0]
        length = struct.unpack("!H", value[18:20])[0]
        self.send(chunk(COOKIE_ECHO, value[20:16 + length]))
        self.wait(COOKIE_ACK)

    def send_backwards(self, cut, *chunks):
        source = self.sock.getsockname()[0]
        load = packet(self.sport, self.dport, self.tag, *chunks)
        backwards.send(source, self.address, socket.IPPROTO_SCTP, load, cut)

    def exchange(self, text, args):
        chunks = [data_chunk(text)] + [data_chunk(os.urandom(args.behind))] * bool(args.behind)
        if args.backwards:
            self.send_backwards(args.backwards, *chunks)
        else:
            self.send(*chunks)
        return self.wait(DATA)[12:].decode()

    def close(self):
        self.send(chunk(SHUTDOWN, struct.pack("!I", 1)))
        self.wait(SHUTDOWN_ACK)
        self.send(chunk(SHUTDOWN_COMPLETE))
        self.sock.close()


def ask_once(args):
    address, port = backwards.host_port(args.target)
    head = f"want {args.want} ".encode() if args.want else b""
    text = head + os.urandom(args.size - len(head))
    association = Association(address, port, args.timeout)
    association.open()
    line = association.exchange(text, args)
    association.close()
    name, seen, sport, _, told = line.split()
    print(name, seen, sport, flush=True)
    return 0 if told == digest(text) and len(line) > args.want else DAMAGED


def ask(args):
    for _ in range(args.count):
        try:
            status = ask_once(args)
        except (Refused, ConnectionRefusedError):
            status = REFUSED
        except (TimeoutError, BlockingIOError):
            status = TIMEOUT
        except OSError as err:
            print(errno.errorcode.get(err.errno, err), file=sys.stderr)
            status = FAILED
        if status:
            print({REFUSED: "refused", TIMEOUT: "timeout", DAMAGED: "damaged"}.get(status, "failed"))
            return status
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    serving = verbs.add_parser("serve")
    serving.add_argument("--name", required=True)
    serving.add_argument("--port", type=int, required=True)
    asking = verbs.add_parser("ask")
    asking.add_argument("target", metavar="ADDRESS:PORT")
    asking.add_argument("--count", type=int, default=1)
    asking.add_argument("--size", type=int, default=64, help="bytes of the message")
    asking.add_argument("--want", type=int, default=0, help="bytes of the answer")
    asking.add_argument("--behind", type=int, default=0, help="bytes of another chunk in the same packet")
    asking.add_argument("--backwards", type=int, metavar="BYTES",
                        help="in fragments of so many bytes, the last one first")
    asking.add_argument("--timeout", type=float, default=3)
    args = parser.parse_args()
    return serve(args) if args.verb == "serve" else ask(args)


if __name__ == "__main__":
    sys.exit(main())
