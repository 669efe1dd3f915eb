"""The page, in a headless Chromium: live, by keyboard, with hostile names, and over a recording."""

import contextlib
import datetime
import json
import pathlib
import signal
import sqlite3
import subprocess
import time

from browser import Browser
from fleet import DEADLINE, Fleet, Inspector, Peer, expect, start_reader, wait_for
from server_tests import small_database

STATE = "document.getElementById('state').textContent"
HOSTILE = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>'
# How many pixels of the chart's plot are coloured.
INK = """(() => {
  const chart = document.getElementById('chart');
  const data = chart.getContext('2d').getImageData(130, 0, chart.width - 140, 30).data;
  let ink = 0;
  for (let index = 3; index < data.length; index += 4) if (data[index] > 0) ink += 1;
  return ink;
})()"""


def text(section):
    return f"document.querySelector('#{section} .body').innerText"


def expect_clean(browser):
    expect(not browser.complaints, f"the page complains: {browser.complaints}")
    expect(browser.evaluate("window.hit") is None, "a name from the database ran as a script")


def live_fleet(options, folder):
    """A fleet with a frozen reader, live: turns, waits, the pin with its owner, changes, tables; by keyboard, light and dark."""
    fleet = Fleet(options.tool, folder / "demo.sqlite")
    inspector, browser = None, None
    try:
        fleet.ready()
        inspector = Inspector(options.inspector, options.tool, fleet.database, log=folder / "log")
        browser = Browser(1440, 1180)
        browser.prefer("light")
        browser.open(inspector.url)
        browser.wait("the page is not live", f"{STATE} === 'live'")
        browser.wait("the participants are not shown", f"{text('participants')}.includes('sync daemon')")
        browser.wait("no turns are drawn", f"{INK} > 100")
        browser.wait("no waits are shown", f"{text('waits')}.includes('ms')")
        browser.wait("no change is shown", f"{text('changes')}.includes('entry')")
        browser.wait("no table is shown", f"{text('tables')}.includes('entry')")
        pid = fleet.freeze_reader()
        browser.wait("the frozen reader holds nothing", f"{text('wal')}.includes('report (pid {pid}, stopped) holds')")
        browser.wait("the frozen reader is not stopped", f"{text('participants')}.includes('stopped')")
        browser.wait("no warning is shown", "document.querySelector('#messages .warning') !== null")
        expect(browser.evaluate("document.title") == "demo.sqlite", "the title is not the name of the database")
        # A WAL that a read holds back looks other than one that is empty.
        browser.wait("the bar does not warn of a long WAL", "document.querySelector('.walbar .left.warning').clientWidth > 100")
        tables = browser.evaluate(f"{rows('tables')}.map((row) => row[0])")
        expect(tables[-1].endswith("internal tables") and "entry" in tables, f"the tables are {tables}")
        expect(not [one for one in tables if one.startswith(("roundtable_", "sqlite_", "grdb_"))], f"internal tables are shown: {tables}")
        for section in ["history", "derived-tables"]:
            expect(browser.evaluate(f"document.getElementById('{section}').hidden"), f"the panel '{section}' is empty, and shown")
        check_keys(browser)
        check_names(browser)
        check_narrow(browser)
        if options.pictures:
            take_pictures(browser, pathlib.Path(options.pictures))
        expect_clean(browser)
    finally:
        if browser:
            browser.close()
        if inspector:
            inspector.close()
        fleet.close()


