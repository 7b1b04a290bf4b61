"""The cases of the experiments as a Python program would have them: threads, processes and asyncio's tasks.

    guest.py create UNIT COUNT                   makes and ends COUNT units, one after the other, in ten batches
    guest.py ring UNIT RING WARM_NS TIMED_NS     a token goes round RING units by the runtime's own queue
    guest.py idle UNIT COUNT                     keeps COUNT units that wait, until its standard input ends
    guest.py most UNIT LIMIT                     makes units that wait until one is refused, LIMIT at most
    guest.py pool UNIT DEGREE KIND MS/MS/…       runs computations, DEGREE at a time: KIND is cpu or io
    guest.py print UNIT UNITS PRINTS TEXT LOG    prints lines into what standard input is, and into the file LOG, or -
    guest.py past UNIT COUNT                     makes units that wait once its input has ended; what refused one
    guest.py serve DESIGN PROTOCOL PORT          a server (serve.py): says where it listens, serves until it is ended

UNIT is thread, process or task. It answers as the programs in C do (`guests/c/guest.h`): one line, `done NAME=NUMBER …`
or `error WORDS`. `idle` and `past` say `ready made=NUMBER` first.
"""

import asyncio
import concurrent.futures
import multiprocessing
import queue
import sys
import threading
import time

BATCHES = 10
now_ns = time.monotonic_ns
# As the C programs make theirs; it is no default any more on newer versions.
processes = multiprocessing.get_context("fork")


def done(**figures):
    print("done", *(f"{name}={number}" for name, number in figures.items()), flush=True)


def nothing():
    pass


async def nothing_to_await():
    pass


# --- create ---


def create_and_join(kind, count):
    for _ in range(count):
        unit = kind(target=nothing)
        unit.start()
        unit.join()


async def create_tasks(count):
    for _ in range(count):
        await asyncio.create_task(nothing_to_await())


