#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""time_wait.py serve PORT | time_wait.py ask FROM TO FIRST COUNT - short connections that the server closes, so that it
is the one that remembers them.

ask: COUNT connections from address FROM and ports FIRST, FIRST + 1, .. to TO (ADDRESS:PORT), one after the other. Says
how many were opened."""
import socket
import sys


def serve(port):
    listener = socket.create_server(("", port), backlog=1024)
    print("serving", flush=True)
    while True:
        connection, _ = listener.accept()
        connection.close()


def ask_once(source, to):
    connection = socket.socket()
    connection.settimeout(10)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    connection.bind(source)
    connection.connect(to)
    while connection.recv(16):
        pass
    connection.close()


def ask(source, to, first, count):
    host, _, port = to.partition(":")
    opened = 0
    for number in range(count):
        try:
            ask_once((source, first + number), (host, int(port)))
            opened += 1
        except OSError as error:
            print(f"port {first + number}: {error}")
    print(f"opened {opened}")


if sys.argv[1] == "serve":
    serve(int(sys.argv[2]))
else:
    ask(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
