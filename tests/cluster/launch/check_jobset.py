"""Checks a JobSet on stdin, and the Secrets before it if there are any, against the schema that is the first argument; says what is wrong."""

import json
import pathlib
import sys

import jsonschema
import yaml

schema = json.loads(pathlib.Path(sys.argv[1]).read_text())
*secrets, jobset = yaml.safe_load_all(sys.stdin)
containers = [container for job in jobset["spec"]["replicatedJobs"] for container in job["template"]["spec"]["template"]["spec"]["containers"]]
problems = [f"{'/'.join(map(str, error.path))}: {error.message}" for error in jsonschema.Draft7Validator(schema).iter_errors(jobset)]
named = {volume["secret"]["secretName"] for job in jobset["spec"]["replicatedJobs"] for volume in job["template"]["spec"]["template"]["spec"].get("volumes", [])
         if "secret" in volume}
named |= {source["secretRef"]["name"] for container in containers for source in container.get("envFrom", [])}
for secret in secrets:
    if secret["apiVersion"] != "v1" or secret["kind"] != "Secret" or not all(isinstance(value, str) for value in secret["stringData"].values()):
        problems.append(f"{secret} is no Secret")
if missing := named - {secret["metadata"]["name"] for secret in secrets}:
    problems.append(f"there is no secret {missing}")
print(*problems, sep="\n", end="")
sys.exit(bool(problems))
