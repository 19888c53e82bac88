#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""name_server.py ADDRESS NAME ANSWER - a name server at ADDRESS, UDP port 53: NAME has the IPv4 address ANSWER and
no IPv6 address, and no other name exists."""
import socket
import struct
import sys

A, NXDOMAIN, AUTHORITATIVE = 1, 3, 0x8580


def question_of(packet):
    """Return (name, type, offset of the question's end)."""
    labels, at = [], 12
    while packet[at]:
        labels.append(packet[at + 1:at + 1 + packet[at]].decode())
        at += 1 + packet[at]
    return ".".join(labels).lower(), struct.unpack_from("!H", packet, at + 1)[0], at + 5


def reply_to(packet, name, answer):
    asked, kind, end = question_of(packet)
    known, has_answer = asked == name, asked == name and kind == A
    head = packet[:2] + struct.pack("!5H", AUTHORITATIVE | (0 if known else NXDOMAIN), 1, int(has_answer), 0, 0)
    record = struct.pack("!3HIH", 0xc00c, A, 1, 60, 4) + socket.inet_aton(answer)
    return head + packet[12:end] + (record if has_answer else b"")


def main(address, name, answer):
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, 53))
    while True:
        packet, client = server.recvfrom(4096)
        server.sendto(reply_to(packet, name, answer), client)


if __name__ == "__main__":
    main(*sys.argv[1:])
