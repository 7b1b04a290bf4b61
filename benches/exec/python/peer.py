"""One way of bounded concurrent execution in Python, run once on one workload.

The words are those of ../src/main.rs. At most k processors at work, each result finished on the caller's thread;
`as_completed` over windows of 1,024 futures, since it wants to have them all. The burner is a loop of Python's own:
its iterations are calibrated for it, and threads cannot run two of them at once.
"""

import json
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed

WINDOW = 1024


def burn(x, iterations):
    for _ in range(iterations):
        x = ((x ^ (x >> 29)) * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
    return x


def process(number, iterations, sleep_us):
    if iterations == 0 and sleep_us == 0:
        return number, 0
    value = burn(number, iterations)
    if sleep_us:
        time.sleep(sleep_us / 1e6)
    return value, time.monotonic_ns()


class Finisher:
    def __init__(self):
        self.count = 0
        self.sum = 0
        self.waits_ns = []

    def finish(self, outcome):
        value, ended_ns = outcome
        self.count += 1
        self.sum += value
        if ended_ns:
            self.waits_ns.append(time.monotonic_ns() - ended_ns)


def run(pool, objects, iterations, sleep_us, finisher):
    for first in range(0, objects, WINDOW):
        window = range(first, min(first + WINDOW, objects))
        for future in as_completed([pool.submit(process, number, iterations, sleep_us) for number in window]):
            finisher.finish(future.result())


POOLS = {"python-threads": ThreadPoolExecutor, "python-processes": ProcessPoolExecutor}


def cpu_s():
    """So far, of ended children as well."""
    mine, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return mine.ru_utime + mine.ru_stime + children.ru_utime + children.ru_stime


def peak_rss_kib():
    """Without children; not by getrusage, whose peak begins with that of the program that started this one."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))


def main(words):
    if words == ["calibrate"]:
        iterations, least_ns = 1_000, None
        for seed in range(200):
            start_ns = time.thread_time_ns()
            burn(seed, iterations)
            took_ns = time.thread_time_ns() - start_ns
            least_ns = took_ns if least_ns is None else min(least_ns, took_ns)
        print(json.dumps({"ns_per_iteration": least_ns / iterations}))
        return
    if len(words) != 5 or words[0] not in POOLS:
        sys.exit("usage: PEER DEGREE OBJECTS ITERATIONS SLEEP_US | calibrate")
    degree, objects, iterations, sleep_us = map(int, words[1:])
    finisher = Finisher()
    cpu_before_s = cpu_s()
    # A pool made before the clock starts and warmed up; the processes' CPU time is known when they have ended.
    with POOLS[words[0]](degree) as pool:
        run(pool, max(objects // 10, 1), iterations, sleep_us, Finisher())
        start_ns = time.monotonic_ns()
        run(pool, objects, iterations, sleep_us, finisher)
        elapsed_ns = time.monotonic_ns() - start_ns
    cpu_ns = round((cpu_s() - cpu_before_s) * 1e9)
    assert finisher.count == objects, "objects lost or finished twice"
    line = {"elapsed_ns": elapsed_ns, "cpu_ns": cpu_ns, "peak_rss_kib": peak_rss_kib()}
    waits_ns = sorted(finisher.waits_ns)
    if waits_ns:
        line["wait_p50_ns"] = waits_ns[len(waits_ns) // 2]
        line["wait_p99_ns"] = waits_ns[len(waits_ns) * 99 // 100]
        line["wait_max_ns"] = waits_ns[-1]
    print(json.dumps(line))


if __name__ == "__main__":
    main(sys.argv[1:])
