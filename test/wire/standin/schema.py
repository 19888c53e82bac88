# SPDX-License-Identifier: Apache-2.0
"""What a server does with an object of a CustomResourceDefinition: refuse or prune unknown fields, fill in
defaults, check values and rules. Rules (CEL) may use has(), size(), matches(), comparisons, && || and !, and end with one exists()."""
import functools
import os
import re

import yaml

MANIFESTS = [os.path.join(os.path.dirname(__file__), "../../../manifests", name) for name in ("chains.yaml", "multicluster.yaml", "mcs.yaml")]
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}


@functools.lru_cache(None)
def resources():
    """The names and schemas of manifests/."""
    found = []
    for path in MANIFESTS:
        with open(path) as f:
            found += [(o["spec"]["names"], o["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
                      for o in yaml.safe_load_all(f) if o["kind"] == "CustomResourceDefinition"]
    return found


@functools.lru_cache(None)
def of_kinds():
    return {names["kind"]: schema for names, schema in resources()}


@functools.lru_cache(None)
def of_plurals():
    return {names["plural"]: schema for names, schema in resources()}


def of_chains():
    return of_kinds()["ServiceFunctionChain"]


def holds(rule, value, old):
    """Is this rule of CEL true for @value? One about oldSelf holds for a new object, @old None."""
    if "oldSelf" in rule and old is None:
        return True
    for pattern, python in ((r"(self[.\w]*)\.matches\('([^']*)'\)", r"matches('\2', \1)"), (r"(self[.\w]*)\.exists\((\w+), (.*)\)$", r"any(\3 for \2 in \1)"),
                            (r"has\((\w+)\.(\w+)\)", r"('\2' in \1)"), (r"has\((\w+)\.(\w+)\.(\w+)\)", r"('\3' in \1['\2'])"), (r"(\w+)\.(\w+)\.size\(\)", r"len(\1['\2'])"),
                            (r"(\w+)\.(\w+)", r"\1['\2']"), (r"\]\.(\w+)", r"]['\1']"),
                            (r"\|\|", " or "), ("&&", " and "), (r"!(?!=)", " not ")):
        rule = re.sub(pattern, python, rule)
    return eval(rule.strip(), {"self": value, "oldSelf": old, "matches": re.search})  # pylint: disable=eval-used


def unknown(value, schema, at=""):
    """The paths of fields that the schema does not have."""
    if isinstance(value, list):
        return [x for i, v in enumerate(value) for x in unknown(v, schema.get("items", {}), "%s[%d]" % (at, i))]
    if not isinstance(value, dict) or at == ".metadata" or "additionalProperties" in schema:
        return []
    fields = schema.get("properties", {})
    return [x for k, v in value.items() for x in (unknown(v, fields[k], at + "." + k) if k in fields else [at + "." + k])]


def fill_in(value, schema):
    """Remove unknown fields, and set defaults."""
    for item in value if isinstance(value, list) else ():
        fill_in(item, schema.get("items", {}))
    fields = schema.get("properties", {})
    if not isinstance(value, dict) or not fields:
        return
    for name in value.keys() - fields.keys():
        del value[name]
    for name, field in fields.items():
        if "default" in field:
            value.setdefault(name, field["default"])
        fill_in(value.get(name), field)


def faults_of_value(value, schema):
    kind = TYPES[schema["type"]]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        return ["must be of type " + schema["type"]]
    size = value if kind is int else len(value) if kind in (str, list) else 0
    low = schema.get("minimum", schema.get("minItems", schema.get("minLength")))
    high = schema.get("maximum", schema.get("maxItems", schema.get("maxLength")))
    return (["should be at least %d" % low] if low is not None and size < low else []) + \
        (["should be at most %d" % high] if high is not None and size > high else []) + \
        (["supported values: %s" % schema["enum"]] if value not in schema.get("enum", [value]) else []) + \
        (["should match '%s'" % schema["pattern"]] if "pattern" in schema and not re.search(schema["pattern"], value) else [])


def faults(value, schema, at="", old=None):
    """What is wrong with @value, which replaces @old, as "path: why"."""
    found = ["%s: %s" % (at, why) for why in faults_of_value(value, schema)]
    if found:
        return found
    if isinstance(value, list):
        found += [x for i, v in enumerate(value) for x in faults(v, schema["items"], "%s[%d]" % (at, i))]
        keys = [[v.get(k) for k in schema["x-kubernetes-list-map-keys"]] for v in value] \
            if "x-kubernetes-list-map-keys" in schema and not found else []
        found += ["%s[%d]: Duplicate value" % (at, i) for i, k in enumerate(keys) if k in keys[:i]]
    elif isinstance(value, dict) and at != ".metadata":
        found += ["%s.%s: Required value" % (at, k) for k in schema.get("required", []) if k not in value]
        found += [x for k, v in value.items() for x in faults(
            v, schema.get("properties", {}).get(k) or schema["additionalProperties"], "%s.%s" % (at, k),
            old.get(k) if isinstance(old, dict) else None)]
    if not found:
        found = ["%s: %s" % (at, r["message"]) for r in schema.get("x-kubernetes-validations", []) if not holds(r["rule"], value, old)]
    return found
