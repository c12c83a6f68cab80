"""What belongs to a release agrees: version, changelog, licence, tested versions, hooks."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def constraints() -> dict[str, str]:
    """Return the tested version of each package."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def test_the_changelog_begins_with_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (\d+\.\d+\.\d+) \(\d{4}-\d\d-\d\d\)$", changelog, re.MULTILINE)
    assert versions[0] == PROJECT["version"]


def test_the_licence_is_named_and_there() -> None:
    assert PROJECT["license"] == "MIT"
    (file,) = PROJECT["license-files"]
    text = (ROOT / file).read_text(encoding="utf-8")
    assert text.startswith("MIT License\n")
    assert PROJECT["authors"][0]["name"] in text


def test_what_is_tested_is_allowed() -> None:
    tested = constraints()
    named = [*PROJECT["dependencies"], *(line for extra in PROJECT["optional-dependencies"].values() for line in extra)]
    for requirement in map(Requirement, named):
        name = canonicalize_name(requirement.name)
        if name != canonicalize_name(PROJECT["name"]):
            assert tested[name] in requirement.specifier, f"{requirement} does not allow {tested[name]}"


def test_the_constraints_hold_versions_and_no_addresses() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    odd = [line for line in lines if not re.fullmatch(r"# .*|[\w.-]+==[\w.]+", line)]
    assert odd == []
    assert not any("://" in line or "@" in line for line in lines)


def test_the_hooks_are_programs_of_the_environment() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert re.findall(r"^ +entry: \.venv/bin/(\S+)", hooks, re.MULTILINE) == [
        "ruff",
        "ruff",
        "basedpyright",
        "lint-imports",
    ]
    assert "repo: local" in hooks
    assert "http" not in hooks
