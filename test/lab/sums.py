#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""sums.py - the checksums of TCP, UDP, ICMP and ICMPv6 packets that arrive at eth0, a line each, until a signal:
`PROTO FROM > TO KIND right|wrong`, of ICMP with type and code for ports, of IPv6 with brackets around addresses. KIND is `partial` for a packet whose checksum the kernel has left to the
device (CHECKSUM_PARTIAL): it is completed here as a device would, from where the kernel says that it begins
(PACKET_VNET_HDR, struct virtio_net_hdr). Otherwise `complete`. The first line is `watching`."""
import signal
import socket
import struct
import sys

from backwards import checksum

ETH_P_IP, ETH_P_IPV6, ETH_P_ALL = 0x0800, 0x86dd, 3
SOL_PACKET, PACKET_VNET_HDR = 263, 15
NEEDS_CSUM, VNET_BYTES, ETH_BYTES = 1, 10, 14
LARGEST = VNET_BYTES + ETH_BYTES + 65536
PROTOS = {socket.IPPROTO_TCP: "tcp", socket.IPPROTO_UDP: "udp", socket.IPPROTO_ICMP: "icmp", socket.IPPROTO_ICMPV6: "icmp"}


def complete(frame, start, offset):
    """@frame as the device sends it."""
    at = start + offset
    return frame[:at] + struct.pack("!H", checksum(frame[start:])) + frame[at + 2:]


def read_ipv4(ip):
    """Protocol, source, destination, layer 4; None: a fragment."""
    head, total = 4 * (ip[0] & 15), struct.unpack("!H", ip[2:4])[0]
    if struct.unpack("!H", ip[6:8])[0] & 0x3fff:
        return None
    return ip[9], ip[12:16], ip[16:20], ip[head:total]


def read_ipv6(ip):
    """The same; packets with extension headers are not in PROTOS."""
    return ip[6], ip[8:24], ip[24:40], ip[40:40 + struct.unpack("!H", ip[4:6])[0]]


READERS = {ETH_P_IP: read_ipv4, ETH_P_IPV6: read_ipv6}


def is_right(proto, addresses, load):
    """A segment larger than the MTU (GSO) has one header, whose checksum is right for the whole @load."""
    if proto == socket.IPPROTO_ICMP:
        return checksum(load) == 0
    return checksum(addresses + struct.pack("!HH", proto, len(load)) + load) == 0


def text_of(address):
    return socket.inet_ntoa(address) if len(address) == 4 else f"[{socket.inet_ntop(socket.AF_INET6, address)}]"


def tell(header, frame):
    flags, _, _, _, start, offset = struct.unpack("=BBHHHH", header)
    kind = "partial" if flags & NEEDS_CSUM else "complete"
    if kind == "partial":
        frame = complete(frame, start, offset)
    read = READERS.get(struct.unpack("!H", frame[12:14])[0])
    packet = read and read(frame[ETH_BYTES:])
    if not packet or packet[0] not in PROTOS:
        return
    proto, source, dest, load = packet
    ports = struct.unpack("!BB", load[:2]) if PROTOS[proto] == "icmp" else struct.unpack("!HH", load[:4])
    verdict = "right" if is_right(proto, source + dest, load) else "wrong"
    print(f"{PROTOS[proto]} {text_of(source)}:{ports[0]} > {text_of(dest)}:{ports[1]} {kind} {verdict}", flush=True)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as packets:
        packets.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        packets.bind(("eth0", ETH_P_ALL))
        print("watching", flush=True)
        while True:
            data, address = packets.recvfrom(LARGEST)
            if address[2] != socket.PACKET_OUTGOING:
                tell(data[:VNET_BYTES], data[VNET_BYTES:])


main()
