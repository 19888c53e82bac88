#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""forge.py - send a UDP datagram, or a TCP segment of no connection, as a raw frame, with whatever
addresses and MACs are asked for. What is not given is the interface's own, and the next hop's from
the neighbour table."""
import argparse
import json
import socket
import struct
import subprocess


def checksum(header):
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def mac_bytes(text):
    return bytes.fromhex(text.replace(":", ""))


def ip_json(*args):
    return json.loads(subprocess.run(["ip", "-j", *args], check=True, capture_output=True).stdout)


def udp_datagram(args):
    payload = args.text.encode()
    return struct.pack("!HHHH", args.sport, args.dport, 8 + len(payload), 0) + payload


def tcp_segment(args):
    """An ACK: sequence numbers that no connection has, no payload."""
    head = struct.pack("!HHIIBBHHH", args.sport, args.dport, 0x7fffffff, 0x7fffffff, 0x50, 0x10, 1000, 0, 0)
    pseudo = socket.inet_aton(args.source) + socket.inet_aton(args.dest) + struct.pack("!HH", socket.IPPROTO_TCP, len(head))
    return head[:16] + struct.pack("!H", checksum(pseudo + head)) + head[18:]


def packet(args):
    load = tcp_segment(args) if args.tcp else udp_datagram(args)
    proto = socket.IPPROTO_TCP if args.tcp else socket.IPPROTO_UDP
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(load), 1, 0, args.ttl, proto, 0,
                       socket.inet_aton(args.source), socket.inet_aton(args.dest))
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + load


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dest")
    parser.add_argument("dport", type=int)
    parser.add_argument("--device", default="eth0")
    parser.add_argument("--source")
    parser.add_argument("--sport", type=int, default=4242)
    parser.add_argument("--source-mac")
    parser.add_argument("--dest-mac")
    parser.add_argument("--ttl", type=int, default=64)
    parser.add_argument("--text", default="forged")
    parser.add_argument("--tcp", action="store_true")
    parser.add_argument("--count", type=int, default=1)
    args = parser.parse_args()
    link = ip_json("addr", "show", "dev", args.device)[0]
    own = [a["local"] for a in link["addr_info"] if a["family"] == "inet"]
    args.source = args.source or own[0]
    neighbours = ip_json("neigh", "show", "dev", args.device)
    dest_mac = args.dest_mac or next(n["lladdr"] for n in neighbours if "lladdr" in n)
    frame = mac_bytes(dest_mac) + mac_bytes(args.source_mac or link["address"]) + b"\x08\x00"
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
        sock.bind((args.device, 0))
        for _ in range(args.count):
            sock.send(frame + packet(args))


if __name__ == "__main__":
    main()
