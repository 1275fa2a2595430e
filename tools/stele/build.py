"""This checkout and its build."""
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def build_folder(variant=""):
    base = pathlib.Path(os.environ.get("STELE_BUILD", ROOT / "build"))
    return base / "variant" / variant if variant else base


def environment():
    """Returns the environment of another make: without what an outer make has left there."""
    return {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
