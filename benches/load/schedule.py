#!/usr/bin/env python3
"""How late load generators send what they are to send: the schedule's error in an open loop at half of capacity.

    python3 benches/load/schedule.py target/release/threadgauge [--rounds 7] [--seconds 5] [--connections 512]

Prints a table as Markdown. Needs a C compiler and two CPUs; wrk2 is taken where it is installed under that name (its
own build calls it wrk). A small server in C, `recorder.c`, has the first CPU, the generator the last. It computes for
some microseconds a request, so that it takes as long as nginx for a small page, and a generator at half of its capacity
has time left: a run that threadgauge calls invalid ends this. There are so many connections that one is free whenever
the server pauses for some milliseconds: a request that waits for one is not late by its generator. Capacity is what
threadgauge reaches there as fast as it can. Both generators are told to send at equal distances, and take turns in an
order shuffled anew in each round.

Who counts: the kernel says when each request came in. Of the requests after the first second, the n-th of a schedule
was to come at the schedule's beginning plus n times its distance. The beginning is unknown, so it is set where the
request that was least late was not late at all. threadgauge has one schedule, wrk2 one for each connection, each with a
beginning of its own: that flatters wrk2.
"""

import argparse
import pathlib
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections import defaultdict

from side_by_side import WAIT_S, cpus_for_two, free_port, in_turns, middle_and_ends, used_by

SETTLED_NS = 1_000_000_000
# With the system calls of a request, about what nginx takes for a page of 1,024 bytes.
WORK_NS = 4_000


def compiled(folder):
    source = pathlib.Path(__file__).with_name("recorder.c")
    subprocess.run(["cc", "-O2", "-o", f"{folder}/recorder", source], check=True)
    return f"{folder}/recorder"


def recorded(recorder, command, cpus, seconds):
    """When the requests of this command came in, by connection."""
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        server = subprocess.Popen(["taskset", "-c", str(cpus[0]), recorder, str(port), f"{folder}/times",
                                   str(WORK_NS)])
        try:
            deadline = time.monotonic() + WAIT_S
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    if server.poll() is not None or time.monotonic() > deadline:
                        sys.exit("the recorder does not answer")
                    time.sleep(0.01)
            used_by([word.replace("PORT", str(port)) for word in command], cpus[-1], seconds)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(WAIT_S)
        times = defaultdict(list)
        for connection, ns in struct.iter_unpack("<QQ", pathlib.Path(f"{folder}/times").read_bytes()):
            times[connection].append(ns)
        return times


def lateness(times, distance_ns):
    """How late each request of one schedule was, in nanoseconds."""
    times = sorted(times)
    late = [at - n * distance_ns for n, at in enumerate(times) if at - times[0] > SETTLED_NS]
    least = min(late, default=0)
    return [each - least for each in late]


def median_and_99th(values):
    values = sorted(values)
    return values[len(values) // 2], values[len(values) * 99 // 100]


def measured(options):
    """The median and the 99th percentile of each generator by round, in microseconds, and the rate."""
    cpus = cpus_for_two()
    url, connections = "http://127.0.0.1:PORT/", str(options.connections)
    ours = [options.threadgauge, "load", "http", "--target", url, "--connections", connections, "--watch", "none"]
    with tempfile.TemporaryDirectory() as folder:
        recorder = compiled(folder)
        fast = recorded(recorder, [*ours, "--loop", "fast", "--duration", "3s"], cpus, 3)
        rate = round(sum(map(len, fast.values())) / 3 / 2, -3)
        rate = int(rate - rate % options.connections)
        seconds = options.seconds
        commands = {"threadgauge": [*ours, "--arrivals", "uniform", "--rate", str(rate), "--duration", f"{seconds}s"]}
        if shutil.which("wrk2"):
            commands["wrk2"] = ["wrk2", "-t1", "-c", connections, f"-d{seconds}s", f"-R{rate}", url]

        def once(name):
            by_connection = recorded(recorder, commands[name], cpus, seconds)
            if name == "wrk2":
                schedules = [lateness(times, 1e9 / rate * options.connections) for times in by_connection.values()]
            else:
                schedules = [lateness(sum(by_connection.values(), []), 1e9 / rate)]
            late = [each / 1e3 for schedule in schedules for each in schedule]
            return (*median_and_99th(late), len(late) / (seconds - 1))

        return in_turns(commands, options.rounds, once), rate


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("threadgauge", help="the command, built with --release")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=5, help="of each run; the first is not counted")
    parser.add_argument("--connections", type=int, default=512)
    figures, rate = measured(parser.parse_args())
    print(f"{rate} requests a second\n")
    print("| generator | median lateness, µs: median (least to most) | 99th percentile, µs | requests a second |")
    print("|---|---:|---:|---:|")
    for name, rounds in figures.items():
        medians, tails, rates = zip(*rounds)
        print(f"| {name} | {middle_and_ends(medians, 1)} | {middle_and_ends(tails, 0)} | {statistics.median(rates):.0f} |")


if __name__ == "__main__":
    main()
