#!/usr/bin/env python3
"""Load generators side by side: requests a client CPU second, each against the same nginx.

    python3 benches/load/side_by_side.py target/release/threadgauge [--rounds 7] [--seconds 3] [--connections 64]

Prints a table as Markdown. Needs nginx with its status page (`nginx -V` names http_stub_status_module) and two CPUs;
of the peers it takes those that are installed: wrk, h2load, bombardier, oha. nginx has the first CPU, the generator
the last. Every generator is told to go as fast as it can, with the same connections, for the same time, on one thread
where it has such an option. They take turns, in an order shuffled anew in each round.

Who counts: requests are those that nginx says it answered, so no tool's own count or its warm-up matters. CPU time is
the generator's from its start to its end, as the kernel tells its parent.
"""

import argparse
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

BODY_BYTES = 1024
WAIT_S = 10
CONFIG = """
daemon off; worker_processes 1; pid {dir}/pid; error_log {dir}/error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 1000000000; open_file_cache max=16;
  server {{
    listen 127.0.0.1:{port}; root {dir};
    location = /status {{ stub_status; }}
  }}
}}
"""


def generators(threadgauge, url, connections, seconds):
    """The command of each generator that is installed."""
    commands = {
        "threadgauge": [threadgauge, "load", "http", "--target", url, "--loop", "fast", "--connections", connections,
                        "--duration", f"{seconds}s", "--watch", "none"],
        "wrk": ["wrk", "-t", "1", "-c", connections, "-d", f"{seconds}s", url],
        "h2load": ["h2load", "--h1", "-t", "1", "-c", connections, "-D", seconds, url],
        "bombardier": ["bombardier", "-c", connections, "-d", f"{seconds}s", "--fasthttp", url],
        "oha": ["oha", "--no-tui", "-c", connections, "-z", f"{seconds}s", url],
    }
    return {name: [str(word) for word in command] for name, command in commands.items() if shutil.which(command[0])}


def free_port():
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def answered(port):
    """How many requests nginx has answered, this one not counted."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=WAIT_S) as page:
        return int(re.search(r"^ \d+ \d+ (\d+) $", page.read().decode(), re.MULTILINE)[1]) - 1


def on_cpu(cpu):
    """What a child does before it becomes the program: it stays on this CPU."""
    return lambda: os.sched_setaffinity(0, {cpu})


def used_by(command, cpu, seconds):
    """Runs a generator of so many seconds on this CPU; returns the CPU time that it used, in seconds."""
    child = subprocess.Popen(command, preexec_fn=on_cpu(cpu), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + seconds + WAIT_S
    while True:
        pid, status, used = os.wait4(child.pid, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > deadline:
            child.kill()
            sys.exit(f"{command[0]} did not end within {WAIT_S} s of its time")
        time.sleep(0.01)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {child.returncode}: {child.stderr.read().decode()[-500:]}")
    return used.ru_utime + used.ru_stime


def once(command, port, cpu, seconds):
    """Requests a CPU second of the generator, and requests a second."""
    before = answered(port)
    began = time.monotonic()
    used_s = used_by(command, cpu, seconds)
    took = time.monotonic() - began
    # The page asked before is among those that nginx has counted since.
    requests = answered(port) - before - 1
    return requests / used_s, requests / took


def cpus_for_two():
    """The CPUs that this may use, of which the server and the generator need one each."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        sys.exit("the server and the generator need a CPU each, and there is one")
    return cpus


def in_turns(names, rounds, once):
    """What `once` gives of each name, by round; in each round they take turns, in an order shuffled anew."""
    figures = {name: [] for name in names}
    for round_ in range(rounds):
        order = list(figures)
        random.Random(round_).shuffle(order)
        for name in order:
            figures[name].append(once(name))
            print(f"round {round_ + 1}: {name} {figures[name][-1]}", file=sys.stderr)
    return figures


def middle_and_ends(values, digits):
    """The median, the least and the most, as they stand in a table."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def measured(options):
    """The figures of each generator by round."""
    cpus = cpus_for_two()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        with open(f"{folder}/index.html", "w") as page:
            page.write("x" * BODY_BYTES)
        port = free_port()
        with open(f"{folder}/nginx.conf", "w") as config:
            config.write(CONFIG.format(dir=folder, port=port))
        nginx = subprocess.Popen(["nginx", "-p", folder, "-c", f"{folder}/nginx.conf"], preexec_fn=on_cpu(cpus[0]))
        try:
            deadline = time.monotonic() + WAIT_S
            while True:
                try:
                    answered(port)
                    break
                except OSError:
                    if nginx.poll() is not None or time.monotonic() > deadline:
                        sys.exit("nginx does not answer")
                    time.sleep(0.01)
            url = f"http://127.0.0.1:{port}/index.html"
            commands = generators(options.threadgauge, url, options.connections, options.seconds)
            return in_turns(commands, options.rounds,
                            lambda name: once(commands[name], port, cpus[-1], options.seconds))
        finally:
            nginx.send_signal(signal.SIGTERM)
            nginx.wait(WAIT_S)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("threadgauge", help="the command, built with --release")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=3, help="of each run")
    parser.add_argument("--connections", type=int, default=64)
    options = parser.parse_args()
    figures = measured(options)
    print("| generator | requests a CPU second of it: median (least to most), thousands | over threadgauge's, by round: "
          "median (least to most) | requests a second, thousands |")
    print("|---|---:|---:|---:|")
    ours = [of_cpu for of_cpu, _ in figures["threadgauge"]]
    for name, rounds in sorted(figures.items(), key=lambda item: -statistics.median(of for of, _ in item[1])):
        ratios = [theirs / own for (theirs, _), own in zip(rounds, ours)]
        rate = statistics.median(rate for _, rate in rounds)
        of_cpu = middle_and_ends([of / 1e3 for of, _ in rounds], 1)
        print(f"| {name} | {of_cpu} | {middle_and_ends(ratios, 2)} | {rate / 1e3:.1f} |")


if __name__ == "__main__":
    main()
