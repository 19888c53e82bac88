#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""forge.py - send raw frames, with whatever addresses and MACs are asked for: a UDP datagram, a TCP
segment of no connection, or what a hostile pod may think of. What is not given is the interface's
own, and the next hop's from the neighbour table.

kinds: udp (the default), tcp (with --flags), raw (protocol --protocol, with --message); arp (says that
--source is at our MAC); vxlan (a datagram to DPORT of DEST,
the carrier; inside: UDP from --inner-source to --inner-dest, to port --inner-port, for --inner-mac);
error (ICMP port unreachable that quotes a UDP packet from --inner-source:--inner-port to
--inner-dest:DPORT); overlap (a datagram in two fragments of which the second covers a part of the
first once more, differently); icmp (--message: type, code, and what follows the checksum; several with
commas). udp, tcp, raw and icmp can be a fragment: --fragment OFFSET[+], + if more follow, with --id.
--checksum-at START,OFFSET: the device is to write a checksum over the packet from byte START on, at OFFSET from there."""
import argparse
import json
import socket
import struct
import subprocess

from backwards import MORE_FRAGMENTS, checksum, ipv6_fragment, packed, pseudo_header

ICMP_UNREACHABLE, ICMP_PORT = 3, 3
SOL_PACKET, PACKET_VNET_HDR, NEEDS_CSUM, ETH_BYTES = 263, 15, 1, 14
ICMPV6_UNREACHABLE, ICMPV6_PORT, IPPROTO_ICMPV6 = 1, 4, 58


def mac_bytes(text):
    return bytes.fromhex(text.replace(":", ""))


def ip_json(*args):
    return json.loads(subprocess.run(["ip", "-j", *args], check=True, capture_output=True).stdout)


def is_v6(address):
    return ":" in address


def udp_datagram(source, dest, sport, dport, payload):
    """Without a checksum, which IPv6 needs."""
    head = struct.pack("!HHH", sport, dport, 8 + len(payload))
    if not is_v6(source):
        return head + b"\0\0" + payload
    pseudo = pseudo_header(source, dest, socket.IPPROTO_UDP, 8 + len(payload))
    return head + struct.pack("!H", checksum(pseudo + head + b"\0\0" + payload) or 0xFFFF) + payload


def tcp_segment(args, flags):
    """Sequence numbers that no connection has, no payload."""
    head = struct.pack("!HHIIBBHHH", args.sport, args.dport, args.seq, 0x7fffffff, 0x50, flags, 1000, 0, 0)
    pseudo = pseudo_header(args.source, args.dest, socket.IPPROTO_TCP, len(head))
    return head[:16] + struct.pack("!H", checksum(pseudo + head)) + head[18:]


def ip_packet(source, dest, proto, load, ttl=64, options=b"", fragment=0, packet_id=1):
    """@fragment: flags and offset as the header has them. IPv6 has extension headers for @options."""
    if is_v6(source):
        return ipv6_packet(packed(source) + packed(dest), proto, load, ttl, fragment, packet_id)
    words = 5 + len(options) // 4
    head = struct.pack("!BBHHHBBH4s4s", 0x40 | words, 0, 4 * words + len(load), packet_id, fragment, ttl, proto, 0,
                       socket.inet_aton(source), socket.inet_aton(dest)) + options
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + load


def ipv6_packet(addresses, proto, load, hops, fragment, packet_id):
    if fragment:
        offset, more = 8 * (fragment & 0x1FFF), bool(fragment & MORE_FRAGMENTS)
        return ipv6_fragment(packet_id, offset, more, proto, addresses, len(load)) + load
    return struct.pack("!IHBB", 6 << 28, len(load), proto, hops) + addresses + load


def behind_headers(headers, proto, load):
    """@headers: TYPE/HEX,...; HEX is the extension header without its first byte, which names the next one."""
    for header in reversed(headers.split(",") if headers else []):
        kind, _, content = header.partition("/")
        load, proto = bytes([proto]) + bytes.fromhex(content) + load, int(kind)
    return proto, load


def ethertype(address):
    return b"\x86\xdd" if is_v6(address) else b"\x08\x00"


def outer(args, proto, load, **more):
    proto, load = behind_headers(args.headers, proto, load)
    if args.fragment:
        more["fragment"] = int(args.fragment.rstrip("+")) | (MORE_FRAGMENTS if "+" in args.fragment else 0)
    return ethertype(args.source) + ip_packet(args.source, args.dest, proto, load[:args.cut], args.ttl, bytes.fromhex(args.options),
                                              packet_id=args.id, **more)


def inner_udp(args, payload=b""):
    datagram = udp_datagram(args.inner_source, args.inner_dest, args.sport, args.inner_port, payload)
    return ip_packet(args.inner_source, args.inner_dest, socket.IPPROTO_UDP, datagram)


def own_datagram(args, payload):
    return udp_datagram(args.source, args.dest, args.sport, args.dport, payload)


def udp(args):
    fragment = MORE_FRAGMENTS if args.more_fragments else 0
    return [outer(args, socket.IPPROTO_UDP, own_datagram(args, args.text.encode()), fragment=fragment)]


def tcp(args):
    return [outer(args, socket.IPPROTO_TCP, tcp_segment(args, int(flags, 16))) for flags in args.flags.split(",")]


def raw(args):
    load = bytes.fromhex(args.message or "0000000000000000")
    return [outer(args, int(protocol), load) for protocol in args.protocol.split(",")]


def arp(args):
    claim = mac_bytes(args.source_mac) + socket.inet_aton(args.source)
    return [b"\x08\x06" + struct.pack("!HHBBH", 1, 0x0800, 6, 4, 2) + claim + b"\xff" * 6 + socket.inet_aton(args.dest)]


def vxlan(args):
    frame = mac_bytes(args.inner_mac) + mac_bytes(args.source_mac) + ethertype(args.inner_source) + inner_udp(args, args.text.encode())
    carried = struct.pack("!II", 0x08 << 24, args.vni << 8) + frame
    return [outer(args, socket.IPPROTO_UDP, own_datagram(args, carried))]


def error(args):
    quoted = ip_packet(args.inner_source, args.inner_dest, socket.IPPROTO_UDP,
                       udp_datagram(args.inner_source, args.inner_dest, args.inner_port, args.dport, b""))
    if is_v6(args.source):
        return [icmp_message(args, bytes([ICMPV6_UNREACHABLE, ICMPV6_PORT, 0, 0, 0, 0]) + quoted)]
    head = struct.pack("!BBHI", ICMP_UNREACHABLE, ICMP_PORT, 0, 0)
    message = head[:2] + struct.pack("!H", checksum(head + quoted)) + head[4:] + quoted
    return [outer(args, socket.IPPROTO_ICMP, message)]


def icmp_message(args, message):
    """@message: without its checksum."""
    proto = IPPROTO_ICMPV6 if is_v6(args.source) else socket.IPPROTO_ICMP
    pseudo = pseudo_header(args.source, args.dest, proto, 2 + len(message)) if is_v6(args.source) else b""
    whole = message[:2] + struct.pack("!H", checksum(pseudo + message[:2] + b"\0\0" + message[2:])) + message[2:]
    return outer(args, proto, whole)


def icmp(args):
    return [icmp_message(args, bytes.fromhex(message)) for message in args.message.split(",")]


def overlap(args):
    datagram = own_datagram(args, b"a" * 56)
    first = outer(args, socket.IPPROTO_UDP, datagram[:40], fragment=MORE_FRAGMENTS)
    again = outer(args, socket.IPPROTO_UDP, b"b" * 40, fragment=24 // 8)
    return [first, again]


def ask_for_checksum(sock, place):
    """Returns what precedes each frame: struct virtio_net_hdr."""
    if not place:
        return b""
    start, offset = map(int, place.split(","))
    sock.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    return struct.pack("=BBHHHH", NEEDS_CSUM, 0, 0, 0, ETH_BYTES + start, offset)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dest")
    parser.add_argument("dport", type=int)
    parser.add_argument("--kind", default="udp", choices=["udp", "tcp", "arp", "vxlan", "error", "overlap", "icmp", "raw"])
    parser.add_argument("--device", default="eth0")
    parser.add_argument("--source")
    parser.add_argument("--sport", type=int, default=4242)
    parser.add_argument("--source-mac")
    parser.add_argument("--dest-mac")
    parser.add_argument("--ttl", type=int, default=64)
    parser.add_argument("--vni", type=int, default=1, help="of kind vxlan")
    parser.add_argument("--options", default="", help="of IPv4, in hexadecimal, whole words")
    parser.add_argument("--headers", default="", help="extension headers of IPv6: TYPE/HEX,..")
    parser.add_argument("--message", help="of ICMP without checksums, or of kind raw, in hexadecimal")
    parser.add_argument("--fragment", help="OFFSET in units of 8 bytes, + if more follow")
    parser.add_argument("--id", type=int, default=1, help="of the packet that is in fragments")
    parser.add_argument("--cut", type=int, help="send only so many bytes of layer 4")
    parser.add_argument("--flags", default="10", help="of TCP, in hexadecimal; a segment for each, with commas")
    parser.add_argument("--seq", type=int, default=0x7fffffff)
    parser.add_argument("--protocol", default="47", help="numbers, a packet for each, with commas")
    parser.add_argument("--more-fragments", action="store_true", help="of UDP: the first, and no other comes")
    parser.add_argument("--text", default="forged")
    parser.add_argument("--inner-source")
    parser.add_argument("--inner-dest")
    parser.add_argument("--inner-port", type=int)
    parser.add_argument("--inner-mac")
    parser.add_argument("--tcp", dest="kind", action="store_const", const="tcp")
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--checksum-at", metavar="START,OFFSET", help="in bytes of the IP packet")
    parser.add_argument("--vlan", type=int, help="a tag with this id, and priority 5")
    args = parser.parse_args()
    link = ip_json("addr", "show", "dev", args.device)[0]
    family = "inet6" if is_v6(args.dest) else "inet"
    own = [a["local"] for a in link["addr_info"] if a["family"] == family and a["scope"] == "global"]
    args.source = args.source or own[0]
    args.source_mac = args.source_mac or link["address"]
    neighbours = ip_json("neigh", "show", "dev", args.device)
    dest_mac = args.dest_mac or next(n["lladdr"] for n in neighbours if "lladdr" in n)
    frames = globals()[args.kind](args)
    if args.vlan is not None:
        frames = [struct.pack("!HH", 0x8100, 5 << 13 | args.vlan) + frame for frame in frames]
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
        sock.bind((args.device, 0))
        head = ask_for_checksum(sock, args.checksum_at)
        for _ in range(args.count):
            for frame in frames:
                sock.send(head + mac_bytes(dest_mac) + mac_bytes(args.source_mac) + frame)


if __name__ == "__main__":
    main()
