#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test/policy/t_compiler.py [--count N] [--seed N] - the compiler of policies against the reference: what its
rows say about every flow of the matrix and of N random worlds. build/test/policy/runner has the comparison."""
import argparse
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.dirname(os.environ.get("MK_BIN") or os.path.join(HERE, "../../build/monokube"))


def compare(program, args, options):
    """Return the exit status, and what the runner prints."""
    with subprocess.Popen([sys.executable, os.path.join(HERE, program), *args], stdout=subprocess.PIPE) as worlds:
        with subprocess.Popen([os.path.join(BUILD, "test/policy/runner"), *options], stdin=worlds.stdout, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True) as runner:
            worlds.stdout.close()
            said = runner.communicate()[0]
    return runner.returncode or worlds.returncode, said


def main(what="the compiler agrees", *options):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", default="300")
    parser.add_argument("--seed", default="1")
    args = parser.parse_args()
    failed = False
    cases = [("matrix", "matrix.py", ()), ("%s worlds" % args.count, "worlds.py", ("--count", args.count, "--seed", args.seed))]
    print("1..%d" % len(cases))
    for number, (name, *worlds) in enumerate(cases, 1):
        status, said = compare(*worlds, options)
        failed |= status != 0
        print("%sok %d - %s with the reference: %s" % ("not " if status else "", number, what, name))
        print("".join("# %s\n" % line for line in said.splitlines()), end="", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
