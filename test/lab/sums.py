#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""sums.py - the checksums of TCP, UDP and ICMP packets that arrive at eth0, a line each, until a signal:
`PROTO FROM > TO KIND right|wrong`, of ICMP with type and code for ports. KIND is `partial` for a packet whose checksum the kernel has left to the
device (CHECKSUM_PARTIAL): it is completed here as a device would, from where the kernel says that it begins
(PACKET_VNET_HDR, struct virtio_net_hdr). Otherwise `complete`. The first line is `watching`."""
import signal
import socket
import struct
import sys

from backwards import checksum

ETH_P_IP, SOL_PACKET, PACKET_VNET_HDR = 0x0800, 263, 15
NEEDS_CSUM, VNET_BYTES, ETH_BYTES = 1, 10, 14
LARGEST = VNET_BYTES + ETH_BYTES + 65536
PROTOS = {socket.IPPROTO_TCP: "tcp", socket.IPPROTO_UDP: "udp", socket.IPPROTO_ICMP: "icmp"}


def complete(frame, start, offset):
    """@frame as the device sends it."""
    at = start + offset
    return frame[:at] + struct.pack("!H", checksum(frame[start:])) + frame[at + 2:]


def is_right(ip, load):
    """A segment larger than the MTU (GSO) has one header, whose checksum is right for the whole @load."""
    if ip[9] == socket.IPPROTO_ICMP:
        return checksum(load) == 0
    pseudo = ip[12:20] + struct.pack("!HH", ip[9], len(load))
    return checksum(pseudo + load) == 0


def tell(header, frame):
    flags, _, _, _, start, offset = struct.unpack("=BBHHHH", header)
    kind = "partial" if flags & NEEDS_CSUM else "complete"
    if kind == "partial":
        frame = complete(frame, start, offset)
    ip = frame[ETH_BYTES:]
    head, total = 4 * (ip[0] & 15), struct.unpack("!H", ip[2:4])[0]
    if ip[9] not in PROTOS or struct.unpack("!H", ip[6:8])[0] & 0x3fff:
        return
    load = ip[head:total]
    ports = struct.unpack("!BB", load[:2]) if ip[9] == socket.IPPROTO_ICMP else struct.unpack("!HH", load[:4])
    source, dest = socket.inet_ntoa(ip[12:16]), socket.inet_ntoa(ip[16:20])
    print(f"{PROTOS[ip[9]]} {source}:{ports[0]} > {dest}:{ports[1]} {kind} {'right' if is_right(ip, load) else 'wrong'}",
          flush=True)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IP)) as packets:
        packets.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        packets.bind(("eth0", ETH_P_IP))
        print("watching", flush=True)
        while True:
            data, address = packets.recvfrom(LARGEST)
            if address[2] != socket.PACKET_OUTGOING:
                tell(data[:VNET_BYTES], data[VNET_BYTES:])


main()
