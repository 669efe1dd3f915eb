#!/usr/bin/env python3
"""Measures, keeps and draws the figures of docs/BENCHMARKS.md that are pictures.

    plots.py measure [--short] [--data DIR]   runs the benchmarks (built before), and writes DIR/NAME.json
    plots.py draw [--data DIR] [--into DIR]   draws DIR/NAME.svg of that data
    plots.py check                            fails if docs/plots holds other pictures than its data gives

The default folders are docs/plots/data and docs/plots. Only `draw` and `check` need what plots-requirements.txt lists.
"""

import argparse
import datetime
import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLOTS = ROOT / "docs" / "plots"
PROGRAM = ".build/release/roundtable-bench"

# What is measured for the pictures, and the options that make it a matter of seconds.
MEASUREMENTS = {
    "contention": (["contention", "--processes", "8", "--seconds", "15", "--traces"], ["--seconds", "2", "--rounds", "1"]),
    "sweep": (["contention", "--sweep", "--seconds", "5"], ["--seconds", "0.2", "--rounds", "1"]),
    "readers": (["readers", "--seconds", "3"], ["--seconds", "0.1", "--rounds", "1", "--threads", "2", "--processes", "2"]),
}

SIDES = {
    # name in JSON: (name, colour, marker, line). The colours stand out from white and from black alike.
    "ours": ("Roundtable", "#2f81f7", "o", "-"),
    "grdb": ("GRDB", "#db6d28", "s", (0, (5, 1.5))),
    "sqlite-c": ("SQLite (C)", "#8957e5", "^", (0, (1.5, 1.5))),
}


class Failure(Exception):
    pass


# Measuring


def measure(data, is_short):
    data.mkdir(parents=True, exist_ok=True)
    for name, (arguments, shorter) in MEASUREMENTS.items():
        if is_short:
            arguments = without(arguments, shorter) + shorter
        command = [PROGRAM, *arguments, "--json"]
        print("plots:", " ".join(command), flush=True)
        run = subprocess.run(command, cwd=ROOT / "Benchmarks", stdout=subprocess.PIPE)
        if run.returncode != 0:
            raise Failure(f"{' '.join(command)} has failed; {data / (name + '.json')} is as it was")
        content = {
            "command": "cd Benchmarks && " + " ".join(command),
            "date": datetime.date.today().isoformat(),
            "report": json.loads(run.stdout),
        }
        (data / f"{name}.json").write_text(compact(content))


def without(arguments, options):
    """The arguments but for the options, each with one value, that are given anew."""
    names = [option for option in options if option.startswith("--")]
    kept = iter(arguments)
    result = []
    for argument in kept:
        if argument in names:
            next(kept)
        else:
            result.append(argument)
    return result


def compact(content):
    """JSON with a line for each value, and for each list of numbers; and one for every eight lists in a list."""
    text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)
    number = r"-?[0-9][-+.eE0-9]*"
    text = re.sub(rf"\[\s+({number}(?:,\s+{number})*)\s+\]", lambda m: "[" + re.sub(r"\s+", "", m[1]) + "]", text)
    lists = r"\[[^\[\]\n]*\]"
    eight = re.compile(rf"({lists})" + rf"(?:,\s+({lists}))" + "{1,7}")
    return re.sub(eight, lambda m: re.sub(r"\],\s+\[", "],[", m[0]), text) + "\n"


# Reading


def load(data, name):
    path = data / f"{name}.json"
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise Failure(f"{path} cannot be read ({error}); 'make bench PLOTS=1' writes it")


def comparisons(report):
    """Of each title, the figures of each side."""
    all = {report["title"]: report} | report.get("variants", {})
    return {title: {"ours": part["ours"], **part["peers"]} for title, part in all.items()}


def footnote(content):
    report, machine = content["report"], content["report"]["machine"]
    others = machine.get("cores_used_by_others")
    used = "" if others is None else f", of which other programs used {f'{others:.2f}' if others >= 0.01 else 'less than 0.01'}"
    return f"{machine['cores']} cores{used}; SQLite {report['sqlite_version']}; {content['date']}"


# Drawing

INK, FAINT, GRID = "#1f2328", "#59636e", "#d1d9e0"
DARK = {INK: "#e6edf3", FAINT: "#9198a1", GRID: "#3d444d"}
FONTS = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"


