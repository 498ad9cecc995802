#!/usr/bin/env python3
"""Unpacks the releases that the fidelity proof asks: fetch.py CACHE [VERSION...]

Each Transformer Engine wheel is a download of 270 to 310 MB and takes 0.4 to 0.7 GB unpacked (its Python sources,
C headers and libtransformer_engine.so are kept); flash-attn-4 is 0.5 MB a version. Nothing in CACHE belongs in
the repository. A version that is already there is left alone.
"""
import pathlib
import shutil
import subprocess
import sys
import zipfile

# rule set -> the release that it copies
RELEASES = {"2.10": "2.10.0", "2.12": "2.12.0", "2.14": "2.14.1", "2.16": "2.16.1", "2.17": "2.17.1",
            "2.18": "2.18.0", "2.19": "2.19.0", "2.20": "2.20.2"}
FA4 = ("4.0.0b11", "4.0.0b15", "4.0.0b16", "4.0.0b27", "4.0.0b36")
KEEP = ("transformer_engine/__init__.py", "transformer_engine/common/", "transformer_engine/pytorch/",
        "transformer_engine/debug/", "transformer_engine/plugin/", "transformer_engine/wheel_lib/",
        "flash_attn/cute/")


def unpack(cache, package, version, folder):
    """Downloads one wheel with pip and leaves the members under KEEP in `folder`."""
    if (folder / ".done").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    wheels = cache / "wheels" / f"{package}-{version}"
    print(f"fetch: {package}=={version}", flush=True)
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:",
                    "-d", str(wheels), f"{package}=={version}"], check=True)
    with zipfile.ZipFile(next(wheels.glob("*.whl"))) as wheel:
        wheel.extractall(folder, [n for n in wheel.namelist() if n.startswith(KEEP)])
    shutil.rmtree(wheels)
    (folder / ".done").touch()


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    cache = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:] or RELEASES:
        if name not in RELEASES:
            sys.exit(f"fetch.py: {name} is not one of {' '.join(RELEASES)}")
        unpack(cache, "transformer-engine-cu13", RELEASES[name], cache / "te" / name)
    for version in FA4:
        unpack(cache, "flash-attn-4", version, cache / "fa4" / version)


if __name__ == "__main__":
    main()
