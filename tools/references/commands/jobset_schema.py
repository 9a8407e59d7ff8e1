"""The JSON schema of JobSet's v1alpha2 objects, small, for tests/cluster/launch.

    git clone https://github.com/kubernetes-sigs/jobset && git -C jobset checkout 08dfbdfd682714a9ab929633eca8dc95315187e7
    python3 tools/references/commands/jobset_schema.py jobset/config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml

Descriptions go, and parts of pods that `tessera launch` doesn't write. Keys that the schema doesn't know are refused, as the API
server does it with strict validation.
"""

import json
import pathlib
import sys

import yaml

# Of containers and pods: nothing here is written by us, and each is long.
LEFT_OUT = {"affinity", "ephemeralContainers", "initContainers", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe",
            "securityContext", "topologySpreadConstraints", "dnsConfig", "resourceClaims", "schedulingGates", "readinessGates",
            "volumeClaimPolicies", "managedFields", "ownerReferences"}
VOLUMES = {"name", "emptyDir", "persistentVolumeClaim", "hostPath", "secret"}
KEPT = {"type", "properties", "items", "required", "enum", "additionalProperties", "minimum", "maximum", "minItems", "maxItems",
        "maxLength", "minLength", "pattern", "anyOf", "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"}


def small(schema, name=""):
    out = {key: value for key, value in schema.items() if key in KEPT}
    properties = schema.get("properties")
    if properties:
        chosen = {key: value for key, value in properties.items() if key not in LEFT_OUT and (name != "volumes" or key in VOLUMES)}
        out["properties"] = {key: small(value, key) for key, value in chosen.items()}
        if not out.pop("x-kubernetes-preserve-unknown-fields", False):
            out["additionalProperties"] = False
    if "items" in schema:
        out["items"] = small(schema["items"], name)
    if isinstance(schema.get("additionalProperties"), dict):
        out["additionalProperties"] = small(schema["additionalProperties"])
    if out.pop("x-kubernetes-int-or-string", False):
        out.pop("anyOf", None)
        out["type"] = ["integer", "string"]
    return out


def main():
    definition = yaml.safe_load(pathlib.Path(sys.argv[1]).read_text())
    [version] = [one for one in definition["spec"]["versions"] if one["name"] == "v1alpha2"]
    schema = small(version["schema"]["openAPIV3Schema"])
    del schema["properties"]["status"]
    schema["properties"]["metadata"] = {"type": "object", "required": ["name"], "additionalProperties": False, "properties": {
        "name": {"type": "string", "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}}}
    schema["required"] = ["apiVersion", "kind", "metadata", "spec"]
    target = pathlib.Path(__file__).parents[3] / "tests/references/jobset_schema.json"
    target.write_text(json.dumps(schema, separators=(",", ":"), sort_keys=True) + "\n")


main()
