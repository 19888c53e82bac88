#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""datagram.py DEVICE MAC SOURCE DESTINATION: send a frame to MAC by DEVICE, with a datagram of 18 bytes from
SOURCE to DESTINATION, whoever they are."""
import ipaddress
import socket
import struct
import sys

SENDER = bytes.fromhex("024d0a000001")


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xffff) + (total >> 16)
    return ~(total + (total >> 16)) & 0xffff


def headers(source, dest):
    if source.version == 6:
        return b"\x86\xdd" + struct.pack("!IHBB16s16s", 6 << 28, 26, 17, 64, source.packed, dest.packed)
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 46, 1, 0, 64, 17, 0, source.packed, dest.packed)
    return b"\x08\0" + head[:10] + struct.pack("!H", checksum(head)) + head[12:]


def datagram(source, dest):
    def head(total):
        return struct.pack("!HHHH", 4000, 53, 26, total) + bytes(18)
    return head(checksum(source.packed + dest.packed + struct.pack("!II", 26, 17) + head(0)))


def main():
    device, mac, source, dest = sys.argv[1:]
    source, dest = ipaddress.ip_address(source), ipaddress.ip_address(dest)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
        sock.bind((device, 0))
        sock.send(bytes.fromhex(mac.replace(":", "")) + SENDER + headers(source, dest) + datagram(source, dest))


main()
