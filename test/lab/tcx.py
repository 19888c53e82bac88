#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tcx.py DEVICE ingress|egress - attach a program that passes every packet on, as a tcx link; it goes when standard
input ends."""
import ctypes
import os
import socket
import struct
import sys

SYS_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
PROG_LOAD, LINK_CREATE, SCHED_CLS = 5, 28, 3
ATTACH_TYPES = {"ingress": 46, "egress": 47}
TCX_NEXT = -1


def bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    fd = ctypes.CDLL(None, use_errno=True).syscall(SYS_BPF, command, buffer, len(attributes))
    if fd < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "bpf command %d" % command)
    return fd


def main(device, hook):
    code = ctypes.create_string_buffer(struct.pack("<BBhiBBhi", 0xb7, 0, 0, TCX_NEXT, 0x95, 0, 0, 0))  # r0 = -1; exit
    text = ctypes.create_string_buffer(b"Apache-2.0")
    program = bpf(PROG_LOAD, struct.pack("<IIQQIIQII", SCHED_CLS, 2, ctypes.addressof(code), ctypes.addressof(text), 0, 0, 0, 0, 0))
    bpf(LINK_CREATE, struct.pack("<IIII", program, socket.if_nametoindex(device), ATTACH_TYPES[hook], 0) + bytes(32))
    print("attached", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
