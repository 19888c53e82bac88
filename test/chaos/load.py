#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""load.py [--light N] ADDRESS:PORT... - connections that last, to servers of echo.py: to each address one of TCP
that asks and is answered, one of TCP that is answered by 60 KB almost without a pause, one UDP flow. A connection that broke is opened again.

With --light N: to each address N of TCP and N of UDP, which ask once a second. A connection that waits for an
answer for 5 s is broken, also at the end.

A line per event: `broken TIME flow reason`, with the time at which it still worked, and GRACE;
`lost TIME flow` (a datagram sent then had no answer within 3 s). On SIGTERM: `flows N`, `exchanges N`, `datagrams N`, then it ends."""
import random
import selectors
import signal
import socket
import sys
import time

PAUSE, LATE, STUCK = 0.02, 3.0, 30.0  # seconds
# A connection whose packets a fault drops for good is broken at once, and found STUCK seconds later. It
# belongs to the fault that came within GRACE after its last bytes.
GRACE = 0.1
LARGE = 65536
LIGHT_PAUSE, LIGHT_STUCK = 1.0, 5.0


def tell(*words):
    print(*words, flush=True)


def host_port(address):
    """The port follows the last colon; an IPv6 address may have brackets."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


class Tcp:
    pause, stuck = PAUSE, STUCK

    def __init__(self, address, size):
        self.address, self.size = address, size
        self.name = f"tcp{'-bulk' if size else ''}:{address}"
        self.sock = socket.create_connection(host_port(address), timeout=1)
        self.sock.setblocking(False)
        self.exchanges, self.pending, self.sent, self.done = 0, False, 0.0, False
        self.worked = time.time()

    def broken(self, reason):
        if self.done:
            return
        tell("broken", f"{self.worked + GRACE:.3f}", self.name, reason)
        self.done = True

    def tick(self, now):
        if self.pending and now - self.sent > self.stuck:
            self.broken("no-answer")
        elif not self.pending and now - self.sent > (PAUSE / 10 if self.size else self.pause):
            self.ask(now)

    def ask(self, now):
        self.pending, self.sent, self.got = True, now, 0
        try:
            self.sock.send(f"want {self.size or 64} x".encode())
        except OSError as err:
            self.broken(err.strerror.replace(" ", "-"))

    def readable(self):
        try:
            data = self.sock.recv(LARGE)
        except BlockingIOError:
            return
        except OSError as err:
            self.broken(err.strerror.replace(" ", "-"))
            return
        self.got, self.worked = self.got + len(data), time.time()
        if not data:
            self.broken("closed")
        elif data.endswith(b"\n") and self.got >= (self.size or 64):
            self.exchanges, self.pending = self.exchanges + 1, False


class Udp:
    pause = PAUSE

    def __init__(self, address):
        self.name, self.done = f"udp:{address}", False
        host, port = host_port(address)
        self.sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.connect((host, port))
        self.sock.setblocking(False)
        self.last = time.monotonic() - random.random() * self.pause
        self.exchanges, self.sent, self.waiting = 0, 0, {}

    def tick(self, now):
        if now - self.last > self.pause:
            # Flows that a busy machine delayed stay apart: the server's socket takes about 90 large datagrams at once.
            late = now - self.last > 2 * self.pause
            self.last = now - random.random() * self.pause if late else self.last + self.pause
            self.sent += 1
            size = 100 + self.sent % 1000  # an answer says how many bytes it answers
            if size in self.waiting:
                self.lost(size)
            self.waiting[size] = now
            try:
                self.sock.send(b"x" * size)
            except OSError:
                pass  # no route, or an ICMP error: no answer comes
        for size, when in list(self.waiting.items()):
            if now - when <= LATE:
                break
            self.lost(size)

    def lost(self, size):
        when = time.time() - (time.monotonic() - self.waiting.pop(size))
        tell("lost", f"{when:.3f}", self.name)

    def readable(self):
        """Take all answers that are there: after a moment without processor time, none of them counts as lost."""
        while True:
            try:
                size = int(self.sock.recv(2048).split()[3])
            except OSError:
                return
            if self.waiting.pop(size, None):
                self.exchanges += 1


def again(flow):
    """A new connection in place of a broken one; None: not yet."""
    try:
        return Tcp(flow.address, flow.size)
    except OSError:
        return None


def replace_broken(flows, sel):
    for index, flow in enumerate(flows):
        if not flow.done:
            continue
        if flow.sock:
            sel.unregister(flow.sock)
            flow.sock.close()
            flow.sock = None
        fresh = again(flow)
        if fresh:
            fresh.exchanges = flow.exchanges
            flows[index] = fresh
            sel.register(fresh.sock, selectors.EVENT_READ, fresh)


def light_flows(number, addresses):
    Tcp.pause = Udp.pause = LIGHT_PAUSE
    Tcp.stuck = LIGHT_STUCK
    return [flow for address in addresses for _ in range(number) for flow in (Tcp(address, 0), Udp(address))]


def flows_of(args):
    if args[0] == "--light":
        return light_flows(int(args[1]), args[2:])
    return [flow for address in args for flow in (Tcp(address, 0), Tcp(address, 60000), Udp(address))]


def main():
    flows = flows_of(sys.argv[1:])
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
    sel = selectors.DefaultSelector()
    for flow in flows:
        sel.register(flow.sock, selectors.EVENT_READ, flow)
    tell("running")
    while not stop:
        for key, _ in sel.select(0.005):
            if not key.data.done:
                key.data.readable()
        now = time.monotonic()
        for flow in flows:
            if not flow.done:
                flow.tick(now)
        replace_broken(flows, sel)
    tell("flows", len(flows))
    tell("exchanges", sum(flow.exchanges for flow in flows))
    tell("datagrams", sum(flow.sent for flow in flows if isinstance(flow, Udp)))


if __name__ == "__main__":
    main()
