#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test/lab/lib/exposition.py check FILE | value FILE SERIES | served PAGE FILE... - metrics as Prometheus reads them.

check: is FILE the text exposition format, version 0.0.4, and does it keep to the conventions that
`promtool check metrics` asks for? value: print the value of SERIES, `name{label="value",..}`, labels in any
order, those not named free; one line per series. served: have the FILEs together the families, types, labels
and words of the table in PAGE? What is wrong goes to standard error.
"""
import math
import re
import sys

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(r"(%s)(?:\{((?:%s)(?:,(?:%s))*)\})? (\S+)" % (NAME, LABEL, LABEL))
TYPES = ("counter", "gauge", "histogram")
FREE_LABELS = {"job", "instance"}  # Prometheus adds them


class Wrong(Exception):
    pass


def expect(condition, *what):
    if not condition:
        raise Wrong(" ".join(str(w) for w in what))


class Family:
    def __init__(self, name, help_):
        self.name, self.help, self.type, self.samples = name, help_, None, []

    def label_names(self):
        return {name for _, labels, _ in self.samples for name in labels} - {"le"}


def read_value(text):
    words = {"+Inf": math.inf, "-Inf": -math.inf, "NaN": math.nan}
    if text in words:
        return words[text]
    expect(re.fullmatch(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?", text), "no number:", text)
    return float(text)


def read_labels(text):
    pairs = re.findall(LABEL, text or "")
    unescape = lambda v: re.sub(r'\\(["\\n])', lambda m: {"n": "\n"}.get(m[1], m[1]), v)  # noqa: E731
    expect(len(dict(pairs)) == len(pairs), "a label twice:", text)
    return {name: unescape(value) for name, value in pairs}


def parse(text):
    """Families by name. Every one has HELP, TYPE and its samples together, in this order."""
    families, family = {}, None
    expect(not text or text.endswith("\n"), "the last line has no end")
    for number, line in enumerate(text.split("\n")[:-1], 1):
        try:
            family = parse_line(line, families, family)
        except Wrong as wrong:
            raise Wrong("line %d: %s: %s" % (number, wrong, line)) from None
    return families


def parse_line(line, families, family):
    help_ = re.fullmatch(r"# HELP (%s) (.+)" % NAME, line)
    if help_:
        expect(help_[1] not in families, "a family twice")
        expect(re.fullmatch(r"(?:[^\\]|\\[\\n])*", help_[2]), "an escape that is none")
        families[help_[1]] = Family(help_[1], help_[2])
        return families[help_[1]]
    type_ = re.fullmatch(r"# TYPE (%s) (\w+)" % NAME, line)
    if type_:
        expect(family and family.name == type_[1] and not family.type, "TYPE does not follow HELP")
        expect(type_[2] in TYPES, "unknown type")
        family.type = type_[2]
        return family
    sample = SAMPLE.fullmatch(line)
    expect(sample, "neither HELP nor TYPE nor a sample")
    suffixes = ("_bucket", "_sum", "_count") if family and family.type == "histogram" else ("",)
    expect(family and family.type and sample[1] in [family.name + s for s in suffixes], "not of the family before it")
    family.samples.append((sample[1], read_labels(sample[2]), read_value(sample[7])))
    return family


# ---- conventions

def check_family(family):
    name = family.name
    expect(family.type, "no TYPE")
    expect((family.type == "counter") == name.endswith("_total"), "a", family.type, "with such a name")
    expect(name.endswith("_info") or not re.search(r"_(count|sum|bucket|info)$", name), "a suffix that others have")
    expect(not re.search(r"(milli|micro|nano|kilo|mega)|_(ms|us|ns|kib|mib|percent|minutes|hours)(_|$)", name), "no base unit")
    series = [(n, tuple(sorted(labels.items()))) for n, labels, _ in family.samples]
    expect(len(set(series)) == len(series), "a series twice")
    expect(len({frozenset(set(labels) - {"le"}) for _, labels, _ in family.samples}) <= 1, "series with different labels")
    for n, labels, value in family.samples:
        expect(family.type == "gauge" or value >= 0, n, labels, "is below zero")
    if family.type == "histogram":
        check_histogram(family)


def check_histogram(family):
    parts = {}
    for name, labels, value in family.samples:
        key = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
        parts.setdefault(key, []).append((name[len(family.name):], labels.get("le"), value))
    for key, rows in parts.items():
        buckets = [(read_value(le), value) for suffix, le, value in rows if suffix == "_bucket"]
        rest = {suffix: value for suffix, _, value in rows if suffix != "_bucket"}
        expect(buckets == sorted(buckets) and len({b for b, _ in buckets}) == len(buckets), key, "bounds do not rise")
        expect([v for _, v in buckets] == sorted(v for _, v in buckets), key, "buckets are not summed up")
        expect(buckets and buckets[-1][0] == math.inf, key, "no bucket +Inf")
        expect(set(rest) == {"_sum", "_count"}, key, "no _sum or no _count")
        expect(rest["_count"] == buckets[-1][1], key, "_count is not the last bucket")


def check(text):
    families = parse(text)
    for family in families.values():
        try:
            check_family(family)
        except Wrong as wrong:
            raise Wrong("%s: %s" % (family.name, wrong)) from None
    return families


# ---- queries

def values(families, series):
    wanted = re.fullmatch(r"(%s)(?:\{(.*)\})?" % NAME, series)
    expect(wanted, "no series:", series)
    labels = read_labels(wanted[2])
    return [value for family in families.values() for name, has, value in family.samples
            if name == wanted[1] and all(has.get(k) == v for k, v in labels.items())]


KEYWORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan"}


def query_metrics(query):
    """(metric, labels it is asked for) of a PromQL query, and the labels it is grouped by."""
    found, grouped = [], set()
    text = re.sub(r"\[[^\]]*\]", "", query)
    for match in re.finditer(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)", text):
        grouped |= {label.strip() for label in match[1].split(",") if label.strip()}
    text = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", " ", text)
    for match in re.finditer(r'(%s)\s*(\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?(\s*\()?' % NAME, text):
        if match[4] or match[1] in KEYWORDS:
            continue
        found.append((match[1], set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", re.sub(r'"(?:[^"\\]|\\.)*"', '""', match[3] or "")))))
    return found, grouped


def family_of(families, metric):
    for family in families.values():
        suffixes = ("_bucket", "_sum", "_count") if family.type == "histogram" else ("",)
        if metric in [family.name + s for s in suffixes]:
            return family
    return None


def table(readme):
    """Families of the table of metrics in src/agent/README.md, and the labels that it says they have."""
    families, labels = {}, {}
    for name, type_, names, help_ in re.findall(r"^\| `(%s)` \| (\w+) \| ([a-z, ]*) ?\| (.*) \|$" % NAME, readme, re.M):
        families[name] = Family(name, help_)
        families[name].type = type_
        labels[name] = {label.strip() for label in names.split(",") if label.strip()}
    expect(families, "the page has no table of metrics")
    return families, labels


def check_served(families, readme):
    known, labels = table(readme)
    expect(set(families) == set(known), "the page and the agent differ:", " ".join(sorted(set(families) ^ set(known))))
    for name, family in families.items():
        expect((family.type, family.help) == (known[name].type, known[name].help), name, "is another in the page")
        expect(not family.samples or family.label_names() == labels[name],
               name, "has labels", family.label_names(), "not", labels[name])


def check_query(families, query, labels_known):
    metrics, grouped = query_metrics(query)
    expect(metrics, "names no metric")
    has = set(FREE_LABELS)
    for metric, labels in metrics:
        family = family_of(families, metric)
        expect(family, "nobody serves", metric)
        own = labels_known[family.name] | {"le"} | FREE_LABELS
        expect(labels <= own, metric, "has no label", ", ".join(labels - own))
        has |= own
    expect(grouped <= has, "no label to group by:", ", ".join(grouped - has))


def queries(dashboard):
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
        yield from queries({"panels": panel.get("panels", [])})
    for variable in dashboard.get("templating", {}).get("list", []):
        match = re.fullmatch(r"label_values\((.*), *\w+\)", variable.get("definition", ""))
        if match:
            yield "variable " + variable["name"], match[1]


def check_dashboard(dashboard, readme):
    """Does every query name metrics that there are, with labels that those have?"""
    families, labels_known = table(readme)
    seen = 0
    for title, query in queries(dashboard):
        try:
            check_query(families, query, labels_known)
        except Wrong as wrong:
            raise Wrong("panel '%s': %s: %s" % (title, wrong, query)) from None
        seen += 1
    expect(seen, "the dashboard has no query")
    ids = [panel["id"] for panel in dashboard["panels"]]
    expect(len(set(ids)) == len(ids), "a panel's id twice")


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def main(command, *args):
    if command == "check":
        check(read(args[0]))
    elif command == "value":
        for value in values(check(read(args[0])), args[1]):
            print("%.15g" % value)
    elif command == "served":
        families = {}
        for path in args[1:]:
            families.update(check(read(path)))
        check_served(families, read(args[0]))
    else:
        raise Wrong("unknown command '%s': expected check, value or served" % command)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (Wrong, OSError, TypeError) as error:
        sys.exit("exposition.py: %s" % error)
