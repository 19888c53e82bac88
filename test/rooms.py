#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test/rooms.py [--check] - prints the rooms of src: a room is a folder, the table in src/README.md lists
them in order. With --check it prints only what breaks a rule, and ends with 1 then; `make lint` does that.

- A room includes only itself and rooms above it in the table.
- A header that another room includes, also through a header, is public. Another room uses each of its functions, and their names
  begin with mk_. Functions in other headers have no such prefix.
- Another file uses each function of a header.
- A room has at most 25 files.
- A file without a header of its own begins with a comment.
- The files of the agent's rooms form no circle: x.c with x.h neither includes nor calls a file that includes or calls it."""
import os
import re
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILES_MAX = 25
ACYCLIC = "agent"  # and the rooms below it


def without_comments(text):
    return re.sub(r"//.*", "", re.sub(r"/\*.*?\*/", "", text, flags=re.S))


def plain(text):
    """@text without comments and without the bodies of inline functions and structs."""
    text = without_comments(text)
    while re.search(r"\{[^{}]*\}", text):
        text = re.sub(r"\{[^{}]*\}", "", text)
    return text


def room_of(name):
    return os.path.dirname(name)


class Rooms:
    def __init__(self):
        self.order = re.findall(r"^\| \[[^]]+\]\(([a-z/]+)\) \|", (ROOT / "src/README.md").read_text(), flags=re.M)
        self.text = {str(path.relative_to(ROOT / "src")): path.read_text() for path in sorted((ROOT / "src").rglob("*.[ch]"))}
        self.files = {}
        for name in self.text:
            if room_of(name):
                self.files.setdefault(room_of(name), []).append(name)
        self.includes = {name: re.findall(r'^#include "([a-z_/]+\.h)"', text, flags=re.M) for name, text in self.text.items()}
        self.used_in = {}
        for name, text in self.text.items():
            for word in set(re.findall(r"\w+", without_comments(text))):
                self.used_in.setdefault(word, set()).add(name)
        self.tested = set()
        for path in [*ROOT.glob("test/**/*.[ch]"), *ROOT.glob("perf/*.[ch]"), *ROOT.glob("perf/*/*.[ch]")]:
            self.tested.update(re.findall(r"\w+", without_comments(path.read_text())))

    def public_headers(self):
        """Headers that another room includes, and those that they include in turn."""
        found, queue = set(), [header for name, headers in self.includes.items() for header in headers
                               if header in self.text and room_of(header) != room_of(name)]
        while queue:
            header = queue.pop()
            if header not in found:
                found.add(header)
                queue += [inner for inner in self.includes[header] if inner in self.text]
        return found

    def declared(self, header):
        """Functions that @header declares. A declaration begins at the first column and ends with `;`."""
        return re.findall(r"^(?!static|typedef|extern|#|struct \w+;)[\w *]+?\b(\w+)\([^;{}]*;", plain(self.text[header]), flags=re.M)

    def functions(self):
        """Yields (header, function, whether the header is public)."""
        public = self.public_headers()
        for name in self.text:
            if name.endswith(".h"):
                for function in self.declared(name):
                    yield name, function, name in public

    def used_elsewhere(self, header, function):
        """Another room uses it, or a macro or inline function of a public header does."""
        if any(room_of(name) != room_of(header) for name in self.used_in[function]):
            return True
        return len(re.findall(rf"\b{function}\b", without_comments(self.text[header]))) > 1

    def of_one_file(self, header, function):
        """No other file and no test uses it, nor does a macro or inline function of its header."""
        return (len(self.used_in[function] - {header}) < 2 and function not in self.tested and
                len(re.findall(rf"\b{function}\b", without_comments(self.text[header]))) < 2)

    def unshared(self):
        for header, function, _ in self.functions():
            if self.of_one_file(header, function):
                yield f"src/{header}: no other file uses {function}(): make it static, or remove it"

    def wrong_order(self):
        rank = {room: i for i, room in enumerate(self.order)}
        for room in sorted(set(self.files) ^ set(rank)):
            yield f"src/{room}: the table of src/README.md and the folders differ"
        for name, headers in self.includes.items():
            for header in headers:
                home, other = room_of(name), room_of(header)
                if home in rank and other in rank and rank[other] > rank[home]:
                    yield f"src/{name} includes {header}: {other} is below {home} in the table of src/README.md"

    def wrong_names(self):
        for header, function, public in self.functions():
            if public and not self.used_elsewhere(header, function):
                yield f"src/{header} is public, but only its own folder uses {function}(): declare it in a private header"
            elif public and not function.startswith("mk_"):
                yield f"src/{header} is public: {function}() needs the prefix mk_"
            elif not public and function.startswith("mk_"):
                yield f"src/{header} is private: {function}() must not have the prefix mk_"

    def untitled(self):
        for name, text in self.text.items():
            if name.endswith(".c") and name[:-2] + ".h" not in self.text and not re.match(r".*\n/\*", text):
                yield f"src/{name}: its second line must be a comment that says what the file is for: it has no header"

    def too_large(self):
        for room, names in self.files.items():
            if len(names) > FILES_MAX:
                yield f"src/{room} has {len(names)} files, the ceiling is {FILES_MAX}"

    def uses(self, room):
        """The files of @room, without .c and .h, each with those that it includes or calls."""
        home = {function: name[:-2] for name in self.files[room] if name.endswith(".c") for function in re.findall(
            r"^(?!static)[a-z][\w *]*?\b(\w+)\([^;{}]*\)\s*\{", without_comments(self.text[name]), flags=re.M)}
        files = {name[:-2]: set() for name in self.files[room]}
        for name in self.files[room]:
            files[name[:-2]].update(header[:-2] for header in self.includes[name] if header in self.files[room])
            if name.endswith(".c"):
                files[name[:-2]].update(home[function] for function in home if name in self.used_in[function])
        return {name: others - {name} for name, others in files.items()}

    def circles(self):
        for room in (room for room in self.files if room.split("/")[0] == ACYCLIC):
            try:
                TopologicalSorter(self.uses(room)).prepare()
            except CycleError as error:
                yield f"src/{room}: a circle of files: {', '.join(error.args[1])}"

    def wrong(self):
        yield from self.circles()
        yield from self.wrong_order()
        yield from self.wrong_names()
        yield from self.unshared()
        yield from self.untitled()
        yield from self.too_large()


def report(rooms):
    print(f"{'room':<20}{'files':>6}{'lines':>7}{'public':>8}{'private':>8}")
    functions = list(rooms.functions())
    for room in rooms.order:
        names = rooms.files.get(room, [])
        count = [sum(room_of(header) == room and public == kind for header, _, public in functions) for kind in (True, False)]
        print(f"{room:<20}{len(names):>6}{sum(rooms.text[name].count(chr(10)) for name in names):>7}{count[0]:>8}{count[1]:>8}")


def main():
    rooms = Rooms()
    if sys.argv[1:] != ["--check"]:
        report(rooms)
        return 0
    wrong = list(rooms.wrong())
    for found in wrong:
        print(f"rooms: {found}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
