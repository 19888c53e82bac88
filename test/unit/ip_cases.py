#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test/unit/ip_cases.py COUNT SEED - prints random ranges and what Python's ipaddress makes of them, for test_ip.
A line has: range, network, mask, size (at most 2^32 - 1), an offset, the address there, another address,
whether the range contains it (1 or 0), and the MAC address of the former."""
import ipaddress
import random
import sys


def address(bits, near):
    """An address at random, or one that differs from @near in one bit."""
    value = random.getrandbits(bits) if random.random() < 0.3 else int(near) ^ 1 << random.randrange(bits)
    return type(near)(value)


def case(kind, bits):
    first = kind(random.getrandbits(bits) & (-1 << random.randrange(bits)))
    network = ipaddress.ip_network((first, random.randint(0, bits)), strict=False)
    size = min(network.num_addresses, 2**32 - 1)
    offset = random.choice((0, size - 1, random.randrange(size)))
    nth, other = network[offset], address(bits, first)
    mac = bytes((0x02, 0x4D)) + nth.packed[-4:]
    return (f"{first}/{network.prefixlen}", network, network.netmask, size, offset, nth, other, int(other in network), mac.hex(":"))


random.seed(int(sys.argv[2]))
for turn in range(int(sys.argv[1])):
    print(*case(*((ipaddress.IPv6Address, 128) if turn % 2 else (ipaddress.IPv4Address, 32))))
