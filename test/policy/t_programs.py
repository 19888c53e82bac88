#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test/policy/t_programs.py [--count N] [--seed N] - the programs of two nodes against the reference: packets of
the matrix and of N random worlds, through the tables that the agent writes. build/test/policy/runner --programs
has the comparison."""
import sys

sys.dont_write_bytecode = True
import t_compiler  # noqa: E402

if __name__ == "__main__":
    sys.exit(t_compiler.main("the programs agree", "--programs"))