def check_keys(browser):
    shown = "document.getElementById('chart').getAttribute('aria-valuetext')"
    past = "Number(document.getElementById('chart').getAttribute('aria-valuemin'))"
    browser.wait("there is no past of five seconds", f"{past} <= -5")
    browser.press(" ")
    browser.wait("space does not pause", f"{STATE} === 'paused'")
    expect(browser.evaluate("document.getElementById('pause').getAttribute('aria-pressed')") == "true", "the button is not pressed")
    first = browser.evaluate(f"{shown}.split(',')[0]")
    participants = browser.evaluate(text("participants"))
    browser.press("ArrowLeft")
    browser.press("ArrowLeft")
    earlier = browser.evaluate(f"{shown}.split(',')[0]")
    expect(earlier < first, f"the arrow does not go back: {first} to {earlier}")
    browser.press("ArrowLeft", shift=True)
    finer = browser.evaluate(f"{shown}.split(',')[0]")
    expect(finer < earlier, f"shift and the arrow do not go back: {earlier} to {finer}")
    browser.press("ArrowRight")
    expect(browser.evaluate(f"{shown}.split(',')[0]") > finer, "the other arrow does not go forward")
    browser.press("Home")
    oldest = browser.evaluate(f"{shown}.split(',')[0]")
    expect(oldest < finer, "Home does not go to the first look")
    expect(browser.evaluate(text("participants")) != participants, "the panels do not follow the cursor")
    expect(browser.evaluate(f"{text('wal')}.includes('stopped')") is False, "the past shows what came later")
    browser.press("End")
    browser.wait("End does not continue", f"{STATE} === 'live'")
    for key, span in [("1", 10), ("3", 60), ("2", 30)]:
        browser.press(key)
        expect(f"{span} s" in browser.evaluate("document.querySelector('#waits .aside').textContent"), f"{key} does not show {span} s")
    browser.press("?")
    browser.wait("the keys are not shown", "document.getElementById('keys').open")
    browser.press("Escape")
    browser.wait("Escape does not close the keys", "!document.getElementById('keys').open")
    # Each control is reached by Tab, and shows that it has the focus.
    focused = []
    for _ in range(5):
        browser.press("Tab")
        outline = "(() => { const one = document.activeElement; return [one.id || one.parentElement?.id, getComputedStyle(one).outlineStyle]; })()"
        identifier, style = browser.evaluate(outline)
        focused.append(identifier)
        expect(style != "none", f"the focus of '{identifier}' is not visible")
    expect({"pause", "theme", "help", "chart"} <= set(focused), f"Tab reaches {focused}")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = browser.evaluate(ground)
    browser.prefer("dark")
    browser.wait("the system's dark colours are not followed", f"{ground} !== '{light}'")
    browser.press("t")
    browser.wait("the key does not switch to light", f"{ground} === '{light}'")
    browser.press("t")
    browser.wait("the key does not switch to dark", f"{ground} !== '{light}'")
    browser.press("t")
    browser.prefer("light")
    browser.wait("the system's colours are not followed any more", f"{ground} === '{light}'")


def check_names(browser):
    """Everything that can have the focus has a role and a name, by the tree that screen readers get."""
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    for node in nodes:
        values = {one["name"]: one["value"].get("value") for one in node.get("properties", [])}
        if values.get("focusable") and node["role"]["value"] in ("button", "slider"):
            expect(node.get("name", {}).get("value"), f"a {node['role']['value']} without a name")
    roles = [node["role"]["value"] for node in nodes if not node.get("ignored")]
    for role in ["banner", "main", "slider", "table", "heading"]:
        expect(role in roles, f"the page has no {role}")


def check_narrow(browser):
    """In a narrow window the names of the participants stay, and the lines of code go."""
    narrowest = "Math.min(...[...document.querySelectorAll('#participants td.name')].map((one) => one.clientWidth))"
    for width in [500, 360]:
        browser.resize(width, 1000)
        browser.wait("the line of code is shown", "document.querySelector('#participants td.code').offsetParent === null")
        expect(browser.evaluate(narrowest) > 90, f"in {width} px, a name has {browser.evaluate(narrowest)} px")
        expect(browser.evaluate("document.documentElement.scrollWidth") <= width, f"the page is wider than {width} px")
    browser.resize(1440, 1180)
    browser.wait("the line of code is not shown", "document.querySelector('#participants td.code').offsetParent !== null")


def take_pictures(browser, folder):
    """With a fleet whose reader has been frozen for a while: the chart is full."""
    begin = time.monotonic()
    wait_for("the time does not pass", lambda: browser.evaluate("1") and time.monotonic() > begin + 32)
    browser.evaluate("document.activeElement.blur()")
    for scheme in ["light", "dark"]:
        browser.prefer(scheme)
        browser.evaluate("new Promise((done) => setTimeout(done, 1500))")
        height = browser.evaluate("Math.ceil(document.querySelector('main').getBoundingClientRect().bottom + scrollY)")
        browser.resize(1440, height)
        browser.evaluate("new Promise((done) => setTimeout(done, 100))")
        browser.picture(folder / f"inspector-{scheme}.png")


