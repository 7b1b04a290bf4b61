"""What the guest in guests/python measures, as benchmarks of pyperf: python units.py NAME UNIT, and pyperf's options.

NAME is create, lap (a token to another unit and back, two hops) or pool. UNIT is thread, process or task.
"""

import asyncio
import concurrent.futures
import multiprocessing
import queue
import threading
import time

import pyperf

UNITS = ("thread", "process", "task")
WAITS = [0.020] * 8
processes = multiprocessing.get_context("fork")
kinds = {"thread": threading.Thread, "process": processes.Process}


def nothing():
    pass


async def nothing_to_await():
    pass


def create(kind):
    unit = kind(target=nothing)
    unit.start()
    unit.join()


async def create_task():
    await asyncio.create_task(nothing_to_await())


def hand_back(there, back):
    while (token := there.get()) is not None:
        back.put(token)


def lap(loops, kind, make_queue):
    there, back = make_queue(), make_queue()
    other = kind(target=hand_back, args=(there, back))
    other.start()
    begun = pyperf.perf_counter()
    for _ in range(loops):
        there.put(1)
        back.get()
    wall = pyperf.perf_counter() - begun
    there.put(None)
    other.join()
    return wall


async def hand_back_in_task(there, back):
    while (token := await there.get()) is not None:
        back.put_nowait(token)


async def laps_of_tasks(loops):
    there, back = asyncio.Queue(), asyncio.Queue()
    other = asyncio.create_task(hand_back_in_task(there, back))
    begun = pyperf.perf_counter()
    for _ in range(loops):
        there.put_nowait(1)
        await back.get()
    wall = pyperf.perf_counter() - begun
    there.put_nowait(None)
    await other
    return wall


def pool(loops, unit):
    """Until all have waited: the end of the pool itself is left out."""
    wall = 0
    for _ in range(loops):
        begun = pyperf.perf_counter()
        if unit == "thread":
            executor = concurrent.futures.ThreadPoolExecutor(len(WAITS))
        else:
            executor = concurrent.futures.ProcessPoolExecutor(len(WAITS), mp_context=processes)
        with executor:
            list(executor.map(time.sleep, WAITS))
            wall += pyperf.perf_counter() - begun
    return wall


async def pool_of_tasks():
    permits = asyncio.Semaphore(len(WAITS))

    async def wait(seconds):
        async with permits:
            await asyncio.sleep(seconds)

    await asyncio.gather(*(wait(seconds) for seconds in WAITS))


def pass_on(command, args):
    command.extend((args.name, args.unit))


def main():
    runner = pyperf.Runner(add_cmdline_args=pass_on)
    runner.argparser.add_argument("name", choices=("create", "lap", "pool"))
    runner.argparser.add_argument("unit", choices=UNITS)
    args = runner.parse_args()
    name = f"{args.name} {args.unit}"
    queues = {"thread": queue.SimpleQueue, "process": processes.SimpleQueue}
    if args.unit != "task":
        match args.name:
            case "create":
                runner.bench_func(name, create, kinds[args.unit])
            case "lap":
                runner.bench_time_func(name, lap, kinds[args.unit], queues[args.unit])
            case "pool":
                runner.bench_time_func(name, pool, args.unit)
        return
    match args.name:
        case "create":
            runner.bench_async_func(name, create_task)
        case "lap":
            runner.bench_time_func(name, lambda loops: asyncio.run(laps_of_tasks(loops)))
        case "pool":
            runner.bench_func(name, lambda: asyncio.run(pool_of_tasks()))


if __name__ == "__main__":
    main()
