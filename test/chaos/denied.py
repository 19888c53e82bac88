#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""denied.py ADDRESS:PORT... - asks again and again where it must not be answered: to each address a datagram
every 5 ms from one port and from a new one, and every 50 ms a TCP connection.

Prints `passed TIME flow` for each answer; on SIGTERM `denied N`, the number of its attempts."""
import selectors
import signal
import socket
import sys
import time

from load import host_port, tell

PAUSE, TCP_PAUSE = 0.005, 0.05  # seconds


class Denied:
    def __init__(self, address, sel):
        self.name, self.to, self.sel, self.asked, self.open, self.last = address, host_port(address), sel, 0, [], 0.0
        self.family = socket.AF_INET6 if ":" in self.to[0] else socket.AF_INET
        self.steady = self.flow(socket.SOCK_DGRAM)

    def flow(self, kind):
        sock = socket.socket(self.family, kind)
        sock.setblocking(False)
        sock.connect_ex(self.to)
        self.sel.register(sock, selectors.EVENT_READ if kind == socket.SOCK_DGRAM else selectors.EVENT_WRITE, self)
        return sock

    def send(self, sock):
        try:
            sock.send(b"denied")
        except OSError:
            pass  # no route, or an ICMP error
        self.asked += 1

    def tick(self, now):
        self.send(self.steady)
        fresh = self.flow(socket.SOCK_DGRAM)
        self.send(fresh)
        self.open.append(fresh)
        if now - self.last > TCP_PAUSE:
            self.last, self.asked = now, self.asked + 1
            self.open.append(self.flow(socket.SOCK_STREAM))
        while len(self.open) > 200:
            sock = self.open.pop(0)
            self.sel.unregister(sock)
            sock.close()

    def event(self, sock):
        """A TCP socket that can be written to is connected, or has failed."""
        try:
            if sock.type == socket.SOCK_STREAM:
                sock.getpeername()
                self.sel.modify(sock, selectors.EVENT_READ, self)
            else:
                sock.recv(2048)
        except OSError:
            return
        tell("passed", f"{time.time():.3f}", f"{'tcp' if sock.type == socket.SOCK_STREAM else 'udp'}:{self.name}")


def main():
    sel = selectors.DefaultSelector()
    targets = [Denied(address, sel) for address in sys.argv[1:]]
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
    tell("running")
    while not stop:
        for key, _ in sel.select(0):
            key.data.event(key.fileobj)
        for target in targets:
            target.tick(time.monotonic())
        time.sleep(PAUSE)
    tell("denied", sum(target.asked for target in targets))


main()
