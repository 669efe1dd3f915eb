#!/usr/bin/env python3
"""manifests.py [SWIFT]: loads each variant of Package.swift, and describes it, as Linux and as a Mac reads it. Builds and fetches nothing.

`swift package describe` does not look whether what targets depend on exists. So this compares the descriptions: a target of the full package
that another variant's targets depend on must be in that variant. On a Mac, no file may be embedded in code, which Xcode cannot do.

It also looks for what compiles here and not with Swift 6.1, in what programs link."""
import json, os, pathlib, re, shutil, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SWIFT = sys.argv[1] if len(sys.argv) > 1 else "swift"
VARIANTS = ["", "LIBRARY_ONLY"]
# What later versions of Swift have brought, as far as one writes it without noticing.
NEWER = {r"\bweak let\b": "6.3", r"@concurrent\b|nonisolated\(nonsending\)": "6.2", r"\b(InlineArray|(Mutable|Output)?(Raw)?Span)\b(?=[<(])": "6.2",
         r"\bTask(\.\w+)?\(name:": "6.2"}


def described(folder, variant):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ROUNDTABLE_")}
    if variant: environment[f"ROUNDTABLE_{variant}"] = "1"
    run = subprocess.run([SWIFT, "package", "describe", "--type", "json"], cwd=folder, env=environment, capture_output=True, text=True)
    if run.returncode: return None, [run.stderr.strip()]
    return json.loads(run.stdout), []


def problems(folder, system):
    full, found = described(folder, "")
    if not full: return found
    own = {target["name"] for target in full["targets"]}
    # SwiftPM says nothing of a folder of tests that no target has: they would compile and run nowhere.
    found += [f"{path} is no target" for path in sorted(folder.glob("Tests/*Tests")) if path.name not in own]
    for variant in VARIANTS:
        package, errors = described(folder, variant)
        name = f"Package.swift, {variant or 'the full package'}, as {system} reads it"
        found += [f"{name}: {error}" for error in errors]
        if not package: continue
        targets = {target["name"] for target in package["targets"]}
        for target in package["targets"]:
            needed = set(target.get("product_dependencies", []) + target.get("target_dependencies", []))
            found += [f"{name}: {target['name']} needs {other}, which is left out" for other in sorted(needed & own - targets)]
            for resource in target.get("resources", []):
                if system == "a Mac" and "embed_in_code" in resource["rule"]:
                    found.append(f"{name}: {target['name']} embeds {pathlib.Path(resource['path']).name} in code")
    return found


def main():
    manifest = (ROOT / "Package.swift").read_text()
    named = {line.split('"ROUNDTABLE_')[1].split('"')[0] for line in manifest.splitlines() if '"ROUNDTABLE_' in line}
    if named != set(VARIANTS[1:]): sys.exit(f"Package.swift has the variants {sorted(named)}, and {sys.argv[0]} knows {VARIANTS[1:]}")
    found = []
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        for name in ("Sources", "Tool", "Proof", "Tests"):
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns(".build*"))
        for system, text in (("Linux", manifest), ("a Mac", manifest.replace("#if os(Linux)", "#if false"))):
            (folder / "Package.swift").write_text(text)
            found += problems(folder, system)
    for path in sorted((ROOT / "Sources").rglob("*.swift")):
        code = re.sub(r"//.*", "", path.read_text())
        found += [f"{path.relative_to(ROOT)}: '{match[0]}' needs Swift {version}, and the package promises 6.1"
                  for pattern, version in NEWER.items() for match in re.finditer(pattern, code)]
    if found: sys.exit("\n".join(found))


main()
