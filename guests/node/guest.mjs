// The cases of the experiments as a Node program would have them: worker threads and promises.
//
//     guest.mjs create UNIT COUNT                   makes and ends COUNT units, one after the other, in ten batches
//     guest.mjs ring UNIT RING WARM_NS TIMED_NS     a token goes round RING units by the runtime's own messages
//     guest.mjs idle UNIT COUNT                     keeps COUNT units that wait, until its standard input ends
//     guest.mjs most UNIT LIMIT                     makes units that wait until one is refused, LIMIT at most
//     guest.mjs pool UNIT DEGREE KIND MS/MS/…       runs computations, DEGREE at a time: KIND is cpu or io
//     guest.mjs past UNIT COUNT                     makes units that wait once its input has ended; what refused one
//     guest.mjs serve DESIGN PROTOCOL PORT          a server (serve.mjs): says where it listens, serves until it is ended
//
// UNIT is worker or promise. It answers as the programs in C do (guests/c/guest.h): one line, `done NAME=NUMBER …` or
// `error WORDS`. `idle` and `past` say `ready made=NUMBER` first.

import { MessageChannel, Worker, isMainThread, parentPort } from 'node:worker_threads';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const BATCHES = 10;
const nowNs = () => process.hrtime.bigint();

function done(figures) {
  const words = Object.entries(figures).map(([name, number]) => `${name}=${number}`);
  console.log(['done', ...words].join(' '));
}

// --- what a worker does: the main thread says what, once ---

const start = () => new Worker(fileURLToPath(import.meta.url));

// Burns CPU time of its own. Nothing here tells that of a thread alone, so it is as many steps as take so long alone.
function burn(steps) {
  let value = 1;
  for (let step = 0; step < steps; step++) value = (Math.imul(value, 1664525) + step) | 0;
  return value;
}

let stepsOfMillisecond = 0;

// The most of a few tries: whatever comes between makes it less.
function calibrate() {
  const steps = 2_000_000;
  for (let round = 0; round < 8; round++) {
    const begun = nowNs();
    burn(steps);
    stepsOfMillisecond = Math.max(stepsOfMillisecond, (steps * 1e6) / Number(nowNs() - begun));
  }
}

const compute = (milliseconds) => burn(milliseconds * stepsOfMillisecond);

function work() {
  parentPort.on('message', ({ kind, own, following, milliseconds, steps }) => {
    if (kind === 'hand-on') {
      own.on('message', (token) => {
        following.postMessage(token);
        if (token === null) parentPort.close(), own.close(), following.close();
      });
      parentPort.postMessage('ready');
    } else if (kind === 'cpu') {
      burn(steps);
      parentPort.postMessage('done');
    } else if (kind === 'io') {
      setTimeout(() => parentPort.postMessage('done'), milliseconds);
    } else if (kind === 'end') {
      parentPort.close();
    }
  });
}

async function end(worker) {
  const ended = once(worker, 'exit');
  worker.postMessage({ kind: 'end' });
  await ended;
}

// --- create ---

const makers = {
  async worker(count) {
    for (let i = 0; i < count; i++) {
      const worker = new Worker('', { eval: true });
      await once(worker, 'exit');
    }
  },
  async promise(count) {
    for (let i = 0; i < count; i++) await (async () => {})();
  },
};

async function create(unit, count) {
  const each = Math.floor(count / BATCHES);
  const figures = { made: each * BATCHES };
  let before = nowNs();
  for (let batch = 1; batch <= BATCHES; batch++) {
    await makers[unit](each);
    const after = nowNs();
    figures[`batch_${batch}_ns`] = after - before;
    before = after;
  }
  done(figures);
}

// --- ring: unit 0 has the clock, and a lap is a token that comes back ---

// Twice as many laps as before until they have lasted for the warm-up; then so many again and again, timed.
async function timeLaps(lap, warmNs, timedNs) {
  let count = 1;
  let begun = nowNs();
  for (; nowNs() - begun < warmNs; count *= 2) for (let i = 0; i < count; i++) await lap();
  let laps = 0;
  begun = nowNs();
  for (; nowNs() - begun < timedNs; laps += count) for (let i = 0; i < count; i++) await lap();
  return { wallNs: nowNs() - begun, laps };
}

async function ringOfWorkers(size, warmNs, timedNs) {
  const channels = Array.from({ length: size }, () => new MessageChannel());
  const workers = [];
  for (let i = 1; i < size; i++) {
    const worker = start();
    const [own, following] = [channels[i].port2, channels[(i + 1) % size].port1];
    const ready = once(worker, 'message');
    worker.postMessage({ kind: 'hand-on', own, following }, [own, following]);
    await ready;
    workers.push(worker);
  }
  const [first, last] = [channels[1].port1, channels[0].port2];
  const lap = () => {
    first.postMessage(1);
    return new Promise((back) => last.once('message', back));
  };
  const { wallNs, laps } = await timeLaps(lap, warmNs, timedNs);
  const ended = workers.map((worker) => once(worker, 'exit'));
  first.postMessage(null);
  await Promise.all(ended);
  first.close();
  last.close();
  done({ wall_ns: wallNs, hops: laps * size });
}