def in_batches(count, make):
    """The time of each batch, from the first, which is cold."""
    figures, before_ns = {"made": count // BATCHES * BATCHES}, now_ns()
    for batch in range(1, BATCHES + 1):
        make(count // BATCHES)
        after_ns = now_ns()
        figures[f"batch_{batch}_ns"] = after_ns - before_ns
        before_ns = after_ns
    return figures


async def in_batches_of_tasks(count):
    figures, before_ns = {"made": count // BATCHES * BATCHES}, now_ns()
    for batch in range(1, BATCHES + 1):
        await create_tasks(count // BATCHES)
        after_ns = now_ns()
        figures[f"batch_{batch}_ns"] = after_ns - before_ns
        before_ns = after_ns
    return figures


def create(unit, count):
    if unit == "task":
        return done(**asyncio.run(in_batches_of_tasks(count)))
    kind = threading.Thread if unit == "thread" else processes.Process
    done(**in_batches(count, lambda some: create_and_join(kind, some)))


# --- ring: unit 0 has the clock, and a lap is a token that comes back ---


def hand_on(own, following):
    while True:
        token = own.get()
        following.put(token)
        if token is None:
            return


def lap(own, following):
    following.put(1)
    own.get()


def time_laps(lap, warm_ns, timed_ns):
    """Twice as many laps as before until they have lasted for the warm-up; then so many again and again, timed."""
    count, begun_ns = 1, now_ns()
    while now_ns() - begun_ns < warm_ns:
        for _ in range(count):
            lap()
        count *= 2
    laps, begun_ns = 0, now_ns()
    while now_ns() - begun_ns < timed_ns:
        for _ in range(count):
            lap()
        laps += count
    return now_ns() - begun_ns, laps


def ring_of_units(kind, make_queue, ring, warm_ns, timed_ns):
    queues = [make_queue() for _ in range(ring)]
    units = [kind(target=hand_on, args=(queues[i], queues[(i + 1) % ring])) for i in range(1, ring)]
    for unit in units:
        unit.start()
    wall_ns, laps = time_laps(lambda: lap(queues[0], queues[1]), warm_ns, timed_ns)
    queues[1].put(None)
    queues[0].get()
    for unit in units:
        unit.join()
    done(wall_ns=wall_ns, hops=laps * ring)


async def hand_on_in_task(own, following):
    while True:
        token = await own.get()
        following.put_nowait(token)
        if token is None:
            return


async def ring_of_tasks(ring, warm_ns, timed_ns):
    queues = [asyncio.Queue() for _ in range(ring)]
    tasks = [asyncio.create_task(hand_on_in_task(queues[i], queues[(i + 1) % ring])) for i in range(1, ring)]

    async def laps_of(count):
        for _ in range(count):
            queues[1].put_nowait(1)
            await queues[0].get()

    count, begun_ns = 1, now_ns()
    while now_ns() - begun_ns < warm_ns:
        await laps_of(count)
        count *= 2
    laps, begun_ns = 0, now_ns()
    while now_ns() - begun_ns < timed_ns:
        await laps_of(count)
        laps += count
    wall_ns = now_ns() - begun_ns
    queues[1].put_nowait(None)
    await queues[0].get()
    await asyncio.gather(*tasks)
    done(wall_ns=wall_ns, hops=laps * ring)


def ring(unit, size, warm_ns, timed_ns):
    if unit == "task":
        asyncio.run(ring_of_tasks(size, warm_ns, timed_ns))
    elif unit == "thread":
        ring_of_units(threading.Thread, queue.SimpleQueue, size, warm_ns, timed_ns)
    else:
        ring_of_units(processes.Process, processes.SimpleQueue, size, warm_ns, timed_ns)


# --- units that wait ---


def end_of_input():
    sys.stdin.buffer.read()


def keep_waiting(kind, event, count, ready):
    """Makes units until one is refused. How many there are."""
    units, made = [], 0
    try:
        for made in range(1, count + 1):
            unit = kind(target=event.wait, daemon=True)
            unit.start()
            units.append(unit)
    except (RuntimeError, OSError):
        made -= 1
    ready(made)
    event.set()
    for unit in units:
        unit.join()


async def keep_tasks(count, ready):
    event = asyncio.Event()
    tasks = [asyncio.create_task(event.wait()) for _ in range(count)]
    # Until each has begun to wait.
    await asyncio.sleep(0)
    ready(count)
    event.set()
    await asyncio.gather(*tasks)


def keep(unit, count, ready):
    if unit == "task":
        asyncio.run(keep_tasks(count, ready))
    elif unit == "thread":
        keep_waiting(threading.Thread, threading.Event(), count, ready)
    else:
        keep_waiting(processes.Process, processes.Event(), count, ready)


def idle(unit, count):
    def ready(made):
        print(f"ready made={made}", flush=True)
        end_of_input()
        done(made=made)

    keep(unit, count, ready)


def most(unit, limit):
    keep(unit, limit, lambda made: done(made=made, refused=int(made < limit)))


# --- past: units that wait, where the system makes few more ---


def again(kind):
    """Whether a unit can be made again: tried for half a second, since the end of the others may be under way."""
    for _ in range(50):
        try:
            unit = kind(target=nothing)
            unit.start()
            unit.join()
            return 1
        except (RuntimeError, OSError):
            time.sleep(0.01)
    return 0


def past_by(kind, event, count):
    units, refused, begun_ns = [], 0, now_ns()
    try:
        for _ in range(count):
            unit = kind(target=event.wait, daemon=True)
            unit.start()
            units.append(unit)
    except (RuntimeError, OSError) as error:
        refused = 1
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    took_ns = now_ns() - begun_ns
    event.set()
    for unit in units:
        unit.join()
    # Each has begun when its start has come back.
    done(made=len(units), begun=len(units), refused=refused, took_ns=took_ns, again=again(kind))


def past(unit, count):
    event = processes.Event() if unit == "process" else threading.Event()
    print("ready made=0", flush=True)
    end_of_input()
    if unit == "task":
        begun_ns = now_ns()

        def ready(made):
            done(made=made, begun=made, refused=0, took_ns=now_ns() - begun_ns, again=1)

        asyncio.run(keep_tasks(count, ready))
    else:
        past_by(threading.Thread if unit == "thread" else processes.Process, event, count)


# --- pool: a bounded set of computations ---


def compute(milliseconds):
    """Burns CPU time of its own, however long that takes."""
    until_ns = time.thread_time_ns() + int(milliseconds * 1e6)
    while time.thread_time_ns() < until_ns:
        pass
    return now_ns()


def wait(milliseconds):
    time.sleep(milliseconds / 1e3)
    return now_ns()


async def pool_of_tasks(degree, kind, lengths):
    permits = asyncio.Semaphore(degree)

    async def run(milliseconds):
        async with permits:
            if kind == "io":
                await asyncio.sleep(milliseconds / 1e3)
            else:
                compute(milliseconds)
        return now_ns()

    return await asyncio.gather(*(run(length) for length in lengths))


def pool(unit, degree, kind, lengths):
    work = compute if kind == "cpu" else wait
    begun_ns = now_ns()
    if unit == "task":
        ends_ns = asyncio.run(pool_of_tasks(degree, kind, lengths))
    else:
        executors = concurrent.futures
        executor = (
            executors.ThreadPoolExecutor(degree)
            if unit == "thread"
            else executors.ProcessPoolExecutor(degree, mp_context=processes)
        )
        with executor:
            ends_ns = list(executor.map(work, lengths))
    turnarounds = {f"turnaround_{i}_ns": end - begun_ns for i, end in enumerate(ends_ns, 1)}
    done(elapsed_ns=max(ends_ns) - begun_ns, **turnarounds)


# --- print ---


def print_lines(into, prints, text):
    for counter in range(prints):
        line = f"[{counter}]{text}\n"
        for of in into:
            of.write(line)
    for of in into:
        of.flush()


async def print_in_tasks(count, of_unit):
    async def lines():
        print_lines(*of_unit)

    await asyncio.gather(*(asyncio.create_task(lines()) for _ in range(count)))


def print_all(unit, count, prints, text, log):
    # A line is written when it is printed; what is in the log's blocks is written at a unit's end.
    into = [open(sys.stdin.fileno(), "w", buffering=1, closefd=False)]
    if log != "-":
        into.append(open(log, "a", buffering=4096))
    begun_ns = now_ns()
    if unit == "task":
        asyncio.run(print_in_tasks(count, (into, prints, text)))
    else:
        kind = threading.Thread if unit == "thread" else processes.Process
        units = [kind(target=print_lines, args=(into, prints, text)) for _ in range(count)]
        for one in units:
            one.start()
        for one in units:
            one.join()
    into[0].write("Okay\n")
    wall_ns = now_ns() - begun_ns
    done(wall_ns=wall_ns, bytes=count * sum(len(f"[{counter}]{text}\n") for counter in range(prints)))


def main(arguments):
    case, unit, *rest = arguments
    if case == "serve":
        # It is no part of what others take to start.
        import serve

        return serve.serve(unit, *rest)
    if unit not in ("thread", "process", "task"):
        raise ValueError(f"there is no unit {unit}")
    if case == "pool":
        degree, kind, lengths = rest
        return pool(unit, int(degree), kind, [float(length) for length in lengths.split("/")])
    if case == "print":
        count, prints, text, log = rest
        return print_all(unit, int(count), int(prints), text, log)
    cases = {"create": create, "ring": ring, "idle": idle, "most": most, "past": past}
    if case not in cases:
        raise ValueError(f"there is no case {case}")
    cases[case](unit, *map(int, rest))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Exception as error:
        print(f"error {type(error).__name__}: {error}".replace("\n", " "), flush=True)
        sys.exit(1)
