#!/usr/bin/env python3
"""Two builds of the command side by side: CPU time a unit of its servers and of its load generator, after over before.

    python3 benches/load/before_and_after.py BEFORE AFTER [--rounds 7] [--seconds 2] [--only echo/reactor,load/http]

BEFORE and AFTER are two builds with --release. Prints tables as Markdown. Needs two CPUs: the server has the first, the
generator the last. The two builds take turns within a cell, in an order shuffled anew in each round, so that a drift
of the machine falls on both alike.

A cell of a server is a protocol on a design, driven by BEFORE's generator as fast as it can: the server's CPU time from
its start to its end with all its children, as the kernel tells its parent, for each answer (groups: each delivery) that
the generator counted. A cell of the generator is a protocol against BEFORE's server on one reactor: the generator's
CPU time for each answer. The ratio of a cell is the median over rounds; that of all is the geometric mean over cells
in each round, given as its median over rounds with the interval of the sign test.
"""

import argparse
import io
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile

from side_by_side import cpus_for_two, middle_and_ends, on_cpu

WAIT_S = 60
# What the generator is told of each protocol, beside what all are told.
CLIENTS = {
    "echo": ["--connections", "64"],
    "bytes": ["--connections", "16", "--close", "--payload", "4000"],
    "http": ["--connections", "64"],
    "groups": ["--connections", "100"],
}
# One of each kind of engine with each protocol; no forking design serves groups.
DESIGNS = {
    "echo": ["process-per-connection", "thread-per-connection", "reactor", "split-reactor", "reactor-pool",
             "reactor-per-core", "proactor", "leader-followers", "half-sync-half-async"],
    "bytes": ["iterative", "process-per-connection", "preforked-accept", "thread-per-connection", "prethreaded-mutex",
              "reactor", "split-reactor", "proactor", "leader-followers", "half-sync-half-async"],
    "http": ["thread-per-connection", "reactor", "split-reactor", "reactor-pool", "reactor-per-core", "proactor",
             "leader-followers", "half-sync-half-async"],
    "groups": ["thread-per-connection", "reactor", "split-reactor", "reactor-pool", "reactor-per-core", "proactor",
               "leader-followers", "half-sync-half-async"],
}
GENERATORS = ["echo", "bytes", "http", "groups"]


def ended(child, what, words, well=(0,)):
    """Waits for a child; returns the CPU time in seconds that it and its children used. Its words say why it failed."""
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in well:
        words.seek(0)
        sys.exit(f"{what} ended with {child.returncode}: {words.read()}")
    return used.ru_utime + used.ru_stime