def hostile_names(options, folder):
    """A table, an author and a file that are called like HTML are shown as text; the page runs none of it."""
    path = small_database(folder, "<b>&amp;.db")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        quoted = HOSTILE.replace('"', '""')
        connection.execute(f'CREATE TABLE "{quoted}"(value)')
        connection.execute('CREATE TABLE "turned \u202e around"(value)')
        connection.commit()
    sql = f'INSERT INTO "{quoted}" VALUES (1)'
    subprocess.run([options.tool, "sql", path, sql, "--as", "<i>writer</i>"], check=True, stdout=subprocess.DEVNULL)
    reader = start_reader(options.tool, path, "<i>author</i>", "sqlite_schema")
    inspector, browser = None, None
    try:
        inspector = Inspector(options.inspector, options.tool, path, log=folder / "log")
        browser = Browser()
        browser.open(inspector.url)
        browser.wait("the table is not shown", f"{text('tables')}.includes({json.dumps(HOSTILE)})")
        browser.wait("the direction of writing is turned", f"{text('tables')}.includes('turned \\\\u202e around')")
        browser.wait("the author is not shown", f"{text('participants')}.includes('<i>author</i>')")
        browser.wait("the change is not shown", f"{text('changes')}.includes('onerror') && {text('changes')}.includes('<i>writer</i>')")
        expect(browser.evaluate("document.title") == "<b>&amp;.db", "the title is another")
        expect(browser.evaluate("document.querySelectorAll('img, i.text, b.text, main script').length") == 0, "HTML was made of a name")
        # Where a mistake would make HTML of a text, the browser refuses it.
        refused = "(() => { try { document.createElement('p').innerHTML = 'x'; return false; } catch { return true; } })()"
        expect(browser.evaluate(refused), "the policy allows HTML of texts")
        browser.complaints.clear()
        expect_clean(browser)
    finally:
        reader.kill()
        reader.wait(DEADLINE)
        if browser:
            browser.close()
        if inspector:
            inspector.close()


def rows(section):
    return f"[...document.querySelectorAll('#{section} .body tbody tr')].map((row) => [...row.cells].map((cell) => cell.innerText))"


def consumers_and_derived_tables(options, folder):
    """History consumers with how far behind each is, and derived tables with their states, from a fleet that has both."""
    path = folder / "app.db"
    with contextlib.ExitStack() as stack:
        extended, writer, consumer = (stack.enter_context(Peer(options.peer)) for _ in range(3))
        extended.call("derivedTables", {"open": {"path": str(path), "revision": 1}})
        writer.open(path, "app")
        tables = "CREATE TABLE entry (id INTEGER PRIMARY KEY, author TEXT, n INTEGER, part INTEGER); CREATE TABLE mirror (entry INTEGER)"
        writer.call("execute", sql=tables)
        writer.call("recordHistory", of="entry", consumers=["journal", "mirror", "<b>upload</b>"])
        consumer.open(path, "sync")
        consumer.send("consumeLoop", {"journal": str(folder / "journal"), "limit": 100, "milliseconds": 0})
        inspector = Inspector(options.inspector, options.tool, path, "--every", 0.2, log=folder / "log")
        stack.callback(inspector.close)
        browser = Browser()
        stack.callback(browser.close)
        browser.open(inspector.url)
        names = ["<b>upload</b>", "journal", "mirror"]
        browser.wait("the consumers are not shown", f"{rows('history')}.map((row) => row[0]).sort().join() === {json.dumps(','.join(names))}")
        browser.wait("no derived table is shown as ready", f"{rows('derived-tables')}.every((row) => row[2] === 'ready')")
        states = browser.evaluate(rows("derived-tables"))
        expect([row[:2] for row in states] == [["boxes", "item"], ["pairs", "pair"], ["sums", "item"]], f"the derived tables are {states}")
        expect(browser.evaluate("document.querySelectorAll('#derived-tables .good').length") == 3, "derived tables that are ready are not marked")
        # One consumer reads nothing: it is behind by each row, and the others by none once they have read them.
        writer.call("writeLoop", {"seconds": 600, "thinkMilliseconds": 0, "transactionMilliseconds": 0, "rows": 1, "commits": 1234})
        with contextlib.closing(sqlite3.connect(path)) as connection:
            expect(connection.execute("SELECT count(*) FROM entry").fetchone() == (1234,), "the writer has not written")
        backlog = f"Object.fromEntries({rows('history')}.map((row) => [row[0], row[1]]))"
        browser.wait("the backlogs are not shown", f"(({{...all}}) => all['<b>upload</b>'] === '1,234' && all.journal === '0' && all.mirror === '0')({backlog})")
        for row in browser.evaluate(rows("history")):
            expect(row[2] == "following", f"its state: {row}")
            expect(row[3].count(":") == 2, f"when it was seen last: {row}")
        expect(browser.evaluate("document.querySelectorAll('#history b').length") == 0, "HTML was made of a name")
        # A derived table whose triggers were dropped, and one whose table is gone. A write of a program that declares them would restore the triggers.
        for peer in (extended, writer, consumer):
            peer.__exit__()
        with contextlib.closing(sqlite3.connect(path)) as connection:
            for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger' AND lower(name) LIKE 'roundtable%boxes%'").fetchall():
                connection.execute(f'DROP TRIGGER "{trigger}"')
            connection.execute("DROP TABLE pair")
            connection.commit()
        browser.wait(
            "the missing triggers and the missing table are not shown",
            f"JSON.stringify({rows('derived-tables')}.map((row) => row[2])) === '[\"triggers missing\",\"base table missing\",\"ready\"]'",
        )
        expect(browser.evaluate("document.querySelectorAll('#derived-tables .warning').length") == 2, "broken derived tables are not marked")
        expect_clean(browser)


