#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""fill_map.py fill PATH [BYTE]|clear PATH - entries that mean nothing until a pinned hash map takes no more,
their values of zeros or of BYTE; or the same ones out again. Their keys begin with an address of 240.0.0.0/4,
which nobody has. Map pods, an array, gets pods with such addresses into its free slots."""
import ctypes
import errno
import os
import struct
import sys

BATCH = 16384


class Info(ctypes.Structure):  # struct bpf_map_info, as much as is read
    _fields_ = [(name, ctypes.c_uint32) for name in ("type", "id", "key_size", "value_size", "max_entries", "flags")]


class Map:
    def __init__(self, path):
        self.lib = ctypes.CDLL("libbpf.so.1", use_errno=True)
        self.fd = self.lib.bpf_obj_get(path.encode())
        self.info = Info()
        size = ctypes.c_uint32(ctypes.sizeof(Info))
        if self.fd < 0 or self.lib.bpf_obj_get_info_by_fd(self.fd, ctypes.byref(self.info), ctypes.byref(size)) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)

    def batches(self):
        """Keys of as many entries as the map has room for in all."""
        pad = bytes(self.info.key_size - 4)
        for first in range(0, self.info.max_entries, BATCH):
            numbers = range(first, min(first + BATCH, self.info.max_entries))
            yield b"".join(struct.pack(">I", 0xf0000000 + n) + pad for n in numbers), len(numbers)

    def each(self, call, accepted, *more):
        """Until @call, one of libbpf's for a batch, says @accepted; how many entries it took."""
        total = 0
        for keys, count in self.batches():
            done = ctypes.c_uint32(count)
            result = call(self.fd, keys, *[m(count) for m in more], ctypes.byref(done), None)
            total += done.value
            code = ctypes.get_errno()
            if result < 0 and code != accepted:
                raise OSError(code, os.strerror(code))
            if result < 0:
                break
        return total

    def fill(self, byte="0"):
        values = lambda count: bytes([int(byte)]) * (count * self.info.value_size)  # noqa: E731
        return self.each(self.lib.bpf_map_update_batch, errno.E2BIG, values)

    def clear(self):
        return self.each(self.lib.bpf_map_delete_batch, errno.ENOENT)


class Pods(Map):
    """struct mk_pod: an address at the end, zero in a free slot."""

    def replace(self, wanted, value):
        """In the slots whose address @wanted likes; how many these are."""
        total = 0
        for slot in range(self.info.max_entries):
            key, there = struct.pack("=I", slot), ctypes.create_string_buffer(self.info.value_size)
            if self.lib.bpf_map_lookup_elem(self.fd, key, there) < 0:
                raise OSError(ctypes.get_errno(), "cannot read a slot")
            if wanted(struct.unpack(">I", there.raw[-4:])[0]):
                self.lib.bpf_map_update_elem(self.fd, key, value(slot), ctypes.c_uint64(0))
                total += 1
        return total

    def fill(self):
        pad = bytes(self.info.value_size - 4)
        return self.replace(lambda addr: addr == 0, lambda slot: pad + struct.pack(">I", 0xf0000000 + slot))

    def clear(self):
        return self.replace(lambda addr: addr >= 0xf0000000, lambda slot: bytes(self.info.value_size))


def main(command, path, *arguments):
    entries = Pods(path) if os.path.basename(path) == "pods" else Map(path)
    print({"fill": entries.fill, "clear": entries.clear}[command](*arguments))


if __name__ == "__main__":
    main(*sys.argv[1:])
