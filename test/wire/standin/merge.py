# SPDX-License-Identifier: Apache-2.0
"""Patches: JSON merge patch (RFC 7386), strategic merge patch, and of server-side apply as much as
one manager needs: what it sets, it sets."""
import copy

# The lists that are merged by a key, of each kind; any other list is replaced.
KEYS = {
    "Node": {"conditions": "type", "addresses": "type", "taints": "key"},
    "Service": {"ports": "port", "conditions": "type"},
}
PRIMITIVE = {"finalizers", "podCIDRs"}


def merge(target, patch):
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def merge_list(target, patch, key, keys):
    result = [copy.deepcopy(t) for t in target]
    for item in patch:
        at = next((i for i, t in enumerate(result) if t.get(key) == item.get(key)), None)
        if item.get("$patch") == "delete":
            if at is not None:
                del result[at]
        elif at is None:
            result.append(strategic({}, item, keys))
        else:
            result[at] = strategic(result[at], item, keys)
    return result


def order_list(items, order, key):
    place = {o.get(key) if isinstance(o, dict) else o: i for i, o in enumerate(order)}
    return sorted(items, key=lambda t: place.get(t.get(key) if isinstance(t, dict) else t, len(place)))


def mergeable(items, key):
    return isinstance(items, list) and all(isinstance(i, dict) and key in i for i in items)


def strategic(target, patch, keys=None):
    keys = KEYS.get(target.get("kind"), {}) if keys is None else keys
    if patch.get("$patch") == "replace":
        return {k: v for k, v in patch.items() if k != "$patch"}
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        old = result.get(key)
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = strategic(old or {}, value, keys)
        elif key in keys and mergeable(value, keys[key]):
            result[key] = merge_list(old or [], value, keys[key], keys)
        elif key in PRIMITIVE and isinstance(old, list):
            result[key] = old + [v for v in value if v not in old]
        else:
            result[key] = copy.deepcopy(value)
    for key, value in patch.items():
        if key.startswith("$setElementOrder/"):
            name = key.partition("/")[2]
            if isinstance(result.get(name), list):
                result[name] = order_list(result[name], value, keys.get(name, "name"))
        elif key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            result[name] = [v for v in result.get(name, []) if v not in value]
        elif key == "$retainKeys":
            result = {k: v for k, v in result.items() if k in value}
    return result


def apply(target, patch):
    """As if everything in the Service's ports had been this manager's: what it no longer sets goes."""
    result = strategic(target, patch)
    ports = patch.get("spec", {}).get("ports") if patch.get("kind") == "Service" else None
    if ports:
        result["spec"]["ports"] = [p for p in result["spec"]["ports"] if p["port"] in [q["port"] for q in ports]]
    return result


def without(target, former, patch):
    """@target without the members that a manager has applied before, and applies no longer."""
    for key, value in former.items():
        if key not in patch:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(patch[key], dict) and isinstance(target.get(key), dict):
            without(target[key], value, patch[key])
    return target


def own(target, manager, patch):
    """@target with the fields that @manager has applied. So an apply with other fields changes an object, whatever their values are."""
    def fields(value):
        return {"f:" + key: fields(member) for key, member in value.items()} if isinstance(value, dict) else {}

    meta = target.setdefault("metadata", {})
    others = [entry for entry in meta.get("managedFields", []) if entry["manager"] != manager]
    meta["managedFields"] = others + [{"manager": manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields(patch)}]
    return target


BY_TYPE = {
    "application/merge-patch+json": merge,
    "application/strategic-merge-patch+json": strategic,
    "application/apply-patch+yaml": apply,
}
