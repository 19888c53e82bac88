#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""late.py PORT - a UDP server that answers twice. A line on standard input starts the second answers, to
clients that have gone by then. Prints `asked PEER`, then the outcome for each client:
`PEER refused` (its kernel answered port unreachable), or `PEER silence`."""
import os
import select
import socket
import sys

WAIT_S = 2.0


def second_answer(sock, peer):
    sock.settimeout(WAIT_S)
    try:
        sock.send(b"late\n")
        sock.recv(100)
    except ConnectionRefusedError:
        return "refused"
    except socket.timeout:
        return "silence"
    return "an answer"


def bound(family, port):
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("", port))
    return sock


def first_answer(listener, port):
    """A socket of its own per client: the kernel reports errors only to connected ones."""
    data, peer = listener.recvfrom(65536)
    sock = bound(listener.family, port)
    sock.connect(peer)
    sock.send(data)
    print("asked", peer[0], flush=True)
    return sock, peer


def main():
    port = int(sys.argv[1])
    listener = bound(socket.AF_INET6 if os.environ.get("MK_LAB_FAMILY", "4") == "6" else socket.AF_INET, port)
    print("serving", flush=True)
    while True:
        clients = []
        while sys.stdin not in (ready := select.select([listener, sys.stdin], [], [])[0]):
            clients.append(first_answer(listener, port))
        if not sys.stdin.readline():
            return
        for sock, peer in clients:
            print(peer[0], second_answer(sock, peer), flush=True)
            sock.close()


if __name__ == "__main__":
    main()
