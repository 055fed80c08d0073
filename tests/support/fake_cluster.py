"""A small API server in memory that keeps its promises: versions, generations, uids, the status apart, and SSA.

It knows what the operator relies on and no more:

- `resourceVersion` grows with every change of anything and stays when a write changes nothing; a write that carries an
  older one is a `Conflict`. `generation` grows when something besides metadata and status changes.
- `create` never touches what is there; the status cannot be written with the object, nor the object with the status.
- Server-side apply merges into what is there, and removes what this manager applied before and left out now, unless
  somebody else wrote it too. Lists of named items are merged by their key, other lists are replaced.
- `delete` honours its preconditions, and dependents go with their owner.
- Immutable ConfigMaps, and specs of Baselines, cannot be changed.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tailguard_operator.cluster.errors import AlreadyExists, Conflict, Invalid, NotFound
from tailguard_operator.cluster.kinds import NODE, Kind, Object, kind_of

_LIST_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "conditions": "type",
    "ownerReferences": "uid",
}
_SERVER_FIELDS = frozenset({"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"})

Place = tuple[str, str, str]
Hook = Callable[[str, Object], None]


@dataclass
class Write:
    """One write that was done, or refused."""

    verb: str
    kind: str
    name: str
    body: Object = field(repr=False)


class FakeCluster:
    """Implements `Cluster`. Tests play users and controllers by `put`, `edit`, `set_status` and `remove`."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)):
        self.objects: dict[Place, Object] = {}
        self.writes: list[Write] = []
        self.reads = 0
        self.before_write: Hook = lambda verb, body: None
        """Called before each write of the operator; may raise, or change the world to make the write conflict."""
        self.on_change: Callable[[Object], None] = lambda obj: None
        self._applied: dict[tuple[Place, str], Object] = {}
        self._versions = itertools.count(1)
        self._uids = itertools.count(1)
        self._now = now

    # What the operator does.

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object:
        self.reads += 1
        return copy.deepcopy(self._find(kind, namespace, name))

    async def list(
        self, kind: Kind, namespace: str | None, labels: Mapping[str, str] | None = None, fields: str | None = None
    ) -> list[Object]:
        self.reads += 1
        found = [o for o in self.of(kind) if namespace in (None, o["metadata"].get("namespace"))]
        matching = [o for o in found if (labels or {}).items() <= (o["metadata"].get("labels") or {}).items()]
        return copy.deepcopy(matching)

    async def create(self, obj: Object) -> Object:
        self._begin("create", obj)
        if obj["metadata"].get("resourceVersion"):
            raise Invalid("create", 400, "resourceVersion should not be set on objects to be created")
        if self._place(obj) in self.objects:
            raise AlreadyExists("create", 409, f"{obj['kind']} {obj['metadata']['name']} already exists")
        return copy.deepcopy(self.put(obj))

    async def apply(self, obj: Object) -> Object:
        self._begin("apply", obj)
        if self._place(obj) not in self.objects:
            return copy.deepcopy(self.put(obj))
        return self._server_side_apply(obj, "object")

    async def apply_status(self, obj: Object) -> Object:
        self._begin("apply_status", obj)
        return self._server_side_apply(obj, "status")

    async def replace(self, obj: Object) -> Object:
        self._begin("replace", obj)
        live = self._checked(obj)
        wanted = copy.deepcopy(obj) | ({"status": live["status"]} if "status" in live else {})
        wanted["metadata"] = _user_metadata(wanted["metadata"]) | _server_metadata(live["metadata"])
        return copy.deepcopy(self._store(wanted, live))

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str, resource_version: str | None) -> None:
        self._begin("delete", kind.partial(namespace, name))
        live = self._find(kind, namespace, name)
        if uid != live["metadata"]["uid"] or resource_version not in (None, live["metadata"]["resourceVersion"]):
            raise Conflict("delete", 409, "the UID or resourceVersion in the precondition does not match")
        self.remove(kind, namespace, name)

    # What tests do, as somebody else.

    def put(self, obj: Object) -> Object:
        """Store a new object."""
        stored = copy.deepcopy(obj)
        stored.pop("status", None)
        meta = stored["metadata"]
        meta |= {"uid": f"uid-{next(self._uids)}", "generation": 1}
        meta["creationTimestamp"] = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        meta["resourceVersion"] = str(next(self._versions))
        self.objects[self._place(stored)] = stored
        self.on_change(stored)
        return stored

    def edit(self, kind: Kind, namespace: str, name: str, change: Callable[[Object], None]) -> Object:
        """Change an object in place, as a user with an editor would."""
        live = self._find(kind, namespace, name)
        wanted = copy.deepcopy(live)
        change(wanted)
        return self._store(wanted, live)

    def set_status(self, kind: Kind, namespace: str, name: str, status: Mapping[str, Any]) -> Object:
        """Replace an object's status, as its controller would."""
        live = self._find(kind, namespace, name)
        return self._store(live | {"status": dict(status)}, live)

    def remove(self, kind: Kind, namespace: str, name: str) -> None:
        """Delete an object and, as the garbage collector would, all that it owns."""
        gone = self.objects.pop(self._place(self._find(kind, namespace, name)))
        self.on_change(gone)
        for obj in list(self.objects.values()):
            owners = {o["uid"] for o in obj["metadata"].get("ownerReferences") or ()}
            if owners == {gone["metadata"]["uid"]} and self._place(obj) in self.objects:
                self.remove(kind_of(obj), obj["metadata"]["namespace"], obj["metadata"]["name"])

    def of(self, kind: Kind) -> list[Object]:
        """All objects of a kind."""
        return [obj for (name, _, _), obj in sorted(self.objects.items()) if name == kind.name]

    def one(self, kind: Kind, name: str, namespace: str = "default") -> Object:
        """One object, itself and not a copy."""
        return self._find(kind, namespace, name)

    def log(self) -> list[str]:
        """The operator's writes in order, as `verb Kind/name`."""
        return [f"{w.verb} {w.kind}/{w.name}" for w in self.writes]

    # How it works.

    def _begin(self, verb: str, body: Object) -> None:
        self.before_write(verb, body)
        self.writes.append(Write(verb, body["kind"], body["metadata"]["name"], copy.deepcopy(body)))

    def _server_side_apply(self, obj: Object, part: str) -> Object:
        live, place = self._checked(obj), self._place(obj)
        meta = obj["metadata"]
        wanted: Object = (
            {"status": obj["status"]} if part == "status" else {k: v for k, v in obj.items() if k != "status"}
        )
        if part == "object":
            wanted["metadata"] = {k: v for k, v in meta.items() if k not in _SERVER_FIELDS}
        before = self._applied.get((place, part), {})
        merged = _merged(_without(copy.deepcopy(live), before, wanted), wanted, "")
        self._applied[place, part] = copy.deepcopy(wanted)
        return copy.deepcopy(self._store(merged, live))

    def _checked(self, obj: Object) -> Object:
        meta = obj["metadata"]
        live = self._find(kind_of(obj), meta.get("namespace"), meta["name"])
        if meta.get("resourceVersion", live["metadata"]["resourceVersion"]) != live["metadata"]["resourceVersion"]:
            raise Conflict("write", 409, f"{obj['kind']} {meta['name']}: the object has been modified")
        return live

    def _store(self, wanted: Object, live: Object) -> Object:
        if wanted == live:
            return live
        changed = {k for k in wanted.keys() | live.keys() if wanted.get(k) != live.get(k)} - {"metadata", "status"}
        if changed and (live.get("immutable") or live["kind"] in ("Baseline", "ControllerRevision")):
            raise Invalid("write", 422, f"{live['kind']} {live['metadata']['name']}: {sorted(changed)} is immutable")
        wanted["metadata"]["resourceVersion"] = str(next(self._versions))
        wanted["metadata"]["generation"] = live["metadata"]["generation"] + bool(changed)
        self.objects[self._place(wanted)] = wanted
        self.on_change(wanted)
        return wanted

    def _find(self, kind: Kind, namespace: str | None, name: str) -> Object:
        place = (kind.name, (namespace or "") if kind.namespaced else "", name)
        if place not in self.objects:
            raise NotFound("get", 404, f"{kind.plural} {name!r} not found")
        return self.objects[place]

    def _place(self, obj: Object) -> Place:
        return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _user_metadata(meta: Mapping[str, Any]) -> Object:
    return {k: v for k, v in meta.items() if k not in _SERVER_FIELDS}


