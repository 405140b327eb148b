// BullMQ at the same work as the other peers: `node bullmq.mjs PORT load MILLISECONDS` or `… PORT pick-up N`.
//
// This thread produces and another one works; the state of every job is in memory that both share. The output is read
// by `src/drive.rs`; `src/ledger.rs` documents its numbers.

import { Worker as Thread, isMainThread, workerData } from 'node:worker_threads';
import { Queue, Worker } from 'bullmq';

const [BYTES, DIGITS, BATCH, UNANSWERED, SLOTS, WINDOW] = [250, 12, 500, 2000, 100, 10_000];
const [MOST, PATIENCE_MS, REST_MS] = [4_000_000, 15_000, 2];
const QUEUE = 'jobs';

// Indices into the shared counters.
const [RUN, FINISHED, DOUBLED, STRANGE, READY] = [0, 1, 2, 3, 4];

// Milliseconds, the same for all threads.
const now = () => performance.timeOrigin + performance.now();

function mark(marks, counts, number, bit, count) {
  if (!(number < MOST)) {
    Atomics.add(counts, STRANGE, 1);
  } else if (Atomics.or(marks, number, bit) & bit) {
    Atomics.add(counts, DOUBLED, 1);
  } else {
    Atomics.add(counts, count, 1);
  }
}

async function work({ connection, counts, marks, times }) {
  const worker = new Worker(QUEUE, async (job) => {
    const text = job.data.text;
    const ours = typeof text === 'string' && JSON.stringify(job.data).length === BYTES;
    const number = ours ? Number(text.slice(0, DIGITS)) : NaN;
    times[1] = now();
    mark(marks, counts, number, 1, RUN);
    return number;
  }, { connection, concurrency: SLOTS });
  worker.on('completed', (_, number) => {
    times[0] = now();
    mark(marks, counts, number, 2, FINISHED);
    Atomics.notify(counts, FINISHED);
  });
  worker.on('error', (error) => { throw error; });
  await worker.waitUntilReady();
  Atomics.store(counts, READY, 1);
  Atomics.notify(counts, READY);
}

function job(number) {
  const text = String(number).padStart(DIGITS, '0');
  const data = { text: text.padEnd(BYTES - JSON.stringify({ text: '' }).length, 'x') };
  return { name: 'work', data, opts: { removeOnComplete: true } };
}

// Sleeps until the counter at `place` differs from `seen`, at most 100 ms.
async function changed(counts, place, seen) {
  const waiting = Atomics.waitAsync(counts, place, seen, 100);
  if (waiting.async) await waiting.value;
}

async function main(port, plan, amount) {
  const connection = { host: '127.0.0.1', port: Number(port), maxRetriesPerRequest: null };
  const shared = (bytes) => new SharedArrayBuffer(bytes);
  const seen = {
    connection,
    counts: new Int32Array(shared(8 * 4)),
    marks: new Uint8Array(shared(MOST)),
    times: new Float64Array(shared(2 * 8)),
  };
  const { counts, times } = seen;
  const thread = new Thread(new URL(import.meta.url), { workerData: seen });
  thread.on('error', (error) => { throw error; });
  const queue = new Queue(QUEUE, { connection });
  await queue.waitUntilReady();
  await changed(counts, READY, 0);
  while (!Atomics.load(counts, READY)) await changed(counts, READY, 0);

  let [given, pushed, unanswered] = [0, 0, 0];
  const push = (n) => {
    const jobs = Array.from({ length: n }, (_, i) => job(given + i));
    [given, unanswered] = [given + n, unanswered + n];
    return queue.addBulk(jobs).then((added) => {
      pushed += added.length;
      unanswered -= n;
    });
  };
  const finished = () => Atomics.load(counts, FINISHED);
  const settle = async (rest) => {
    for (let [since, last] = [now(), -1]; given - finished() > rest && now() - since < PATIENCE_MS;) {
      if (finished() !== last) [since, last] = [now(), finished()];
      await changed(counts, FINISHED, last);
    }
  };

  const [cpu, start, micros] = [process.cpuUsage(), now(), []];
  if (plan === 'load') {
    const pushes = new Set();
    while (now() - start < Number(amount) && given + BATCH <= MOST) {
      const pushing = push(BATCH);
      pushes.add(pushing);
      pushing.then(() => pushes.delete(pushing));
      while (unanswered + BATCH > UNANSWERED) await Promise.race(pushes);
      await settle(WINDOW - BATCH);
    }
    await Promise.all(pushes);
  } else {
    for (let n = 0; n < Number(amount); n++) {
      await new Promise((after) => setTimeout(after, REST_MS));
      const begun = now();
      await push(1);
      await settle(0);
      micros.push((times[1] - begun) * 1000);
    }
  }
  await settle(0);
  const used = process.cpuUsage(cpu);
  const left = await queue.getJobCountByTypes('waiting', 'active', 'delayed', 'failed', 'completed');
  const account = {
    given, pushed, left, run: counts[RUN], finished: counts[FINISHED], doubled: counts[DOUBLED], strange: counts[STRANGE],
  };
  const cpu_seconds = (used.user + used.system) / 1e6;
  console.log(JSON.stringify({ account, seconds: (times[0] - start) / 1000, cpu_seconds, micros }));
  process.exit(0);
}

await (isMainThread ? main(...process.argv.slice(2)) : work(workerData));