def browser_beside(inspector):
    """A browser; if it does not start, the inspector is ended."""
    try:
        return Browser()
    except BaseException:
        inspector.close()
        raise


def states_of_files(options, folder):
    """A database that is not there yet, that is created, encrypted, or shared by programs of another layout: the page says so."""
    path = folder / "late.db"
    inspector = Inspector(options.inspector, options.tool, path, log=folder / "log")
    browser = browser_beside(inspector)
    try:
        browser.open(inspector.url)
        messages = "document.getElementById('messages').innerText"
        browser.wait("it is not said that there is no file", f"{messages}.includes('there is no such file')")
        browser.wait("the page is not waiting", f"{STATE} === 'waiting'")
        small_database(folder, "late.db")
        browser.wait("the database is not shown when it is there", f"{STATE} === 'live' && {text('tables')}.includes('player')")
        browser.wait("the absent control block is not told", f"{messages}.includes('there is no control block')")
        # A control block of another version: the seal, and the version (rule L6).
        subprocess.run([options.tool, "sql", path, "INSERT INTO player VALUES (1)"], check=True, stdout=subprocess.DEVNULL)
        own = next(file for file in folder.iterdir() if file.name.startswith("late.db-coord"))
        content = bytearray(own.read_bytes())
        version = int.from_bytes(content[8:12], "little")
        content[8:12] = (version + 1).to_bytes(4, "little")
        (folder / f"late.db-coord{version + 1}").write_bytes(content)
        browser.wait("the other control block is not told", f"{messages}.includes('a control block of layout {version + 1}')")
        # SQLCipher keeps bytes of each page for itself: the header says how many, behind the first bytes, which are plain.
        (folder / "late.db-wal").unlink(missing_ok=True)
        (folder / "late.db-shm").unlink(missing_ok=True)
        content = bytearray(path.read_bytes())
        content[20:100] = bytes((index * 37 + 11) % 256 for index in range(80))
        path.write_bytes(content)
        browser.wait("the encrypted database is not told", f"{text('tables')}.includes('encrypted')")
        expect_clean(browser)
        # The inspector ends, and the page says so.
        inspector.close()
        browser.wait("the lost connection is not told", f"{STATE} === 'no connection'")
    finally:
        browser.close()
        inspector.close()


