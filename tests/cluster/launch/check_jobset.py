"""Checks a JobSet on stdin against the schema that is the first argument; says what is wrong."""

import json
import pathlib
import sys

import jsonschema
import yaml

schema = json.loads(pathlib.Path(sys.argv[1]).read_text())
problems = [f"{'/'.join(map(str, error.path))}: {error.message}"
            for error in jsonschema.Draft7Validator(schema).iter_errors(yaml.safe_load(sys.stdin))]
print(*problems, sep="\n", end="")
sys.exit(bool(problems))
