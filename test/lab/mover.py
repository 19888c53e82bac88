#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""mover.py INSIDE OUTSIDE [reflect]: a function of mode Inline. It moves frames from one port to the other, by
AF_PACKET as Suricata does. With `reflect` it sends each frame back to where it came from."""
import select
import socket
import sys

ETH_P_ALL = 3


def main(names, reflects):
    ends = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW) for _ in range(2)]
    for end, device in zip(ends, names):
        end.bind((device, ETH_P_ALL))
        end.setblocking(False)
    print("running", flush=True)
    while True:
        for end in select.select(ends, [], [])[0]:
            frame, (_, _, kind, *_) = end.recvfrom(65536)
            if kind != socket.PACKET_OUTGOING:
                (end if reflects else ends[end is ends[0]]).send(frame)


if __name__ == "__main__":
    main(sys.argv[1:3], sys.argv[3:] == ["reflect"])
