#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""repair.py ADDRESS:PORT [--from PORT] [--listen] - a TCP socket that claims to be connected to ADDRESS:PORT, made
with TCP_REPAIR (CRIU's way): no handshake, so no SYN that a policy could refuse. It sends ten segments
of data. With --listen another socket listens at its port, as if the other end had connected to it."""
import argparse
import socket
import struct
import time

from backwards import family_of, host_port

TCP_REPAIR, TCP_REPAIR_QUEUE, TCP_QUEUE_SEQ, TCP_REPAIR_WINDOW = 19, 20, 21, 29
RECV_QUEUE, SEND_QUEUE = 1, 2
REPAIR_ON, REPAIR_OFF_NO_PROBE = 1, -1
SEQ, WINDOW = 1000000, 65535


def claim(address, port):
    """A connected socket, in the kernel's eyes."""
    sock = socket.socket(family_of(address[0]), socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, REPAIR_ON)
    for queue in (RECV_QUEUE, SEND_QUEUE):
        sock.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR_QUEUE, queue)
        sock.setsockopt(socket.IPPROTO_TCP, TCP_QUEUE_SEQ, struct.pack("I", SEQ))
    sock.bind(("", port))
    sock.connect(address)
    sock.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR_WINDOW, struct.pack("5I", SEQ, WINDOW, WINDOW, WINDOW, SEQ))
    sock.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, struct.pack("i", REPAIR_OFF_NO_PROBE))
    return sock


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("to", metavar="ADDRESS:PORT")
    parser.add_argument("--from", dest="port", type=int, default=7777)
    parser.add_argument("--listen", action="store_true")
    args = parser.parse_args()
    address = host_port(args.to)
    if args.listen:
        listener = socket.socket(family_of(address[0]), socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", args.port))
        listener.listen()
    sock = claim(address, args.port)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(10):
        try:
            sock.send(b"claimed")
        except OSError as err:  # a reset came back: it passed
            print(err.strerror)
            break
        time.sleep(0.01)
    sock.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, REPAIR_ON)  # it ends without a packet


main()