def matplotlib():
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "roundtable",
            "path.simplify": False,
            "font.size": 10,
            "text.color": INK,
            "axes.labelcolor": INK,
            "axes.edgecolor": FAINT,
            "axes.titlesize": 11,
            "axes.titlelocation": "left",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "grid.color": GRID,
            "grid.linewidth": 0.6,
            "xtick.color": FAINT,
            "ytick.color": FAINT,
            "xtick.labelcolor": INK,
            "ytick.labelcolor": INK,
            "legend.frameon": False,
        }
    )
    import matplotlib.pyplot

    return matplotlib.pyplot


def save(figure, path, title, description, content):
    """Writes SVG in the colours of a light page, with a style for a dark one."""
    figure.text(0.99, 0.012, footnote(content), ha="right", va="bottom", fontsize=8, color=FAINT)
    figure.savefig(path, transparent=True, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = path.read_text()
    rules = "".join(
        f'[style*="{key}: {light}"] {{ {key}: {dark} !important }}\n' for light, dark in DARK.items() for key in ("fill", "stroke")
    )
    head = (
        f'\n <title id="title">{escaped(title)}</title>\n <desc id="desc">{escaped(description)}</desc>\n'
        f" <style>\n@media (prefers-color-scheme: dark) {{\n{rules}}}\n </style>"
    )
    text = re.sub(r"<metadata>.*?</metadata>", "", text, count=1, flags=re.DOTALL)
    text = re.sub(r"<!DOCTYPE.*?>\n", "", text, count=1, flags=re.DOTALL)
    text = re.sub(r"(<svg [^>]*?)>", lambda m: f'{m[1]} role="img" aria-labelledby="title desc">{head}', text, count=1)
    text = re.sub(r"(font(?:-family)?: [^;\"]*?)'DejaVu Sans'[^;\"]*", lambda m: m[1] + FONTS, text)
    # A hundredth of a point is enough, and the same on every processor.
    text = re.sub(r'(?<= d=")[^"]*', lambda m: re.sub(r"-?\d+\.\d+", lambda n: f"{float(n[0]):.2f}".rstrip("0").rstrip("."), m[0]), text)
    path.write_text(text)
    matplotlib().close(figure)


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def longest_gaps(trace):
    """For each process, the longest time within the trace in which it commits nothing, in milliseconds."""
    last = {process: 0 for process in range(1, trace["processes"] + 1)}
    longest = dict(last)
    for process, began, ended in trace["turns"]:
        longest[process] = max(longest[process], began - last[process])
        last[process] = ended
    return {process: max(longest[process], trace["microseconds"] - last[process]) / 1000 for process in last}


def fairness(data, path):
    """Who held the turn when."""
    content = load(data, "contention")
    plt = matplotlib()
    traces = {side: content["report"]["traces"][side] for side in ("ours", "grdb")}
    processes = content["report"]["processes"]
    figure, panels = plt.subplots(2, 1, figsize=(8.4, 5.4), sharex=True)
    said = []
    for panel, (side, trace) in zip(panels, traces.items()):
        name, colour, _, _ = SIDES[side]
        gaps = longest_gaps(trace)
        starved = gaps.keys() - {process for process, _, _ in trace["turns"]}
        if starved:
            said.append(f"{name}: {len(starved)} of {processes} processes {'has' if len(starved) == 1 else 'have'} no turn")
        else:
            said.append(f"{name}: no process without a turn for more than {max(gaps.values()):,.0f} ms")
        for process in range(1, processes + 1):
            turns = [turn for turn in trace["turns"] if turn[0] == process]
            # One path for each row: points that are not numbers separate the turns.
            xs = [x for _, began, ended in turns for x in (began / 1000, ended / 1000, math.nan)]
            panel.plot(xs, [process if x == x else math.nan for x in xs], color=colour, linewidth=9, solid_capstyle="butt")
            panel.annotate(
                "no turn" if process in starved else f"{gaps[process]:,.0f} ms",
                (1, process),
                (44, 0),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                ha="right",
                va="center",
                fontsize=9,
            )
        panel.annotate("longest gap", (1, 1), (44, 6), "axes fraction", "offset points", ha="right", fontsize=9, color=FAINT)
        panel.set_title(said[-1])
        panel.set_ylim(processes + 0.7, 0.3)
        panel.set_yticks(range(1, processes + 1))
        panel.set_ylabel("process")
        panel.grid(axis="y", visible=False)
        panel.set_xlim(0, trace["microseconds"] / 1000)
    panels[-1].xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    panels[-1].set_xlabel("time, ms")
    seconds = traces["ours"]["microseconds"] / 1e6
    title = f"Who writes when: {processes} processes that commit without pause, for {seconds:g} s"
    figure.suptitle(title, x=0.012, ha="left", fontsize=13)
    figure.subplots_adjust(left=0.065, right=0.905, top=0.875, bottom=0.13, hspace=0.28)
    save(figure, path, title, f"A row for each process, a mark for each of its turns. {'; '.join(said)}.", content)


def latency(data, path):
    """How long commits take, from the call until the return."""
    content = load(data, "contention")
    report = content["report"]
    plt = matplotlib()
    figure, panels = plt.subplots(1, 2, figsize=(8.4, 4.4), sharey=True, gridspec_kw={"width_ratios": [3, 2]})
    kinds = [
        ("share_of_commits", "Counted by commits", "share of the commits that take no longer"),
        ("share_of_time", "Counted by moments", "share of the time"),
    ]
    said = []
    for panel, (kind, title, label) in zip(panels, kinds):
        most = 0
        for side, (name, colour, _, line) in SIDES.items():
            points = report["traces"][side][kind]
            # The number of nines: 90 % is 1, 99 % is 2.
            nines = [-math.log10(1 - share) if share < 1 else 9 for share, _ in points]
            most = max(most, nines[-1])
            panel.plot(nines, [us for _, us in points], drawstyle="steps-post", color=colour, linestyle=line, linewidth=1.8, label=name)
            if kind == "share_of_time":
                said.append(f"{name} {duration(percentile(points, 0.99))}")
        panel.set_title(title)
        panel.set_xlabel(label)
        panel.set_xlim(0, most)
        # A label at the very end would run into the next panel.
        ticks = range(0, math.floor(most - 0.25) + 1)
        panel.set_xticks(ticks, [percent(nines) for nines in ticks])
        panel.set_yscale("log")
        panel.minorticks_off()
    decades = [10**exponent for exponent in range(1, 7)]
    panels[0].set_yticks(decades, [duration(us) for us in decades])
    panels[0].set_ylabel("from the call until the commit has returned")
    panels[0].legend(loc="upper left")
    title = f"How long a commit takes: {report['processes']} processes that commit without pause"
    figure.suptitle(title, x=0.012, ha="left", fontsize=13)
    figure.subplots_adjust(left=0.1, right=0.985, top=0.845, bottom=0.165, wspace=0.06)
    description = (
        "Percentiles on a logarithmic axis, counted by commits and by moments. At 99 of 100 random moments, the commit that "
        f"a process is at takes no longer than: {', '.join(said)}."
    )
    save(figure, path, title, description, content)


def percentile(points, share):
    return next((us for at, us in points if at >= share - 1e-9), points[-1][1])


def percent(nines):
    return "0" if nines == 0 else f"{100 * (1 - 10.0**-nines):.{max(0, nines - 2)}f} %"


def duration(us):
    if us < 1000:
        return f"{us:.0f} µs"
    return f"{us / 1000:.0f} ms" if us < 1e6 else f"{us / 1e6:.2g} s"


def curve(panel, counts, figures, name, side, line=None, **options):
    """One figure of one side over the numbers of processes or threads, with its middle half."""
    label, colour, marker, own_line = SIDES[side]
    values = [part[name] for part in figures]
    options = {"label": label, "markersize": 5, "linewidth": 1.8} | options
    panel.plot(counts, values, color=colour, marker=marker, linestyle=line or own_line, **options)
    ranges = [part.get(name + "_range", [value, value]) for part, value in zip(figures, values)]
    if options["label"]:
        panel.fill_between(counts, [low for low, _ in ranges], [high for _, high in ranges], color=colour, alpha=0.15, linewidth=0)


def count_axis(panel, counts, label):
    panel.set_xscale("log", base=2)
    panel.set_xticks(counts, [str(count) for count in counts])
    panel.xaxis.minorticks_off()
    panel.set_xlabel(label)


def throughput(data, path):
    """Commits a second, of all processes together."""
    content = load(data, "sweep")
    plt = matplotlib()
    parts = {int(title.split()[0]): part for title, part in comparisons(content["report"]).items()}
    counts = sorted(parts)
    figure, panel = plt.subplots(figsize=(8.4, 3.9))
    for side in SIDES:
        curve(panel, counts, [parts[count][side] for count in counts], "tx_per_s", side)
    count_axis(panel, counts, "processes that commit one row after the other, without pause")
    panel.set_ylim(bottom=0)
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    panel.set_ylabel("transactions per second, together")
    panel.legend(loc="lower left", ncols=3)
    title = "Commits per second over the number of processes"
    figure.suptitle(title, x=0.012, ha="left", fontsize=13)
    figure.subplots_adjust(left=0.1, right=0.985, top=0.885, bottom=0.175)
    last = counts[-1]
    said = ", ".join(f"{SIDES[side][0]} {parts[1][side]['tx_per_s']:,.0f} and {parts[last][side]['tx_per_s']:,.0f}" for side in SIDES)
    save(figure, path, title, f"Medians with their middle halves. With 1 and with {last} processes: {said}.", content)


def readers(data, path):
    """How reading scales with threads and with processes."""
    content = load(data, "readers")
    plt = matplotlib()
    parts = comparisons(content["report"])
    cores = content["report"]["machine"]["cores"]
    beside = ", beside a writer"
    figure, panels = plt.subplots(1, 2, figsize=(8.4, 4.1), sharey=True)
    said = []
    for panel, unit in zip(panels, ["threads", "processes"]):
        titles = {1: "1 thread"} | {int(title.split()[0]): title for title in parts if title.endswith(" " + unit)}
        counts = sorted(titles)
        for side, (name, _, _, _) in SIDES.items():
            alone = [parts[titles[count]][side] for count in counts]
            curve(panel, counts, alone, "times_one", side, line="-")
            written = [parts[titles[count] + beside][side] for count in counts]
            curve(panel, counts, written, "times_one", side, line=":", label=None, linewidth=1.2, markersize=4, markerfacecolor="none")
            said.append(f"{name} with {counts[-1]} {unit} {alone[-1]['times_one']:.2g}")
        count_axis(panel, counts, f"{unit} that read" + (" in one process" if unit == "threads" else ", of one thread each"))
        panel.axhline(cores, color=FAINT, linewidth=0.8, linestyle=(0, (6, 4)))
    # For both panels, which share it.
    panels[0].set_yscale("log", base=2)
    panels[0].yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    panels[0].yaxis.minorticks_off()
    panels[0].annotate("number of cores", (1, cores), (0, 4), textcoords="offset points", fontsize=9, color=FAINT)
    panels[0].set_ylabel("reads per second ÷ those of one thread")
    handles, labels = panels[0].get_legend_handles_labels()
    handles.append(plt.Line2D([], [], color=FAINT, linestyle=":", marker="o", markerfacecolor="none", markersize=4, linewidth=1.2))
    figure.legend(handles, [*labels, "beside a process that writes"], loc="upper left", ncols=4, bbox_to_anchor=(0.06, 0.925))
    title = "How reading scales: one row by its key, again and again"
    figure.suptitle(title, x=0.012, ha="left", fontsize=13)
    figure.subplots_adjust(left=0.075, right=0.985, top=0.82, bottom=0.17, wspace=0.06)
    save(figure, path, title, f"Reads per second, times those of one thread: {'; '.join(said)}.", content)


PICTURES = {"fairness": fairness, "latency": latency, "throughput": throughput, "readers": readers}


def draw(data, into):
    into.mkdir(parents=True, exist_ok=True)
    for name, picture in PICTURES.items():
        picture(data, into / f"{name}.svg")


def check():
    with tempfile.TemporaryDirectory() as folder:
        draw(PLOTS / "data", Path(folder))
        for name in PICTURES:
            committed = PLOTS / f"{name}.svg"
            if not committed.exists() or committed.read_text() != (Path(folder) / f"{name}.svg").read_text():
                raise Failure(f"{committed} is not what its data gives: run 'make plots'")
    print(f"plots: {len(PICTURES)} pictures are what their data gives")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["measure", "draw", "check"])
    parser.add_argument("--short", action="store_true", help="measure for seconds: to see that it works")
    parser.add_argument("--data", type=Path, default=PLOTS / "data")
    parser.add_argument("--into", type=Path, default=PLOTS)
    options = parser.parse_args()
    try:
        if options.verb == "measure":
            measure(options.data, options.short)
        elif options.verb == "draw":
            draw(options.data, options.into)
        else:
            check()
    except Failure as failure:
        sys.exit(f"plots.py: {failure}")


main()
