# SPDX-License-Identifier: Apache-2.0
"""backwards.py - for echo.py and sctp.py: a packet in fragments that arrive in no order, the last one
first, as after a path of several ways."""
import random
import socket
import struct

MORE_FRAGMENTS = 0x2000
IP_NODEFRAG = 22


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def udp_datagram(source, dest, payload):
    """@source, @dest: (address, port)."""
    length = 8 + len(payload)
    head = struct.pack("!HHH", source[1], dest[1], length)
    pseudo = socket.inet_aton(source[0]) + socket.inet_aton(dest[0]) + struct.pack("!HH", socket.IPPROTO_UDP, length)
    return head + struct.pack("!H", checksum(pseudo + head + b"\0\0" + payload) or 0xFFFF) + payload


def send(source, dest, proto, load, cut):
    """@load: layer 4, in pieces of @cut bytes, a multiple of 8. The kernel fills in lengths and checksums."""
    packet_id = random.randint(1, 0xFFFF)
    pieces = []
    for at in range(0, len(load), cut):
        fragment = at // 8 | (MORE_FRAGMENTS if at + cut < len(load) else 0)
        head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 0, packet_id, fragment, 64, proto, 0,
                           socket.inet_aton(source), socket.inet_aton(dest))
        pieces.append(head + load[at:at + cut])
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as sock:
        sock.setsockopt(socket.IPPROTO_IP, IP_NODEFRAG, 1)
        for piece in reversed(pieces):
            sock.sendto(piece, (dest, 0))
