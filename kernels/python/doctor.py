#!/usr/bin/env python3
"""The packages behind the adapters of this folder: versions, what is missing, the command that installs it. Imports none
of them. `attest doctor` runs it: doctor.py [text|jsonl]"""
import ast, importlib.metadata, json, pathlib, re, sys

HERE = pathlib.Path(__file__).resolve().parent


def adapters():
    """(name, requirements) of every file that says PACKAGE = "...", the pip names that it needs."""
    for path in sorted(HERE.glob("*/*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and any(getattr(x, "id", None) == "PACKAGE" for x in node.targets):
                yield path.stem, ast.literal_eval(node.value).split()


def version(requirement):
    """What is installed, None where the package or the version that the requirement pins is not there."""
    name, _, pinned = requirement.partition("==")
    try:
        found = importlib.metadata.version(re.match(r"[\w.-]+", name)[0])
    except importlib.metadata.PackageNotFoundError:
        return None
    return found if not pinned or found == pinned or found.startswith(pinned + "+") else None


def main(form):
    for name, needs in adapters():
        found = {need: version(need) for need in needs}
        missing = [need for need, at in found.items() if at is None]
        row = {"check": name, "status": "absent" if missing else "here",
               "value": ", ".join(f"{need.partition('==')[0]} {at or 'is missing'}" for need, at in found.items())}
        if missing:
            row["remedy"] = f"python3 -m pip install {' '.join(missing)}"
        if form == "jsonl":
            print(json.dumps(row, separators=(",", ":")))
            continue
        print(f"{row['status']:<8} {row['check']:<12} {row['value']}")
        if missing:
            print(f"{'':<21} {row['remedy']}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "text")
