#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""crowd.py hold N ADDRESS:PORT... | crowd.py new ADDRESS:PORT... - many connections to servers of echo.py.

hold: N of them to the addresses in turn, which stay: says `holding N`, then exchanges a line by each
again and again until there is something on standard input, once more after that, and says `held K of N` after a
line for each address and reason of those that broke. new: one after the other, each opened, used and closed, as long;
says `opening`, `tried 20` once they are so many, at last the same of those that failed, and `opened K of N`."""
import collections
import resource
import selectors
import socket
import sys
import time

from backwards import host_port

PATIENCE_S = 20  # for an answer by a connection that is there: many retransmissions
NEW_S = 3  # for a new one: two retransmissions of its SYN
PAUSE_S = 0.5
SOME = 20  # new ones, of which a share says something


def connect(to, timeout):
    return socket.create_connection(host_port(to), timeout=timeout)


def tell_failures(failures):
    for (to, reason), count in sorted(failures.items()):
        print(f"  {to} {reason}: {count}")


def exchange(sock):
    sock.sendall(b"hello")
    reply = b""
    while not reply.endswith(b"\n"):
        part = sock.recv(4096)
        if not part:
            raise OSError(0, "closed")
        reply += part


def told_to_end(seconds):
    with selectors.DefaultSelector() as sel:
        sel.register(sys.stdin, selectors.EVENT_READ)
        return bool(sel.select(seconds))


def reason_of(err):
    return (err.strerror or type(err).__name__).replace(" ", "-")


def round_of(connections, failures):
    """Ask by all, then read all answers: the slowest counts once."""
    for sock, to in list(connections.items()):
        try:
            sock.sendall(b"hello")
        except OSError as err:
            failures[to, reason_of(err)] += 1
            del connections[sock]
    deadline = time.monotonic() + PATIENCE_S
    for sock, to in list(connections.items()):
        try:
            sock.settimeout(max(0.1, deadline - time.monotonic()))
            if not sock.recv(4096):
                raise OSError(0, "closed")
        except OSError as err:
            failures[to, reason_of(err)] += 1
            del connections[sock]


def hold(count, addresses):
    resource.setrlimit(resource.RLIMIT_NOFILE, (count + 64, count + 64))
    failures = collections.Counter()
    connections = {}
    for number in range(count):
        to = addresses[number % len(addresses)]
        connections[connect(to, PATIENCE_S)] = to
    round_of(connections, failures)
    print(f"holding {len(connections)}", flush=True)
    rounds = 0
    while not told_to_end(PAUSE_S):
        round_of(connections, failures)
        rounds += 1
    round_of(connections, failures)
    tell_failures(failures)
    print(f"held {len(connections)} of {count}, {rounds + 2} exchanges each")


def new(addresses):
    failures = collections.Counter()
    print("opening", flush=True)
    tried = 0
    while not told_to_end(0.01):
        to = addresses[tried % len(addresses)]
        tried += 1
        try:
            with connect(to, NEW_S) as sock:
                exchange(sock)
        except OSError as err:
            failures[to, reason_of(err)] += 1
        if tried == SOME:
            print(f"tried {SOME}", flush=True)
    tell_failures(failures)
    print(f"opened {tried - failures.total()} of {tried}")


if sys.argv[1] == "hold":
    hold(int(sys.argv[2]), sys.argv[3:])
else:
    new(sys.argv[2:])
