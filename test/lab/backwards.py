# SPDX-License-Identifier: Apache-2.0
"""backwards.py - for echo.py and sctp.py: a packet in fragments that arrive in no order, the last one
first, as after a path of several ways."""
import random
import socket
import struct

MORE_FRAGMENTS = 0x2000
IP_NODEFRAG = 22
IPPROTO_FRAGMENT = 44


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def host_port(text):
    """ADDRESS:PORT, an IPv6 address with or without brackets; the port follows the last colon."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def family_of(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def packed(address):
    return socket.inet_pton(family_of(address), address)


def pseudo_header(source, dest, proto, length):
    """Of either family: the sum of 16-bit words is the same for fields of 16 and of 32 bits."""
    return packed(source) + packed(dest) + struct.pack("!HH", proto, length)


def udp_datagram(source, dest, payload):
    """@source, @dest: (address, port, ...)."""
    length = 8 + len(payload)
    head = struct.pack("!HHH", source[1], dest[1], length)
    pseudo = pseudo_header(source[0], dest[0], socket.IPPROTO_UDP, length)
    return head + struct.pack("!H", checksum(pseudo + head + b"\0\0" + payload) or 0xFFFF) + payload


def send(source, dest, proto, load, cut):
    """@load: layer 4, in pieces of @cut bytes, a multiple of 8. The kernel fills in IPv4's lengths and checksums."""
    packet_id = random.randint(1, 0xFFFF)
    family = family_of(dest)
    header = ipv6_fragment if family == socket.AF_INET6 else ipv4_fragment
    pieces = []
    for at in range(0, len(load), cut):
        part, more = load[at:at + cut], at + cut < len(load)
        pieces.append(header(packet_id, at, more, proto, packed(source) + packed(dest), len(part)) + part)
    with socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW) as sock:
        if family == socket.AF_INET:
            sock.setsockopt(socket.IPPROTO_IP, IP_NODEFRAG, 1)
        for piece in reversed(pieces):
            sock.sendto(piece, (dest, 0))


def ipv4_fragment(packet_id, at, more, proto, addresses, _):
    fragment = at // 8 | (MORE_FRAGMENTS if more else 0)
    return struct.pack("!BBHHHBBH", 0x45, 0, 0, packet_id, fragment, 64, proto, 0) + addresses


def ipv6_fragment(packet_id, at, more, proto, addresses, length):
    head = struct.pack("!IHBB", 6 << 28, 8 + length, IPPROTO_FRAGMENT, 64)
    return head + addresses + struct.pack("!BBHI", proto, 0, at | more, packet_id)
