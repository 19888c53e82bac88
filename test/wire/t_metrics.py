#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test/wire/t_metrics.py [PART OF A NAME...] - the dashboard's queries, and the check of the exposition format itself."""
import json
import os
import sys

sys.dont_write_bytecode = True
from harness import ROOT, Wrong, expect, run  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "test/lab/lib"))
import exposition  # noqa: E402

README = os.path.join(ROOT, "src/agent/README.md")
DASHBOARD = os.path.join(ROOT, "manifests/grafana-dashboard.json")
COUNTER = "# HELP a_total Help.\n# TYPE a_total counter\n"
GAUGE = "# HELP a Help.\n# TYPE a gauge\n"
HISTOGRAM = "# HELP a_seconds Help.\n# TYPE a_seconds histogram\n"


def refused(what, function, *args):
    try:
        function(*args)
    except exposition.Wrong:
        return
    raise Wrong("taken: " + what)


# ---- the format: what Prometheus refuses, or promtool complains of

GOOD = [
    ("nothing", ""),
    ("a family without samples", GAUGE),
    ("values", GAUGE + 'a{l="1"} 1\na{l="2"} -0.5\na{l="3"} 1e-09\na{l="4"} +Inf\na{l="5"} NaN\n'),
    ("labels", COUNTER + 'a_total{x="1",y="\\"\\\\\\n, } ="} 1\na_total{x="2",y=""} 0\n'),
    ("help", "# HELP a back\\\\slash and\\nline \"quoted\"\n# TYPE a gauge\na 1\n"),
    ("histogram", HISTOGRAM + 'a_seconds_bucket{le="0.1"} 1\na_seconds_bucket{le="+Inf"} 2\na_seconds_sum 3.5\na_seconds_count 2\n'),
    ("an info", "# HELP a_info Help.\n# TYPE a_info gauge\na_info{version=\"1\"} 1\n"),
]
BAD = [
    ("no end of line", GAUGE + "a 1"),
    ("no HELP", "# TYPE a gauge\na 1\n"),
    ("no TYPE", "# HELP a Help.\na 1\n"),
    ("neither", "a 1\n"),
    ("empty HELP", "# HELP a \n# TYPE a gauge\na 1\n"),
    ("an escape that is none in HELP", "# HELP a x\\y\n# TYPE a gauge\n"),
    ("unknown type", "# HELP a Help.\n# TYPE a number\n"),
    ("a family twice", GAUGE + "a 1\n" + GAUGE + "a 2\n"),
    ("a sample of the family before", GAUGE + COUNTER + "a 1\n"),
    ("an empty line", GAUGE + "\na 1\n"),
    ("two blanks", GAUGE + "a  1\n"),
    ("a blank at the end", GAUGE + "a 1 \n"),
    ("no value", GAUGE + "a\n"),
    ("a value with a comma", GAUGE + "a 1,5\n"),
    ("a hexadecimal value", GAUGE + "a 0x10\n"),
    ("inf spelled otherwise", GAUGE + "a infinity\n"),
    ("no quotes", GAUGE + "a{l=1} 1\n"),
    ("an open quote", GAUGE + 'a{l="1} 1\n'),
    ("a bare quote inside", GAUGE + 'a{l="1"2"} 1\n'),
    ("a bare backslash", GAUGE + 'a{l="1\\2"} 1\n'),
    ("a label's name", GAUGE + 'a{l-m="1"} 1\n'),
    ("empty braces", GAUGE + "a{} 1\n"),
    ("a label twice", GAUGE + 'a{l="1",l="2"} 1\n'),
    ("a series twice", GAUGE + 'a{l="1"} 1\na{l="1"} 2\n'),
    ("labels in another order, twice", GAUGE + 'a{l="1",m="1"} 1\na{m="1",l="1"} 2\n'),
    ("series with different labels", GAUGE + 'a{l="1"} 1\na{m="1"} 2\n'),
    ("a counter without _total", "# HELP a Help.\n# TYPE a counter\na 1\n"),
    ("a gauge with _total", "# HELP a_total Help.\n# TYPE a_total gauge\na_total 1\n"),
    ("a gauge with _count", "# HELP a_count Help.\n# TYPE a_count gauge\na_count 1\n"),
    ("milliseconds", "# HELP a_milliseconds Help.\n# TYPE a_milliseconds gauge\na_milliseconds 1\n"),
    ("ms", "# HELP a_ms Help.\n# TYPE a_ms gauge\na_ms 1\n"),
    ("a counter below zero", COUNTER + "a_total -1\n"),
    ("a histogram's sample without suffix", HISTOGRAM + "a_seconds 1\n"),
    ("no +Inf", HISTOGRAM + 'a_seconds_bucket{le="0.1"} 1\na_seconds_sum 3.5\na_seconds_count 1\n'),
    ("no sum", HISTOGRAM + 'a_seconds_bucket{le="+Inf"} 2\na_seconds_count 2\n'),
    ("count is another", HISTOGRAM + 'a_seconds_bucket{le="+Inf"} 2\na_seconds_sum 1\na_seconds_count 3\n'),
    ("buckets not summed up", HISTOGRAM + 'a_seconds_bucket{le="1"} 3\na_seconds_bucket{le="+Inf"} 2\na_seconds_sum 1\na_seconds_count 2\n'),
    ("bounds do not rise", HISTOGRAM + 'a_seconds_bucket{le="2"} 1\na_seconds_bucket{le="1"} 1\na_seconds_bucket{le="+Inf"} 1\na_seconds_sum 1\na_seconds_count 1\n'),
]


