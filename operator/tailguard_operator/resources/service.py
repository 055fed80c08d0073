"""The Service that users reach; its selector is the route where there is no gateway."""

from typing import Any

from tailguard_operator.plan.world import Role
from tailguard_operator.resources.owner import REVISION_LABEL, ROLE_LABEL, SERVICE_LABEL, Owner

PORT = 80
_PORT_NAME = "http"


def user_service(owner: Owner, revision: str) -> dict[str, Any]:
    """The Service of `owner`, selecting the serving pods of `revision`; port 80 leads to the engine's port."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": owner.metadata(owner.name, {SERVICE_LABEL: owner.name}),
        "spec": {
            "selector": {SERVICE_LABEL: owner.name, REVISION_LABEL: revision, ROLE_LABEL: Role.SERVING.value},
            "ports": [{"name": _PORT_NAME, "port": PORT, "targetPort": _PORT_NAME, "protocol": "TCP"}],
        },
    }