def recordings(options, folder):
    """A recording of a fleet is shown with its last moment, and by the arrows what was before; a torn last line does no harm."""
    target = folder / "demo.recording"
    fleet = Fleet(options.tool, folder / "demo.sqlite", processes=5)
    recorder = None
    try:
        fleet.ready()
        recorder = subprocess.Popen([options.tool, "record", fleet.database, "-o", target], stderr=subprocess.DEVNULL)
        wait_for("no sample is recorded", lambda: target.exists() and target.read_text().count('"kind":"sample"') >= 2)
        fleet.freeze_reader()
        count = target.read_text().count('"kind":"sample"')
        wait_for("no more samples are recorded", lambda: target.read_text().count('"kind":"sample"') >= count + 3)
        # Not SIGINT, which a shell may have ignored in the background.
        recorder.send_signal(signal.SIGTERM)
        expect(recorder.wait(DEADLINE) == 128 + signal.SIGTERM, f"it has ended with {recorder.returncode}")
    finally:
        if recorder:
            recorder.kill()
            recorder.wait()
        fleet.close()
    # States that this machine cannot be brought into, as lines: a participant that is suspended, and one of another namespace.
    lines = target.read_text().splitlines()
    last = json.loads(next(line for line in reversed(lines) if '"kind":"sample"' in line))
    last["time"] += 1
    suspended = dict(last["top"]["status"]["participants"][0], author="asleep", pid=7, state="suspended", liveness="alive")
    elsewhere = dict(suspended, author="container", pid=8, state="present", liveness="unknown", in_other_pid_namespace=True)
    last["top"]["status"]["participants"] += [suspended, elsewhere]
    # A consumer that was dropped, and a derived table that is being built.
    last["sizes"]["consumers"] = [{"name": "backup", "backlog": 0, "state": "dropped", "last_seen": "2026-11-24T19:44:23Z"}]
    search = {"name": "search", "version": 1, "base_table": "entry", "state": "building", "done": 1500, "total": 4000}
    last["top"]["status"]["derived_tables"] = {"revision": 1, "tables": [search]}
    # An outbox whose command is under way, waits for long, and has no owner.
    ends = []
    for age, owners in [(0.4, [{"name": "app", "pid": 7}]), (120, [{"name": "app", "pid": 7}]), (0.4, [])]:
        oldest = datetime.datetime.fromtimestamp(last["time"] - age, datetime.timezone.utc).isoformat()
        last["top"]["status"]["outbox"] = {"waiting": 1, "bytes": 200, "oldest": oldest, "dead_letters": 0, "damaged": 0, "owners": owners}
        ends.append(json.dumps(last))
        last["time"] += 1
    with target.open("a") as file:
        # A recorder that was killed within a line, and another one that has continued the file; and a line of no known form.
        file.write('{"kind":"turns","ti\n' + lines[0] + "\n" + '{"kind":"sample","time":1}\n')
        file.write("\n".join(ends) + "\n" + '{"kind":"turns","ti')
    inspector = Inspector(options.inspector, options.tool, "--recording", target, log=folder / "log")
    browser = browser_beside(inspector)
    try:
        browser.open(inspector.url)
        browser.wait("the recording is not shown", f"{STATE} === 'recording'")
        browser.wait("its end is not shown", f"{text('participants')}.includes('suspended') && {text('participants')}.includes('8 ↗')")
        browser.wait("no turns are drawn", f"{INK} > 100")
        expect(browser.evaluate(f"{text('wal')}.includes('stopped')"), "the frozen reader is not shown")
        messages = browser.evaluate("document.getElementById('messages').innerText")
        expect("2 lines of the recording cannot be read" in messages, f"damaged lines are not told: {messages}")
        expect(browser.evaluate(rows("history"))[0][:3] == ["backup", "0", "dropped"], "the dropped consumer is not shown")
        expect(browser.evaluate("document.querySelector('#history .bad').innerText") == "dropped", "the dropped consumer is not marked")
        expect(browser.evaluate(rows("derived-tables")) == [["search", "entry", "building", "1,500 of 4,000"]], "the progress of building is not shown")
        browser.press("Home")
        browser.wait("Home does not go to the beginning", f"!{text('participants')}.includes('suspended')")
        browser.press("End")
        browser.wait("End does not go to the end", f"{text('participants')}.includes('suspended')")
        warns = "document.querySelector('#outbox .warning') !== null"
        for is_late in [True, True, False]:
            expect(browser.evaluate(f"{text('outbox')}.includes('1 (200 B)')"), "the outbox is not shown")
            expect(browser.evaluate(warns) == is_late, f"the outbox {'does not warn' if is_late else 'warns of a command under way'}")
            browser.press("ArrowLeft")
        browser.wait("the arrow does not go back", f"!{text('participants')}.includes('suspended')")
        expect("strokes: stopped" in browser.evaluate("document.getElementById('turns').innerText"), "the recording has no legend")
        expect_clean(browser)
    finally:
        browser.close()
        inspector.close()


TESTS = [live_fleet, hostile_names, consumers_and_derived_tables, states_of_files, recordings]
