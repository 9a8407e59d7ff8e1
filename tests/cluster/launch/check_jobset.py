"""Checks a JobSet on stdin, and the Secrets before it if there are any, against the schema that is the first argument; says
what is wrong."""

import json
import pathlib
import re
import sys

import jsonschema
import yaml

schema = json.loads(pathlib.Path(sys.argv[1]).read_text())
*secrets, jobset = yaml.safe_load_all(sys.stdin)
pods = [job["template"]["spec"]["template"]["spec"] for job in jobset["spec"]["replicatedJobs"]]
containers = [container for pod in pods for container in pod["containers"]]
errors = jsonschema.Draft7Validator(schema).iter_errors(jobset)
problems = [f"{'/'.join(map(str, error.path))}: {error.message}" for error in errors]
# What JobSet's webhook asks of rules, beside the schema (pkg/webhooks/jobset_webhook.go).
for rule in jobset["spec"]["failurePolicy"]["rules"]:
    if not re.fullmatch(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", rule["name"]):
        problems.append(f"`{rule['name']}` is no name of a rule")
named = {volume["secret"]["secretName"] for pod in pods for volume in pod.get("volumes", []) if "secret" in volume}
named |= {source["secretRef"]["name"] for container in containers for source in container.get("envFrom", [])}
for secret in secrets:
    texts = all(isinstance(value, str) for value in secret["stringData"].values())
    if secret["apiVersion"] != "v1" or secret["kind"] != "Secret" or not texts:
        problems.append(f"{secret} is no Secret")
if missing := named - {secret["metadata"]["name"] for secret in secrets}:
    problems.append(f"there is no secret {missing}")
print(*problems, sep="\n", end="")
sys.exit(bool(problems))
