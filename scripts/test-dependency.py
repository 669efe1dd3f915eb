"""The package of the README, on Roundtable by URL and version: what it fetches and builds, and that it does what the README says.

    python3 scripts/test-dependency.py [SWIFT]

The URL is that of a bare clone of this repository's HEAD, with the version that the tool prints as its tag.
"""

import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SWIFT = sys.argv[1] if len(sys.argv) > 1 else "swift"
# SwiftPM also fetches what the tool needs, and does not build it.
FETCHED = {"roundtable", "grdb.swift", "swift-argument-parser"}
# None of these is built for a program that uses the product Roundtable.
NOT_BUILT = ["RoundtableTool", "RoundtableTestKit", "RoundtableJobs", "RoundtableService", "RoundtableLoadable", "ArgumentParser"]
LIMIT = 60


def git(*arguments):
    subprocess.run(["git", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def make_package(folder, remote, version):
    program, manifest = re.findall(r"^```swift\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)[:2]
    by_path = '.package(name: "Roundtable", path: "../Roundtable")'
    assert manifest.count(by_path) == 1, "the README's manifest names Roundtable in another way"
    manifest = manifest.replace(by_path, f'.package(url: "{remote.as_uri()}", from: "{version}")')
    source = folder / re.match(r"// (\S+)", program)[1]
    source.parent.mkdir(parents=True)
    source.write_text(program)
    (folder / "Package.swift").write_text(manifest)


class Program:
    def __init__(self, path, folder):
        self.lines = []
        self.changed = threading.Condition()
        # As in a terminal. To a pipe, it would print in blocks.
        self.terminal, terminal = os.openpty()
        self.process = subprocess.Popen([path], cwd=folder, stdout=terminal)
        os.close(terminal)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        with open(self.terminal, buffering=1) as output:
            try:
                for line in output:
                    with self.changed:
                        self.lines.append(line.strip())
                        self.changed.notify()
            except OSError:
                pass  # The program has ended: Linux reports that as EIO.

    def wait_for(self, line):
        with self.changed:
            if not self.changed.wait_for(lambda: line in self.lines, LIMIT):
                sys.exit(f"the README's program has not printed '{line}' within {LIMIT} s, but {self.lines}")

    def end(self):
        self.process.kill()
        self.process.wait()


def run(path, folder):
    programs = []
    try:
        for count in (1, 2):
            programs.append(Program(path, folder))
            for program in programs:
                program.wait_for(f"{count} players")
    finally:
        for program in programs:
            program.end()


def main():
    version = re.search(r'version: "([^"]+)"', (ROOT / "Tool/RoundtableTool/Root.swift").read_text())[1]
    with tempfile.TemporaryDirectory(prefix="roundtable-dependency-") as temporary:
        folder = Path(temporary)
        remote = folder / "Roundtable.git"
        git("clone", "--quiet", "--bare", "--no-local", ROOT, remote)
        git("--git-dir", remote, "tag", "--force", version, "HEAD")
        package = folder / "players"
        make_package(package, remote, version)
        subprocess.run([SWIFT, "build", "--package-path", package, "--product", "players"], check=True)
        fetched = {path.name.lower() for path in (package / ".build/checkouts").iterdir()}
        if fetched != FETCHED:
            sys.exit(f"a user of Roundtable fetches {sorted(fetched)}, and not {sorted(FETCHED)}")
        objects = (package / ".build/debug").glob("*.build/**/*.o")
        built = {path.relative_to(package / ".build/debug").parts[0].removesuffix(".build") for path in objects}
        unwanted = [name for name in NOT_BUILT if name in built]
        if unwanted or "RoundtableCore" not in built:
            sys.exit(f"a user of Roundtable builds {unwanted or sorted(built)}")
        run(package / ".build/debug/players", package)
    print(f"A package that depends on {version} by URL builds GRDB and Roundtable alone, and its two processes see each other.")


main()
