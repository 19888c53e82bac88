#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""attackers.py ATTACK - packets that scapy makes, for t_policy_attackers.sh. Prints how many."""
import argparse
import ipaddress
import random

from scapy.all import *  # pylint: disable=wildcard-import,unused-wildcard-import

conf.verb = 0
PORT, DATAGRAMS, CLOSED = 8080, 5353, 9090  # what friends may ask by TCP and UDP, and what they may not
TUNNEL = 4789


def v6(args):
    return ipaddress.ip_address(args.to).version == 6


def ip(args, source=None, to=None, **fields):
    """A header of the family, from @source to @to."""
    return (IPv6 if v6(args) else IP)(src=source or args.source, dst=to or args.to, **fields)


def syn(**fields):
    return TCP(**{"sport": 4242, "dport": PORT, "flags": "S", **fields})


# ---- attacks: each returns packets without their Ethernet header


def pieces(args, number, *parts):
    """Fragments of one packet: (offset in 8 bytes, more, bytes)."""
    if v6(args):
        return [ip(args) / IPv6ExtHdrFragment(nh=args.protocol, offset=at, m=more, id=number) / Raw(data) for at, more, data in parts]
    return [ip(args, id=number & 0xffff, proto=args.protocol, frag=at, flags="MF" if more else 0) / Raw(data) for at, more, data in parts]