def once(server_build, generator_build, protocol, design, cpus, seconds):
    """One load on one server: the CPU seconds of the server and of the generator, and the units."""
    server = subprocess.Popen([server_build, "serve", protocol, "--design", design, "--listen", "127.0.0.1:0"],
                              preexec_fn=on_cpu(cpus[0]), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    line = server.stderr.readline()
    if not line.startswith("listening on "):
        server.kill()
        sys.exit(f"serve {protocol} --design {design}: {line}{server.stderr.read()}")
    address = line.split()[2]
    target = f"http://{address}/1024" if protocol == "http" else address
    command = [generator_build, "load", protocol, "--target", target, "--loop", "fast", "--duration", f"{seconds}s",
               "--watch", "none", "--json", *CLIENTS[protocol]]
    with tempfile.TemporaryFile("w+") as words:
        load = subprocess.Popen(command, preexec_fn=on_cpu(cpus[-1]), stdout=subprocess.PIPE, stderr=words)
        said = load.stdout.read()
        try:
            # 1 is also a load whose generator had no CPU for a while, which CPU time does not mind.
            load_s = ended(load, " ".join(command), words, well=(0, 1))
        except SystemExit:
            server.kill()
            raise
    server.send_signal(signal.SIGTERM)
    words = io.StringIO(server.stderr.read())
    server_s = ended(server, f"serve {protocol} --design {design}", words)
    run = json.loads(said)["runs"][0]
    if not run["right"]:
        sys.exit(f"serve {protocol} --design {design} answered wrongly: {json.dumps(run, indent=1)}")
    return server_s, load_s, run["answered"]


def cells(only):
    """The cells to measure: what is compared, the protocol and the design."""
    servers = [("serve", protocol, design) for protocol, designs in DESIGNS.items() for design in designs]
    loads = [("load", protocol, "reactor") for protocol in GENERATORS]
    names = {name_of(cell): cell for cell in servers + loads}
    unknown = [name for name in only if name not in names]
    if unknown:
        sys.exit(f"there is no cell {', '.join(unknown)}; there are {', '.join(names)}")
    return [cell for name, cell in names.items() if not only or name in only]


def name_of(cell):
    what, protocol, design = cell
    return f"load/{protocol}" if what == "load" else f"{protocol}/{design}"


def unit_ns(cell, build, before, cpus, seconds):
    """Nanoseconds of CPU time for a unit of this cell by this build."""
    what, protocol, design = cell
    if what == "serve":
        server_s, _, units = once(build, before, protocol, design, cpus, seconds)
        return server_s / units * 1e9
    _, load_s, units = once(before, build, protocol, design, cpus, seconds)
    return load_s / units * 1e9


def sign_interval(values):
    """The order statistics between which the median lies with at least 95 %; the ends where there are too few."""
    values, n = sorted(values), len(values)
    k = max((k for k in range(n // 2) if 2 * sum(math.comb(n, i) for i in range(k + 1)) / 2**n <= 0.05), default=0)
    return values[k], values[n - 1 - k]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="the command of before, built with --release")
    parser.add_argument("after", help="the command of after, built with --release")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=2, help="of each load")
    parser.add_argument("--only", default="", metavar="CELL,…", help="some cells, as echo/reactor or load/http")
    options = parser.parse_args()
    cpus = cpus_for_two()
    wanted = cells([name for name in options.only.split(",") if name])
    builds = {"before": os.path.abspath(options.before), "after": os.path.abspath(options.after)}
    figures = {(cell, build): [] for cell in wanted for build in builds}
    for round_ in range(options.rounds):
        order = list(wanted)
        random.Random(round_).shuffle(order)
        for number, cell in enumerate(order):
            # Which build is first changes from cell to cell and from round to round.
            turns = sorted(builds, reverse=(round_ + number) % 2 == 0)
            for build in turns:
                ns = unit_ns(cell, builds[build], builds["before"], cpus, options.seconds)
                figures[cell, build].append(ns)
                print(f"round {round_ + 1}: {name_of(cell)} {build} {ns:.0f} ns", file=sys.stderr)
    ratios = {cell: [after / before for before, after in zip(figures[cell, "before"], figures[cell, "after"])]
              for cell in wanted}
    for what, title in [("serve", "Servers"), ("load", "Load generator")]:
        of_it = [cell for cell in wanted if cell[0] == what]
        if not of_it:
            continue
        print(f"## {title}\n\n| cell | before, µs of CPU time a unit: median (least to most) | after | after over before, "
              "by round |\n|---|---:|---:|---:|")
        for cell in of_it:
            before, after = ([ns / 1e3 for ns in figures[cell, build]] for build in builds)
            print(f"| {name_of(cell)} | {middle_and_ends(before, 2)} | {middle_and_ends(after, 2)} | "
                  f"{middle_and_ends(ratios[cell], 2)} |")
        of_rounds = [math.exp(statistics.fmean(math.log(ratios[cell][round_]) for cell in of_it))
                     for round_ in range(options.rounds)]
        least, most = sign_interval(of_rounds)
        print(f"| **geometric mean** | | | **{statistics.median(of_rounds):.3f} [{least:.3f}, {most:.3f}]** |\n")


if __name__ == "__main__":
    main()
