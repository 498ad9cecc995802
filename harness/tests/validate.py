"""validate.py SCHEMA FILE: checks a .json file, or every line of a .jsonl file. Exit 77: no jsonschema."""
import json, sys

try:
    import jsonschema
except ImportError:
    print("python3 has no jsonschema")
    sys.exit(77)

with open(sys.argv[1]) as f:
    validator = jsonschema.Draft202012Validator(json.load(f))
with open(sys.argv[2]) as f:
    documents = [json.loads(line) for line in f] if sys.argv[2].endswith("l") else [json.load(f)]
bad = 0
for number, document in enumerate(documents, 1):
    for error in validator.iter_errors(document):
        print(f"{sys.argv[2]}:{number}: {'/'.join(map(str, error.absolute_path))}: {error.message[:300]}")
        bad += 1
sys.exit(1 if bad or not documents else 0)