def overlapping(args):
    """RFC 1858 and 3128: a later fragment that rewrites ports or flags; teardrop; and others."""
    packets = []
    for args.protocol, header in ((17, UDP(sport=4242, dport=DATAGRAMS)), (6, syn(flags="A"))):
        first, other = bytes(header / Raw(b"a" * 44)), bytes(header.__class__(bytes(header))) + b"b" * 44
        other = other[:2] + CLOSED.to_bytes(2, "big") + other[4:]
        first, other = first[: len(first) // 8 * 8], other[: len(other) // 8 * 8]
        number = random.getrandbits(31)
        packets += pieces(args, number, (0, 1, first[:24]), (0, 1, other[:24]), (3, 0, first[24:]))
        packets += pieces(args, number + 1, (0, 1, first), (1, 0, other[8:24]))
        packets += pieces(args, number + 2, (0, 1, other[:16]), (0, 1, first[:16]), (1, 1, other[8:24]), (3, 0, b"c" * 8))
        packets += pieces(args, number + 3, (1, 1, first[8:24]), (0, 1, first[:8]), (3, 0, first[24:]))
        packets += pieces(args, number + 4, (0, 1, other), (8190, 0, b"d" * 64))
    return packets


def headers(args):
    """Chains of extension headers, of IPv4 options in IPv4."""
    if not v6(args):
        routers = [args.friend, args.to]
        chains = [IPOption_RR(routers=routers), IPOption_LSRR(routers=routers), IPOption_SSRR(routers=routers),
                  IPOption_Router_Alert(), IPOption_Timestamp(pointer=5), IPOption_Stream_Id(), IPOption_Traceroute(), IPOption(b"\x9e\x04ab")]
        return [ip(args, options=option) / layer for option in chains for layer in (syn(), UDP(sport=4242, dport=DATAGRAMS), ICMP())]
    padding = [PadN(optdata=b"\0" * 4)]
    chains = [
        IPv6ExtHdrHopByHop(options=[RouterAlert()]),
        IPv6ExtHdrDestOpt(options=padding),
        IPv6ExtHdrDestOpt(options=[HAO(hoa=args.friend)]),
        IPv6ExtHdrRouting(addresses=[args.friend]),
        IPv6ExtHdrRouting(type=2, addresses=[args.friend]),
        IPv6ExtHdrSegmentRouting(addresses=[args.friend, args.to]),
        IPv6ExtHdrFragment(),
        IPv6ExtHdrHopByHop(options=padding) / IPv6ExtHdrDestOpt() / IPv6ExtHdrFragment() / IPv6ExtHdrDestOpt(),
        IPv6ExtHdrFragment(id=1) / IPv6ExtHdrFragment(id=2),
        IPv6ExtHdrDestOpt(options=padding) / IPv6ExtHdrHopByHop(),
    ]
    for count in (2, 5, 8, 12):
        chain = IPv6ExtHdrDestOpt(options=padding)
        for _ in range(count):
            chain = chain / IPv6ExtHdrDestOpt(options=padding)
        chains.append(chain)
    return [ip(args) / chain / layer for chain in chains for layer in (syn(), UDP(sport=4242, dport=DATAGRAMS), ICMPv6EchoRequest())]


def associations(args):
    """Chunks of SCTP, alone and together."""
    chunks = [SCTPChunkInit(init_tag=1), SCTPChunkInitAck(init_tag=1), SCTPChunkCookieEcho(cookie=b"cake"), SCTPChunkCookieAck(),
              SCTPChunkAbort(), SCTPChunkShutdown(), SCTPChunkHeartbeatReq(), SCTPChunkData(data=b"data"),
              SCTPChunkInit(init_tag=1) / SCTPChunkData(data=b"data"), SCTPChunkAddressConf()]
    return [ip(args) / SCTP(sport=4242, dport=PORT) / chunk for chunk in chunks]


def errors(args):
    """ICMP errors about the friend's connection, to both of its ends."""
    quoted = [(args.to, ip(args, args.to, args.friend) / TCP(sport=PORT, dport=args.friend_port, seq=1)),
              (args.friend, ip(args, args.friend, args.to) / TCP(sport=args.friend_port, dport=PORT, seq=1))]
    if v6(args):
        kinds = [ICMPv6DestUnreach(code=code) for code in range(8)] + [ICMPv6PacketTooBig(mtu=1280), ICMPv6TimeExceeded(), ICMPv6ParamProblem()]
        quotes = [(to, IPerror6(bytes(packet))) for to, packet in quoted]
    else:
        kinds = [ICMP(type=3, code=code, nexthopmtu=600) for code in range(16)]
        kinds += [ICMP(type=4), ICMP(type=11), ICMP(type=12)]
        quotes = [(to, IPerror(bytes(packet))) for to, packet in quoted]
    return [ip(args, to=to) / kind / quote for kind in kinds for to, quote in quotes]


def tunnels(args):
    """A friend's packet inside of what its sender may send, or not."""
    inner = ip(args, args.friend) / syn()
    frame = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / inner
    other = IP(src="192.0.2.1", dst="192.0.2.2") if v6(args) else IPv6(src="2001:db8::1", dst="2001:db8::2")
    packets = [ip(args) / tunnel for tunnel in (GRE() / inner, inner, other / syn(), ESP(spi=1, seq=1, data=b"\0" * 32), AH(spi=1, seq=1) / syn(),
                                                UDP(sport=4242, dport=TUNNEL) / VXLAN(vni=args.vni) / frame, UDP(sport=4242, dport=6081) / Raw(bytes(frame)))]
    within = frame.__class__(src=frame.src, dst=frame.dst) / ip(args, args.friend) / UDP(sport=4242, dport=TUNNEL) / VXLAN(vni=args.vni) / frame
    return packets + [ip(args, to=args.node[0]) / UDP(sport=4242, dport=TUNNEL) / VXLAN(vni=args.vni) / layer for layer in (frame, within)]


def fuzzed(args):
    """Random fields in each layer, from the own address to the victim's."""
    layers = [TCP(), UDP(), ICMPv6EchoRequest(type=RandNum(1, 129)) if v6(args) else ICMP(), SCTP() / SCTPChunkInit()]
    outer = ip(args) if v6(args) else IP(src=args.source, dst=args.to, ttl=RandByte(), id=RandShort(), tos=RandByte())
    return [outer / fuzz(layer.copy()) / Raw(random.randbytes(random.randrange(64))) for _ in range(100) for layer in layers]


def neighbours(args):
    """The sender claims the addresses of all others: frames with their Ethernet header."""
    mac, claimed = args.own_mac, [args.friend, args.to, *args.node]
    if v6(args):
        messages = [ip(args, address, to) / message for address in claimed for to in (args.friend, "ff02::1") for message in (
            ICMPv6ND_NA(tgt=address, R=0, S=0, O=1) / ICMPv6NDOptDstLLAddr(lladdr=mac), ICMPv6ND_NS(tgt=args.friend) / ICMPv6NDOptSrcLLAddr(lladdr=mac),
            ICMPv6ND_RA() / ICMPv6NDOptSrcLLAddr(lladdr=mac), ICMPv6ND_Redirect(tgt=args.source, dst=address))]
        for message in messages:
            message.hlim = 255
        return [Ether(src=mac, dst=to) / message for message in messages for to in (args.mac, "33:33:00:00:00:01")]
    return [Ether(src=mac, dst=to) / ARP(op=op, hwsrc=mac, psrc=address, hwdst=args.mac, pdst=target)
            for address in claimed for op in ("is-at", "who-has") for target in (args.friend, address) for to in (args.mac, "ff:ff:ff:ff:ff:ff")]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("attack")
    parser.add_argument("--source", required=True, help="own address")
    parser.add_argument("--to", required=True)
    parser.add_argument("--friend", required=True)
    parser.add_argument("--friend-port", type=int, default=40000)
    parser.add_argument("--node", action="append", default=[])
    parser.add_argument("--vni", type=int, required=True)
    parser.add_argument("--mac", required=True, help="of the next hop")
    args = parser.parse_args()
    random.seed(1)
    args.own_mac = get_if_hwaddr("eth0")
    frames = [packet if Ether in packet and packet.name == "Ethernet" else Ether(src=args.own_mac, dst=args.mac) / packet
              for packet in globals()[args.attack](args)]
    sendp(frames, iface="eth0")
    print(len(frames))


if __name__ == "__main__":
    main()
