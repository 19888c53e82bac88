#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test/lab/tunnel.py NETNS NETNS - a tunnel without Ethernet, as WireGuard's: a device tun0 in each of two network
namespaces, and what goes into one comes out of the other. Ends when it is killed; the devices go with it."""
import ctypes
import fcntl
import os
import selectors
import struct
import sys

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 1, 0x1000
CLONE_NEWNET = 0x40000000


def open_end(netns):
    """The kernel makes the device in the network namespace of who asks."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{netns}") as there:
        if libc.setns(there.fileno(), CLONE_NEWNET) != 0:
            sys.exit(f"tunnel.py: setns({netns}): {os.strerror(ctypes.get_errno())}")
    end = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", b"tun0", IFF_TUN | IFF_NO_PI))
    return end


def main():
    ends = [open_end(netns) for netns in sys.argv[1:3]]
    ready = selectors.DefaultSelector()
    for end, other in zip(ends, reversed(ends)):
        ready.register(end, selectors.EVENT_READ, other)
    print("tunnel is there", flush=True)
    while True:
        for key, _ in ready.select():
            try:
                os.write(key.data, os.read(key.fd, 65536))
            except OSError:  # the device is down
                pass


main()
