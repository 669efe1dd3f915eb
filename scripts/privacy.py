#!/usr/bin/env python3
"""privacy.py: compares the privacy manifest (Sources/RoundtableKernel/PrivacyInfo.xcprivacy) with what the library calls. After `swift build`.

Apple wants a reason for each use of some functions (https://developer.apple.com/documentation/bundleresources/describing-use-of-required-reason-api).
They are looked for in the symbols of the library's objects, and, because objects of Linux lack what is for Apple's systems alone, in the sources. A
category that is used must be in the manifest, and one that is in the manifest must be used. Whether a reason is true is for people to judge."""
import pathlib, plistlib, re, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MANIFEST = ROOT / "Sources/RoundtableKernel/PrivacyInfo.xcprivacy"
# What apps link: all of it includes the kernel, and so the manifest.
TARGETS = ["CRoundtableShims"] + ["Roundtable" + name for name in (
    "Kernel", "Files", "Core", "Tables", "History", "Derived", "Delivery", "Diagnostics", "", "Jobs", "Service")]
FUNCTIONS = {
    "FileTimestamp": "stat fstat fstatat lstat getattrlist getattrlistat getattrlistbulk fgetattrlist creationDate modificationDate "
                     "contentModificationDateKey creationDateKey fileModificationDate",
    "DiskSpace": "statfs fstatfs statvfs fstatvfs systemFreeSize systemSize volumeAvailableCapacityKey volumeTotalCapacityKey "
                 "volumeAvailableCapacityForImportantUsageKey volumeAvailableCapacityForOpportunisticUsageKey",
    "SystemBootTime": "systemUptime mach_absolute_time",
    "ActiveKeyboards": "activeInputModes",
    "UserDefaults": "UserDefaults",
}


def symbols(target):
    objects = sorted(map(str, (ROOT / ".build/debug" / f"{target}.build").rglob("*.o")))
    if not objects: sys.exit(f"There are no objects of {target}: run 'swift build' first.")
    text = subprocess.run(["nm", "--undefined-only", "--no-sort", *objects], capture_output=True, text=True, check=True).stdout
    # Swift's symbols have each name after its length.
    return set(re.findall(r" U (\w+)$", text, re.MULTILINE)) | {
        name for names in FUNCTIONS.values() for name in names.split() if f"{len(name)}{name}" in text}


def words(target):
    found = set()
    for path in (ROOT / "Sources" / target).rglob("*"):
        if path.suffix in {".swift", ".c", ".h"}:
            code = re.sub(r"//.*|/\*.*?\*/", "", path.read_text())
            # Calls, and members: not the names of variables.
            found |= set(re.findall(r"(?<![\w.])(\w+)(?=\()|\.(\w+)", code))
    return {a or b for a, b in found}


def main():
    declared = {
        entry["NSPrivacyAccessedAPIType"].removeprefix("NSPrivacyAccessedAPICategory"): entry["NSPrivacyAccessedAPITypeReasons"]
        for entry in plistlib.loads(MANIFEST.read_bytes())["NSPrivacyAccessedAPITypes"]}
    used = {}
    for target in TARGETS:
        names = symbols(target) | words(target)
        for category, functions in FUNCTIONS.items():
            for name in sorted(names & set(functions.split())): used.setdefault(category, []).append(f"{name} ({target})")
    found = [f"{MANIFEST.name} has no reason for {category}: {', '.join(uses)}" for category, uses in used.items() if not declared.get(category)]
    found += [f"{MANIFEST.name} declares {category}, which nothing uses" for category in declared.keys() - used.keys()]
    if found: sys.exit("\n".join(found))
    if sys.argv[1:] == ["--list"]:
        for category, uses in used.items(): print(category, *declared[category], *uses, sep="\n    ")


main()
