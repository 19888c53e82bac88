#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""echo.py - a server that says whom it sees, and its client.

serve: answers on TCP and UDP with one line, `NAME PEER_ADDRESS PEER_PORT BYTES DIGEST`, about the
request: the digest covers what arrived, so that a damaged or cut packet shows. A TCP request
that starts with GET is answered as HTTP/1.0.
ask: sends requests and prints the answers, or one word about the failure. Exit status: 0 answered,
3 refused (TCP reset, ICMP port unreachable), 4 no answer in time, 5 another error, 6 wrong digest."""
import argparse
import errno
import hashlib
import os
import selectors
import signal
import socket
import sys
import time

import backwards

REFUSED, TIMEOUT, FAILED, DAMAGED = 3, 4, 5, 6
IP_PKTINFO = 8
IP_MTU_DISCOVER, IP_PMTUDISC_DO, IP_PMTUDISC_DONT, IP_MTU = 10, 2, 0, 14
IPV6_MTU_DISCOVER, IPV6_MTU = 23, 24
V4, V6 = socket.AF_INET, socket.AF_INET6


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def answer(name, peer, data, size=0):
    line = f"{name} {peer[0]} {peer[1]} {len(data)} {digest(data)}"
    return line.ljust(max(size - 1, len(line))).encode() + b"\n"


# ---- server


def wanted_size(data):
    """A request that starts with `want N ` gets an answer of N bytes."""
    word, _, rest = data[:32].partition(b" ")
    number = rest.partition(b" ")[0]
    return int(number) if word == b"want" and number.isdigit() else 0


def note(args, proto, peer, data):
    if args.log:
        print(f"{proto} {peer[0]} {peer[1]} {len(data)}", flush=True)


def serve_udp(args, sock):
    """Answers from the address that was asked: a host has many."""
    data, ancillary, _, peer = sock.recvmsg(65536, socket.CMSG_SPACE(20))
    note(args, "udp", peer, data)
    if sock.family == V6:  # struct in6_pktinfo: addr, ifindex
        source = (socket.IPPROTO_IPV6, socket.IPV6_PKTINFO, ancillary[0][2][:16] + b"\0" * 4)
    else:  # struct in_pktinfo: ifindex, spec_dst, addr
        source = (socket.IPPROTO_IP, IP_PKTINFO, b"\0" * 4 + ancillary[0][2][8:12] + b"\0" * 4)
    try:
        sock.sendmsg([answer(args.name, peer, data, wanted_size(data))], [source], 0, peer)
    except OSError as err:  # an ICMP error about an earlier answer
        print(f"no answer to {peer[0]}: {err.strerror}", file=sys.stderr)


def serve_tcp(args, conn, sel):
    """A connection may carry many requests (it outlives an agent). A large one comes in parts."""
    try:
        data = bytearray(conn.recv(65536))
        while b"request " in data[:32] and not data.endswith(b"\n"):
            part = conn.recv(65536)
            if not part:
                data.clear()
            data += part
        peer = conn.getpeername()
        note(args, "tcp", peer, data)
        if data.startswith(b"GET "):
            body = answer(args.name, peer, data)
            conn.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            data = b""
        elif data:
            conn.sendall(answer(args.name, peer, data, wanted_size(data)))
    except OSError:
        data = b""
    if not data:
        sel.unregister(conn)
        conn.close()


def accept(args, listener, sel):
    conn, _ = listener.accept()
    conn.settimeout(5)
    sel.register(conn, selectors.EVENT_READ, lambda sock: serve_tcp(args, sock, sel))


def set_path_mtu(sock, mode):
    if sock.family == V6:
        sock.setsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, mode)
    else:
        sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, mode)


def udp_server(address, port):
    sock = socket.socket(backwards.family_of(address), socket.SOCK_DGRAM)
    set_path_mtu(sock, IP_PMTUDISC_DONT)
    if sock.family == V6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
    else:
        sock.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
    sock.bind((address, port))
    return sock


def bind_addresses(args):
    """Without --bind: all of both families, as far as the kernel has them."""
    return [args.bind] if args.bind else ["0.0.0.0", "::"] if os.path.exists("/proc/net/if_inet6") else ["0.0.0.0"]


def serve(args):
    sel = selectors.DefaultSelector()
    for address in bind_addresses(args):
        for port in args.tcp:
            sock = socket.create_server((address, port), family=backwards.family_of(address), backlog=512)
            sel.register(sock, selectors.EVENT_READ, lambda sock: accept(args, sock, sel))
        for port in args.udp:
            sel.register(udp_server(address, port), selectors.EVENT_READ, lambda sock: serve_udp(args, sock))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print("serving", flush=True)
    while True:
        for key, _ in sel.select():
            key.data(key.fileobj)


# ---- client


def request(args, number):
    head = f"want {args.want} " if args.want else ""
    return f"{head}request {number} ".ljust(args.size - 1, "x").encode() + b"\n"


def exchange(args, sock, number):
    """Returns the answer's line; raises what the socket raises."""
    data = request(args, number)
    if args.backwards:
        source, dest = sock.getsockname(), sock.getpeername()
        load = backwards.udp_datagram(source, dest, data)
        backwards.send(source[0], dest[0], socket.IPPROTO_UDP, load, args.backwards)
    else:
        sock.sendall(data)
    reply = bytearray()
    while not reply.endswith(b"\n"):
        part = sock.recv(65536)
        if not part:
            raise ConnectionError(errno.EPIPE, "closed without an answer")
        reply += part
        if args.proto == "udp":
            break
    line = reply.decode().rstrip()
    if line.split()[-1] != digest(data) or len(reply) < args.want:
        print(f"damaged: {line}")
        sys.exit(DAMAGED)
    return line


