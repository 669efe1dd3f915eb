#!/usr/bin/env python3
"""The site that scripts/docs.sh makes of the guides and symbols.

  docs-site.py landing SITE         writes SITE/index.html: what README.md says first, its doors, and the modules
  docs-site.py check SITE [BASE]    fails if a link leads nowhere, or if a headless Chromium does not show pages at two widths and in two colour schemes, or
                                    finds nothing. Its pictures are in SITE-pictures. BASE is that of docs.sh.
"""

import html
import http.server
import json
import re
import shutil
import sys
import threading
from functools import partial
from pathlib import Path

# No __pycache__ beside the scripts.
sys.dont_write_bytecode = True
import guides

STYLE = """
:root { color-scheme: light dark; --dim: light-dark(#595959, #a8a8a8); --line: light-dark(#d5d5d5, #444); --card: light-dark(#f5f6f8, #1f2023); }
body { margin: 0 auto; max-width: 68rem; padding: 2.5rem 1.25rem; font: 1.0625rem/1.55 system-ui, sans-serif; background: light-dark(#fff, #121314);
    color: light-dark(#1d1d1f, #f0f0f2); }
h1 { margin: 0 0 1rem; font-size: 2.5rem; line-height: 1.15; }
h2 { margin: 2.5rem 0 1rem; font-size: 1.375rem; }
h3 { margin: 0 0 .5rem; font-size: 1.0625rem; }
p { margin: 0 0 1rem; max-width: 46rem; }
a { color: light-dark(#0058c7, #6fb0ff); }
code { font: .925em ui-monospace, monospace; overflow-wrap: anywhere; }
.doors { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(18rem, 100%), 1fr)); gap: 1rem; margin-bottom: 1.5rem; }
.doors section { padding: 1.25rem; border: 1px solid var(--line); border-radius: .75rem; background: var(--card); }
.doors p { margin: 0; }
dt { font-weight: 600; }
dd { margin: 0 0 .75rem; color: var(--dim); }
"""


def inline(text):
    """HTML of a paragraph of README.md. Links to what the site does not have are text."""

    def link(match):
        target, _, anchor = match[2].partition("#")
        path = (guides.ROOT / target).resolve()
        if not re.match(r"[a-z]+:", match[2]):
            if path not in guides.pages():
                return match[1]
            target = guides.address(path, html.unescape(anchor))
        return f'<a href="{target}">{match[1]}</a>'

    text = guides.LINK.sub(link, html.escape(" ".join(text.split()), quote=False))
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"\*([^*]+)\*", r"<em>\1</em>", re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text))


def landing(site):
    readme = (guides.ROOT / "README.md").read_text()
    head = readme.partition("\n```")[0].partition("\n## ")[0].strip().split("\n\n")
    doors = re.search(r"\n## (Three doors)\n\n((?:(?:- |  ).*\n)+)\n((?:.+\n)+)", readme)
    if len(head) < 3 or not doors:
        sys.exit("README.md no longer begins with its title, what it is and its status, or has no section 'Three doors' with a list and a paragraph")
    cards = []
    for door in re.split(r"^- ", doors[2], flags=re.MULTILINE)[1:]:
        name, text = re.match(r"\*\*(.+?)\*\*: (.*)", door, re.DOTALL).groups()
        cards.append(f"<section><h3>{inline(name)}</h3><p>{inline(re.sub('[a-z]', lambda first: first[0].upper(), text, count=1))}</p></section>")
    modules = []
    for path in sorted((site / "data/documentation").glob("*.json")):
        page = json.loads(path.read_text())
        abstract = "".join(part.get("text") or part.get("code", "") for part in page.get("abstract", []))
        modules.append(f'<dt><a href="documentation/{path.stem}"><code>{page["metadata"]["title"]}</code></a></dt><dd>{html.escape(abstract)}</dd>')
    title = head[0].removeprefix("# ")
    (site / "index.html").write_text("\n".join([
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>',
        f'<link rel="icon" href="favicon.ico"><style>{STYLE}</style>',
        f"<h1>{title}</h1>", *(f"<p>{inline(text)}</p>" for text in head[1:]),
        f'<h2>{doors[1]}</h2><div class="doors">', *cards, "</div>", f"<p>{inline(doors[3])}</p>",
        "<h2>Modules</h2><dl>", *modules, "</dl>",
        '<p><a href="documentation/">Search</a> the titles and symbols of all modules: the key <kbd>/</kbd> begins.</p>',
    ]) + "\n")  # fmt: skip
    # DocC's pages ask for it.
    (site / "theme-settings.json").write_text("{}\n")


