#!/usr/bin/env python3
"""apple-sources.py PLATFORM OUT FOLDER…: copies folders of Swift sources to OUT, as one of Apple's platforms sees them. For scripts/typecheck-apple.sh.

The compiler of this machine takes only its own system for a target. So two things are decided here, in the copies, where lines stay lines:

- `os(…)` and `targetEnvironment(…)` in conditions become flags, `TYPECHECK_…`, of which the check sets those of the platform.
- In stubs, which state availability as Apple's SDKs do, `@available` becomes what it means for a program of this package on that platform:
  `@available(*, unavailable)` where a declaration is missing, or is younger than the oldest system that the package runs on; nothing elsewhere.
  So `if #available` is no way to a younger declaration here. What needs one is left out of the sources of that platform (`#if`).

Availability in the library itself is left alone if it is for all platforms, and refused otherwise: nothing here would check it."""
import pathlib, re, shutil, sys

# The oldest system of each platform: as in `platforms` of Package.swift.
OLDEST = {"iOS": (18, 0), "macOS": (15, 0), "visionOS": (2, 0)}
OTHERS = {"tvOS", "watchOS", "macCatalyst"}

CONDITION = re.compile(r"^ *#(?:if|elseif) .*$", re.MULTILINE)
QUESTION = re.compile(r"\b(?:os|targetEnvironment)\(([A-Za-z]+)\)")
AVAILABLE = re.compile(r"@available\(([^()]*)\)")


def fail(path, what):
    sys.exit(f"{path}: {what}")


def meaning(text, system, path):
    """What `@available(text)` means on `system`: an attribute, or nothing."""
    parts = [part.strip() for part in text.split(",")]
    if parts[0] == "*": return f"@available({text})"
    if parts[1:2] == ["unavailable"]:
        if parts[0] not in OLDEST.keys() | OTHERS: fail(path, f"unknown platform: @available({text})")
        return f'@available(*, unavailable, message: "{system} does not have it")' if parts[0] == system else ""
    if parts[-1] != "*": fail(path, f"neither a list that ends with a star nor 'unavailable': @available({text})")
    for part in parts[:-1]:
        match = re.fullmatch(r"([A-Za-z]+) (\d+)(?:\.(\d+))?", part)
        if not match or match[1] not in OLDEST.keys() | OTHERS: fail(path, f"not a platform and a version: {part}")
        if match[1] == system and (int(match[2]), int(match[3] or 0)) > OLDEST[system]:
            oldest = ".".join(map(str, OLDEST[system]))
            return f'@available(*, unavailable, message: "it needs {part}, and the package runs on {system} {oldest}")'
    return ""


def copy(folder, out, system):
    is_stub = "AppleStubs" in folder.parts
    for path in sorted(folder.rglob("*.swift")):
        text = path.read_text()
        text = CONDITION.sub(lambda line: QUESTION.sub(r"TYPECHECK_\1", line[0]), text)
        if is_stub:
            text = AVAILABLE.sub(lambda found: meaning(found[1], system, path), text)
        else:
            for found in AVAILABLE.finditer(text):
                if not found[1].lstrip().startswith("*"): fail(path, f"{found[0]} cannot be checked against stubs")
        to = out / folder.name / path.relative_to(folder)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text)


def main():
    system, out, *folders = sys.argv[1:]
    # `macOS-SDK26` is macOS, with another SDK.
    system = system.split("-")[0]
    if system not in OLDEST: sys.exit(f"unknown platform: {system}")
    manifest = pathlib.Path("Package.swift").read_text()
    declared = re.search(r"platforms: \[(.*?)\]", manifest, re.DOTALL)[1]
    for name, (major, _) in OLDEST.items():
        if f".{name}(.v{major})" not in declared:
            sys.exit(f"Package.swift does not declare {name} {major}, which is what the stubs are read for: {declared}")
    for folder in folders: copy(pathlib.Path(folder), pathlib.Path(out), system)


main()