def right():
    """text that Prometheus takes is taken"""
    for what, text in GOOD:
        try:
            exposition.check(text)
        except exposition.Wrong as wrong:
            raise Wrong("%s: %s" % (what, wrong)) from None


def wrong():
    """text that it refuses, or promtool complains of, is refused"""
    for what, text in BAD:
        refused(what, exposition.check, text)


def series():
    """values of series, by labels"""
    families = exposition.check(COUNTER + 'a_total{x="1",y="\\"\\n"} 7\na_total{x="2",y=""} 8\n')
    expect("one label", exposition.values(families, 'a_total{x="2"}'), [8])
    expect("both, escaped", exposition.values(families, 'a_total{y="\\"\\n",x="1"}'), [7])
    expect("none", exposition.values(families, "a_total"), [7, 8])


# ---- queries

TABLE = "| `a_total` | counter | reason, hook | Help. |\n| `b_seconds` | histogram |  | Help. |\n"
GOOD_QUERIES = [
    'sum by (reason) (rate(a_total{hook=~"x|y", instance=~"$instance"}[$__rate_interval])) > 0',
    "histogram_quantile(0.99, sum by (le) (rate(b_seconds_bucket[5m])))",
    "b_seconds_sum / on (instance) b_seconds_count and time() > 5",
    'topk(10, a_total{reason!="b{c_total}"}) or vector(0)',
]
BAD_QUERIES = [
    ("no metric", "time() - 5"),
    ("unknown metric", "sum(rate(c_total[5m]))"),
    ("the second is unknown", "a_total / c_total"),
    ("a part of a name", "rate(a_tota[5m])"),
    ("unknown label", 'a_total{node="x"}'),
    ("unknown label to group by", "sum by (node) (a_total)"),
    ("a histogram without suffix", "rate(b_seconds[5m])"),
    ("a bucket of a counter", "a_total_bucket"),
]


def board(*exprs):
    return {"panels": [{"id": 1, "title": "t", "targets": [{"expr": e} for e in exprs]}]}


def queries():
    """queries: metrics and labels that nobody serves are found"""
    for query in GOOD_QUERIES:
        try:
            exposition.check_dashboard(board(query), TABLE)
        except exposition.Wrong as wrong:
            raise Wrong(str(wrong)) from None
    for what, query in BAD_QUERIES:
        refused(what, exposition.check_dashboard, board(query), TABLE)
    refused("a dashboard without queries", exposition.check_dashboard, board(), TABLE)


def dashboard():
    """every query of the dashboard names metrics and labels of the page's table"""
    exposition.check_dashboard(json.loads(exposition.read(DASHBOARD)), exposition.read(README))


def importable():
    """the dashboard can be imported"""
    board_ = json.loads(exposition.read(DASHBOARD))
    expect("uid", board_["uid"], "monokube")
    expect("a number of one Grafana's own", "id" in board_, False)
    cells = []
    for panel in board_["panels"]:
        place = panel["gridPos"]
        cells += [(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])]
        if panel["type"] != "row":
            expect("data source of '%s'" % panel["title"], panel["datasource"]["uid"], "${datasource}")
    expect("panels beyond the edge", [x for x, _ in cells if x >= 24], [])
    expect("cells of panels that overlap", len(cells) - len(set(cells)), 0)


TESTS = [right, wrong, series, queries, dashboard, importable]

if __name__ == "__main__":
    sys.exit(run(TESTS))