// A queue of promises: whoever takes waits until somebody has put.
class Queue {
  #waiting = null;
  #items = [];
  put(item) {
    const taker = this.#waiting;
    if (taker) (this.#waiting = null), taker(item);
    else this.#items.push(item);
  }
  take() {
    return this.#items.length ? Promise.resolve(this.#items.shift()) : new Promise((taker) => (this.#waiting = taker));
  }
}

async function ringOfPromises(size, warmNs, timedNs) {
  const queues = Array.from({ length: size }, () => new Queue());
  const handOn = async (own, following) => {
    for (let token = 1; token !== null; following.put(token)) token = await own.take();
  };
  const all = queues.slice(1).map((own, i) => handOn(own, queues[(i + 2) % size]));
  const lap = () => (queues[1].put(1), queues[0].take());
  const { wallNs, laps } = await timeLaps(lap, warmNs, timedNs);
  queues[1].put(null);
  await Promise.all(all);
  done({ wall_ns: wallNs, hops: laps * size });
}

// --- units that wait ---

async function keepWorkers(count, ready) {
  const workers = [];
  try {
    while (workers.length < count) {
      const worker = start();
      await once(worker, 'online');
      workers.push(worker);
    }
  } catch {
    // One was refused.
  }
  await ready(workers.length);
  await Promise.all(workers.map(end));
}

async function keepPromises(count, ready) {
  let open;
  const gate = new Promise((opened) => (open = opened));
  const all = Array.from({ length: count }, async () => void (await gate));
  await ready(count);
  open();
  await Promise.all(all);
}

const keep = (unit, count, ready) => (unit === 'worker' ? keepWorkers : keepPromises)(count, ready);

const idle = (unit, count) =>
  keep(unit, count, async (made) => {
    console.log(`ready made=${made}`);
    await endOfInput();
    done({ made });
  });

const most = (unit, limit) => keep(unit, limit, (made) => done({ made, refused: Number(made < limit) }));

// --- past: units that wait, where the system makes few more ---

async function endOfInput() {
  process.stdin.resume();
  await once(process.stdin, 'end');
}

// For half a second, since the end of the others may be under way.
async function again(unit) {
  for (let i = 0; i < 50; i++) {
    try {
      await makers[unit](1);
      return 1;
    } catch {
      await sleep(10);
    }
  }
  return 0;
}

async function past(unit, count) {
  console.log('ready made=0');
  await endOfInput();
  const workers = [];
  let refused = 0;
  const begun = nowNs();
  if (unit === 'worker') {
    try {
      while (workers.length < count) {
        const worker = start();
        await once(worker, 'online');
        workers.push(worker);
      }
    } catch (error) {
      refused = 1;
      console.error(String(error));
    }
  } else {
    await keepPromises(count, () => {});
  }
  const took = nowNs() - begun;
  await Promise.all(workers.map(end));
  const made = unit === 'worker' ? workers.length : count;
  done({ made, begun: made, refused, took_ns: took, again: await again(unit) });
}

// --- pool: a bounded set of computations ---

async function pool(unit, degree, kind, lengths) {
  const workers = unit === 'worker' ? Array.from({ length: Math.min(degree, lengths.length) }, start) : [];
  await Promise.all(workers.map((worker) => once(worker, 'online')));
  if (kind === 'cpu') calibrate();
  const ends = [];
  const begun = nowNs();
  let next = 0;
  const carry = async (worker) => {
    while (next < lengths.length) {
      const i = next++;
      if (worker) {
        worker.postMessage({ kind, milliseconds: lengths[i], steps: lengths[i] * stepsOfMillisecond });
        await once(worker, 'message');
      } else if (kind === 'io') {
        await sleep(lengths[i]);
      } else {
        compute(lengths[i]);
      }
      ends[i] = nowNs() - begun;
    }
  };
  await Promise.all(Array.from({ length: degree }, (_, i) => carry(workers[i])));
  const figures = { elapsed_ns: ends.reduce((a, b) => (a > b ? a : b)) };
  ends.forEach((ns, i) => (figures[`turnaround_${i + 1}_ns`] = ns));
  done(figures);
  await Promise.all(workers.map(end));
}

async function main([wanted, unit, ...rest]) {
  if (wanted === 'serve') return (await import('./serve.mjs')).serve(unit, ...rest);
  if (!makers[unit]) throw new Error(`there is no unit ${unit}`);
  const ring = unit === 'worker' ? ringOfWorkers : ringOfPromises;
  const cases = {
    create: (count) => create(unit, Number(count)),
    ring: (size, warmNs, timedNs) => ring(Number(size), BigInt(warmNs), BigInt(timedNs)),
    idle: (count) => idle(unit, Number(count)),
    most: (limit) => most(unit, Number(limit)),
    past: (count) => past(unit, Number(count)),
    pool: (degree, kind, lengths) => pool(unit, Number(degree), kind, lengths.split('/').map(Number)),
  };
  if (!cases[wanted]) throw new Error(`there is no case ${wanted}`);
  await cases[wanted](...rest);
}

if (isMainThread) {
  main(process.argv.slice(2)).catch((error) => {
    console.log(`error ${error}`.replaceAll('\n', ' '));
    process.exitCode = 1;
  });
} else {
  work();
}
