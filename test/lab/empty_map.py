#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""empty_map.py PIN - remove every entry of a pinned map, as another process may do. Entries of an array become
zero. One process does it for all entries, so that a table is empty at one instant, also on a slow machine."""
import ctypes
import sys

from fill_map import Map

ARRAY = 2  # BPF_MAP_TYPE_ARRAY


class Entries(Map):
    def keys(self):
        found, key = {}, None
        following = ctypes.create_string_buffer(self.info.key_size)
        while self.lib.bpf_map_get_next_key(self.fd, key, following) == 0 and following.raw not in found:
            key = following.raw
            found[key] = True
        return list(found)

    def is_zero(self, key):
        there = ctypes.create_string_buffer(self.info.value_size)
        return self.lib.bpf_map_lookup_elem(self.fd, key, there) == 0 and not any(there.raw)

    def empty(self):
        """How many entries were there."""
        is_array = self.info.type == ARRAY
        keys = [key for key in self.keys() if not is_array or not self.is_zero(key)]
        for key in keys:  # one may be gone already
            if is_array:
                self.lib.bpf_map_update_elem(self.fd, key, bytes(self.info.value_size), ctypes.c_uint64(0))
            else:
                self.lib.bpf_map_delete_elem(self.fd, key)
        return len(keys)


if not Entries(sys.argv[1]).empty():
    sys.exit(f"{sys.argv[1]} is empty already")
