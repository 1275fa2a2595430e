"""Scripts of this checkout: as modules, and in a copy of the checkout whose guests are fakes."""
import importlib.machinery
import importlib.util
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def script(name):
    """Loads scripts/NAME as a module."""
    loader = importlib.machinery.SourceFileLoader(f"{name}_script", str(ROOT / "scripts" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def with_guest(folder, name, guest):
    """Makes `folder` a checkout with scripts/NAME and the shell script `guest` as scripts/guest. Returns the path of scripts/NAME there."""
    (folder / "scripts").mkdir(exist_ok=True)
    if not (folder / "tools").exists():
        (folder / "tools").symlink_to(ROOT / "tools")
    path, fake = folder / "scripts" / name, folder / "scripts/guest"
    path.write_bytes((ROOT / "scripts" / name).read_bytes())
    fake.write_text(f"#!/bin/sh\n{guest}\n")
    fake.chmod(0o755)
    return str(path)