def addresses(value):
    """The addresses of pages and pictures in the data of a page."""
    if isinstance(value, dict):
        if isinstance(value.get("url"), str):
            yield value["url"]
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from addresses(part)


def dead_links(site):
    problems = []

    def look(page, link):
        target, _, anchor = link.partition("#")
        data = site / f"data{target.rstrip('/')}.json"
        if not (site / target[1:]).exists() or (target.startswith("/documentation") and not data.exists()):
            problems.append(f"{page}: dead link: {link}")
        elif anchor and f'"anchor":{json.dumps(anchor)}' not in data.read_text():
            problems.append(f"{page}: no such heading: {link}")

    for path in sorted(site.glob("data/**/*.json")):
        for link in set(addresses(json.loads(path.read_text()))):
            if link.startswith("/"):
                look(path.relative_to(site / "data").with_suffix(""), link)
    for link in re.findall(r'href="([^":]+)"', (site / "index.html").read_text()):
        look("index.html", "/" + link)
    return problems


class Server(http.server.SimpleHTTPRequestHandler):
    base, problems = "", []

    def translate_path(self, path):
        if not path.startswith(self.base):
            return "/nothing"
        return super().translate_path(path.removeprefix(self.base))

    def send_error(self, code, *arguments):
        self.problems.append(f"{code}: {self.path}")
        super().send_error(code, *arguments)

    def log_message(self, *_):
        pass


def check(site, base):
    sys.path.insert(0, str(guides.ROOT / "Inspector" / "Tests"))
    from browser import Browser, BrowserError

    if problems := dead_links(site):
        sys.exit("\n".join(problems))
    # The landing page, the first page of each door, the first class, and the first page with a picture.
    pages = [""] + [re.search(r'href="([^"#]+)', card)[1] for card in re.findall("<section>.*", (site / "index.html").read_text())]
    data = {str(path.relative_to(site / "data").with_suffix("")): json.loads(path.read_text()) for path in sorted(site.glob("data/documentation/*/*.json"))}
    symbols = [page for page, content in data.items() if content["metadata"].get("symbolKind") == "class"]
    pictures = [page for page, content in data.items() if any(reference["type"] == "image" for reference in content["references"].values())]
    pages += [symbols[0], pictures[0]]

    Server.base = f"/{base}" if base else ""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Server, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    root = f"http://127.0.0.1:{server.server_port}{Server.base}/"
    shots = site.with_name(site.name + "-pictures")
    shutil.rmtree(shots, ignore_errors=True)
    shots.mkdir()
    browser = Browser()
    try:
        for page in pages:
            for width in (400, 1600):
                for scheme in ("light", "dark"):
                    browser.resize(width, 1000)
                    browser.prefer(scheme)
                    browser.open(root + page)
                    name = f"{page.removeprefix('documentation/').replace('/', '-') or 'index'}-{width}-{scheme}"
                    browser.wait(f"{name} shows", "document.querySelector('h1') && document.body.innerText.length > 300 && document.readyState == 'complete'")
                    # Pictures below the window are loaded when they are scrolled to.
                    browser.evaluate("document.images[0]?.scrollIntoView({block: 'center'}), [...document.images].forEach(image => image.loading = 'eager')")
                    browser.wait(f"{name} has its pictures", "[...document.images].every(image => image.complete && image.naturalWidth)")
                    if (wide := browser.evaluate("document.documentElement.scrollWidth")) > width:
                        problems.append(f"{name}: {wide} pixels wide")
                    browser.picture(shots / f"{name}.png")
        # The search finds that page and a class of another module.
        for page in (symbols[-1], pages[-1]):
            browser.open(f"{root}documentation/")
            browser.wait("the navigator shows", "!!document.querySelector('.navigator-card .leaf-link')")
            browser.press("/")
            browser.wait("the search opens", "!!document.activeElement.closest('.quick-navigation')")
            browser.call("Input.insertText", text=data[page]["metadata"]["title"])
            browser.wait(f"the search finds {page}", f"!!document.querySelector('.quick-navigation a[href$=\"/{page}\"]')")
            browser.picture(shots / f"search-{page.rpartition('/')[2]}.png")
    except BrowserError as error:
        problems.append(str(error))
    finally:
        browser.close()
        server.shutdown()
    problems += browser.complaints + Server.problems
    if problems:
        sys.exit("\n".join(problems))
    print(f"The site has no dead link, and {len(pages)} pages of it show. Their pictures are in {shots}.")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "landing":
        landing(Path(sys.argv[2]))
    elif len(sys.argv) in (3, 4) and sys.argv[1] == "check":
        check(Path(sys.argv[2]), "".join(sys.argv[3:]))
    else:
        sys.exit(__doc__)