def _server_metadata(meta: Mapping[str, Any]) -> Object:
    return {k: v for k, v in meta.items() if k in _SERVER_FIELDS}


def _merged(live: Any, wanted: Any, name: str) -> Any:
    if isinstance(wanted, Mapping) and isinstance(live, Mapping):
        return {**live, **{key: _merged(live.get(key), value, key) for key, value in wanted.items()}}
    key = _LIST_KEYS.get(name)
    if key and isinstance(wanted, list) and isinstance(live, list):
        there = {item[key]: item for item in live}
        there |= {item[key]: _merged(there.get(item[key]), item, "") for item in wanted}
        return list(there.values())
    return copy.deepcopy(wanted)


def _without(live: Any, before: Any, now: Any, name: str = "") -> Any:
    """`live` without what was in `before` and is not in `now`: an applier that leaves a field out gives it up."""
    if isinstance(before, Mapping) and isinstance(live, Mapping):
        now = now if isinstance(now, Mapping) else {}
        left = {k: _without(v, before.get(k), now.get(k), k) for k, v in live.items() if k in now or k not in before}
        return left
    key = _LIST_KEYS.get(name)
    if key and isinstance(before, list) and isinstance(live, list):
        given_up = {item[key] for item in before} - {item[key] for item in now or ()}
        return [item for item in live if item[key] not in given_up]
    return live


def add_node(cluster: FakeCluster, name: str = "node-1", ready: str = "True") -> None:
    """A Node that pods fit on."""
    cluster.put({"apiVersion": NODE.api_version, "kind": NODE.name, "metadata": {"name": name}, "spec": {}})
    amounts = {"cpu": "8", "memory": "64Gi", "pods": "110"}
    cluster.set_status(
        NODE,
        None,
        name,
        {
            "conditions": [{"type": "Ready", "status": ready}],
            "allocatable": amounts,
            "capacity": amounts,
            "nodeInfo": {"architecture": "amd64", "kernelVersion": "6.1.0"},
        },
    )