def source_of(text):
    """An IPv6 address has brackets if a port follows."""
    has_port = "]:" in text or text.count(":") == 1
    return backwards.host_port(text) if has_port else (text.strip("[]"), 0)


def open_socket(args):
    kind = socket.SOCK_STREAM if args.proto == "tcp" else socket.SOCK_DGRAM
    to = backwards.host_port(args.to)
    sock = socket.socket(backwards.family_of(to[0]), kind)
    sock.settimeout(args.timeout)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if args.proto == "udp":
        mode = IP_PMTUDISC_DO if args.df or args.path_mtu else IP_PMTUDISC_DONT
        set_path_mtu(sock, mode)
    if args.source:
        sock.bind(source_of(args.source))
    sock.connect(to)
    return sock


def ask_once(args, number):
    started = time.monotonic()
    with open_socket(args) as sock:
        line = exchange(args, sock, number)
    return line, time.monotonic() - started


def hold(args):
    """One connection, one exchange per line of standard input: the caller sets the pace."""
    with open_socket(args) as sock:
        print(exchange(args, sock, 0), flush=True)
        for number, _ in enumerate(sys.stdin, 1):
            print(exchange(args, sock, number), flush=True)


def path_mtu(sock):
    if sock.family == V6:
        return sock.getsockopt(socket.IPPROTO_IPV6, IPV6_MTU)
    return sock.getsockopt(socket.IPPROTO_IP, IP_MTU)


def mtu_after_too_big(args):
    """Send with DF until the path says that it is too big; print the path MTU learned."""
    sock = open_socket(args)
    sock.settimeout(0.2)
    deadline = time.monotonic() + args.timeout
    while time.monotonic() < deadline:
        try:
            sock.send(b"x" * args.size)
            sock.recv(65536)
            print("fits")
            return
        except socket.timeout:
            continue
        except OSError as err:
            if err.errno == errno.EMSGSIZE:
                print(path_mtu(sock))
                return
            raise
    raise socket.timeout()


def ask_all(args):
    total = 0.0
    for number in range(args.count):
        line, seconds = ask_once(args, number)
        total += seconds
        print(line.rsplit(" ", 2)[0], flush=True)
    if args.time:
        print(f"{1000 * total / args.count:.3f} ms")


def ask(args):
    action = hold if args.hold else mtu_after_too_big if args.path_mtu else ask_all
    started = time.monotonic()
    try:
        action(args)
    except ConnectionRefusedError:
        print("refused")
        if args.time:
            print(f"{1000 * (time.monotonic() - started):.3f} ms")
        sys.exit(REFUSED)
    except socket.timeout:
        print("timeout")
        sys.exit(TIMEOUT)
    except OSError as err:
        print(f"failed: {err.strerror}")
        sys.exit(FAILED)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    server = commands.add_parser("serve")
    server.add_argument("--name", default=socket.gethostname())
    server.add_argument("--bind", metavar="ADDRESS", help="default: all of both families")
    server.add_argument("--log", action="store_true", help="a line per request on stdout")
    server.add_argument("--tcp", type=int, action="append", default=[])
    server.add_argument("--udp", type=int, action="append", default=[])
    client = commands.add_parser("ask")
    client.add_argument("proto", choices=["tcp", "udp"])
    client.add_argument("to", metavar="ADDRESS:PORT")
    client.add_argument("--from", dest="source", metavar="ADDRESS[:PORT]")
    client.add_argument("--count", type=int, default=1)
    client.add_argument("--size", type=int, default=0, help="of the request, bytes")
    client.add_argument("--want", type=int, default=0, help="size of the answer, bytes")
    client.add_argument("--timeout", type=float, default=2.0, help="seconds")
    client.add_argument("--time", action="store_true", help="mean time of an exchange")
    client.add_argument("--df", action="store_true", help="do not fragment (UDP)")
    client.add_argument("--backwards", type=int, metavar="BYTES",
                        help="in fragments of so many bytes, the last one first (UDP)")
    client.add_argument("--hold", action="store_true", help="one exchange per line of input")
    client.add_argument("--path-mtu", action="store_true", help="send until told too big")
    args = parser.parse_args()
    serve(args) if args.command == "serve" else ask(args)


if __name__ == "__main__":
    main()
