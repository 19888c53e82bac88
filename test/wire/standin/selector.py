# SPDX-License-Identifier: Apache-2.0
"""Label and field selectors."""
import re

from .store import Status

REQUIREMENT = re.compile(r"""^(?:
    !(?P<absent>[^\s=!,()]+)
  | (?P<key>[^\s=!,()]+)\s*(?:(?P<op>==|=|!=)\s*(?P<value>[^\s,()]*))?
  | (?P<set>[^\s=!,()]+)\s+(?P<how>in|notin)\s*\((?P<values>[^)]*)\)
)$""", re.VERBOSE)


def split(text):
    """At commas outside parentheses."""
    return [p.strip() for p in re.split(r",(?![^(]*\))", text) if p.strip()]


def label_requirement(text):
    m = REQUIREMENT.match(text)
    if not m:
        raise Status(400, "BadRequest", "unable to parse requirement: found '%s'" % text)
    if m["absent"]:
        return lambda labels: m["absent"] not in labels
    if m["set"]:
        values = [v.strip() for v in m["values"].split(",")]
        return lambda labels: (labels.get(m["set"]) in values) == (m["how"] == "in")
    if not m["op"]:
        return lambda labels: m["key"] in labels
    if m["op"] == "!=":
        return lambda labels: labels.get(m["key"]) != m["value"]
    return lambda labels: labels.get(m["key"]) == m["value"]


FIELDS = {"metadata.name", "metadata.namespace", "involvedObject.name", "involvedObject.kind", "involvedObject.uid",
          "involvedObject.namespace", "reason", "type", "spec.clusterIP", "spec.type", "spec.nodeName",
          "spec.hostNetwork", "status.podIP", "status.phase"}


def field_requirement(text):
    path, op, value = re.match(r"([^=!]*)(==|=|!=|)(.*)", text).groups()
    if path not in FIELDS:
        raise Status(400, "BadRequest", "field label not supported: %s" % path)
    first, _, second = path.partition(".")

    def check(obj):
        got = obj.get(first, "") if not second else obj.get(first, {}).get(second, "")
        got = got if isinstance(got, str) else str(got).lower()
        if path == "spec.hostNetwork":
            got = got or "false"
        return (got == value) == (op != "!=")
    return check


def matcher(query):
    """A function from object to bool, for labelSelector and fieldSelector of a request."""
    labels = [label_requirement(p) for p in split(query.get("labelSelector", ""))]
    fields = [field_requirement(p) for p in split(query.get("fieldSelector", ""))]

    def matches(obj):
        have = obj["metadata"].get("labels") or {}
        return all(r(have) for r in labels) and all(r(obj) for r in fields)
    return matches
