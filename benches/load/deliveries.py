#!/usr/bin/env python3
"""Deliveries checked a client CPU second: groups of ten at `threadgauge serve groups`, as fast as it goes.

    python3 benches/load/deliveries.py target/release/threadgauge [--driver target/release/examples/groups]
        [--before PATH] [--rounds 7] [--seconds 3] [--connections 1000] [--outstanding 16]

Prints a table as Markdown. Needs two CPUs: the server has the first, the client the last. `--driver` is the example
`groups` of `crates/load`, which drives the same library without the command; `--before` is that example of an earlier
version. They take turns at one server, in an order shuffled anew in each round.

Who counts: each client its own deliveries, every byte of which it has checked, and the CPU time of its thread while it
talked, connecting and warming up left out.
"""

import argparse
import json
import re
import signal
import statistics
import subprocess
import sys

from side_by_side import WAIT_S, cpus_for_two, free_port, in_turns, middle_and_ends, on_cpu

DRIVEN = re.compile(r"deliveries, (\d+) a second, driver on its CPU (\d+) % of the time")


def said(command, cpu, seconds):
    """What a client of so many seconds says."""
    ended = subprocess.run(command, preexec_fn=on_cpu(cpu), capture_output=True, text=True,
                           timeout=seconds + 3 * WAIT_S)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {ended.returncode}: {ended.stderr[-500:]}")
    return ended.stdout


def by_command(text):
    """Deliveries a CPU second, and deliveries a second, of `threadgauge load --json`."""
    run = json.loads(text)["runs"][0]
    return run["answered"] / run["generator"]["cpu_s"], run["answered"] / run["elapsed_s"]


def by_driver(text):
    """The same of the example."""
    rate, share = map(float, DRIVEN.search(text).groups())
    return rate / share * 100, rate


def clients(options, port):
    """The command of each client, and how what it says is read."""
    connections, seconds, outstanding = str(options.connections), str(options.seconds), str(options.outstanding)
    command = [options.threadgauge, "load", "groups", "--target", str(port), "--connections", connections,
               "--payload", "128", "--loop", "fast", "--pipeline", outstanding, "--duration", f"{seconds}s",
               "--watch", "none", "--json"]
    drives = [f"127.0.0.1:{port}", "nats", connections, "128", "closed", outstanding, seconds]
    all_ = {"threadgauge load": (command, by_command)}
    for name, program in [("example groups", options.driver), ("example groups, before", options.before)]:
        if program:
            all_[name] = ([program, *drives], by_driver)
    return all_


def measured(options):
    """The figures of each client by round."""
    cpus = cpus_for_two()
    port = free_port()
    server = subprocess.Popen([options.threadgauge, "serve", "groups", "--listen", f"127.0.0.1:{port}"],
                              preexec_fn=on_cpu(cpus[0]), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while "listening" not in (line := server.stderr.readline().lower()):
            if not line:
                sys.exit("the server did not start")
        all_ = clients(options, port)

        def once(name):
            command, read = all_[name]
            return read(said(command, cpus[-1], options.seconds))

        return in_turns(all_, options.rounds, once)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(WAIT_S)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("threadgauge", help="the command, built with --release")
    parser.add_argument("--driver", help="the example groups, built with --release")
    parser.add_argument("--before", help="the same of an earlier version")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=3, help="of each run")
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--outstanding", type=int, default=16, help="messages that each member has on their way")
    options = parser.parse_args()
    figures = measured(options)
    ours = [of_cpu for of_cpu, _ in figures["threadgauge load"]]
    print("| client | deliveries a CPU second of it: median (least to most), millions | over threadgauge load's, by "
          "round: median (least to most) | deliveries a second, millions |")
    print("|---|---:|---:|---:|")
    for name, rounds in figures.items():
        ratios = [theirs / own for (theirs, _), own in zip(rounds, ours)]
        rate = statistics.median(rate for _, rate in rounds)
        of_cpu = middle_and_ends([of / 1e6 for of, _ in rounds], 2)
        print(f"| {name} | {of_cpu} | {middle_and_ends(ratios, 2)} | {rate / 1e6:.2f} |")


if __name__ == "__main__":
    main()
