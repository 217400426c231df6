// A worker for Troupe in JavaScript. It serves the tool "wordcount" as docs/worker-protocol.md says, with nothing
// but the NATS client.
//
//   npm ci
//   NATS_URL=nats://127.0.0.1:4222 node worker.js
import { connect } from "@nats-io/transport-node";
import { AckPolicy, JetStreamApiError, jetstream, jetstreamManager } from "@nats-io/jetstream";

const namespace = process.env.TROUPE_NAMESPACE ?? "troupe";
const kind = "tool";
const name = "wordcount";
const stream = `${namespace}_work`;
const durable = `work_${kind}_${name}`;
const maxRunning = 4;
const second = 1_000_000_000; // JetStream counts in nanoseconds

// work does one job. What it throws is told to the model; it stops when signal says that nobody waits any more.
async function work(job, progress, signal) {
  if (typeof job.arguments?.text !== "string") throw new Error("text is required");
  progress("counting");
  signal.throwIfAborted();
  return { words: job.arguments.text.split(/\s+/).filter(Boolean).length };
}

const nc = await connect({ servers: process.env.NATS_URL, maxReconnectAttempts: -1 });
const js = jetstream(nc);
const jsm = await jetstreamManager(nc);

// The consumer that all workers of this service share. The first of them makes it.
try {
  await jsm.consumers.add(stream, {
    durable_name: durable,
    filter_subject: `${namespace}.work.${kind}.${name}.>`,
    ack_policy: AckPolicy.Explicit,
    ack_wait: 30 * second,
    max_deliver: 5,
    max_ack_pending: -1,
  });
} catch (err) {
  if (!(err instanceof JetStreamApiError)) throw err; // else it is there, perhaps with other times
}
const consumer = await js.consumers.get(stream, durable);
const { ack_wait, max_deliver } = (await consumer.info()).config;

// Jobs that are over are told of on <ns>.job.<thread>.<n>.cancel.
const running = new Map(); // id → AbortController
nc.subscribe(`${namespace}.job.*.*.cancel`, {
  callback: (_err, msg) => {
    const [, , thread, n] = msg.subject.split(".");
    running.get(`${thread}.${n}`)?.abort();
  },
});

async function run(msg) {
  const job = msg.json();
  if (job.v !== 1) return msg.term("unknown version");
  const controller = new AbortController();
  running.set(job.id, controller);
  const extending = setInterval(() => msg.working(), ack_wait / 1_000_000 / 3);
  const subject = `${namespace}.job.${job.thread}.${job.id.split(".").at(-1)}.progress`;
  const progress = (text) => nc.publish(subject, JSON.stringify({ progress: text }));
  try {
    let answer;
    try {
      answer = { result: await work(job, progress, controller.signal) };
    } catch (err) {
      if (controller.signal.aborted) return msg.term("cancelled");
      const last = msg.info.deliveryCount >= max_deliver;
      if (err.retryable && !last) return msg.nak(1000 * 2 ** (msg.info.deliveryCount - 1));
      answer = { error: { message: String(err.message ?? err) } };
    }
    // The job leaves the queue only once its answer is stored.
    await js.publish(job.reply, JSON.stringify({ v: 1, id: job.id, ...answer }));
    await msg.ackAck();
  } catch (err) {
    console.error(`job ${job.id}: ${err.message}`); // its lease ends, and another worker has it
  } finally {
    clearInterval(extending);
    running.delete(job.id);
  }
}

// At most maxRunning jobs at a time; none is taken before there is room for it.
const jobs = new Set();
let messages;
let stopping = false;
async function stop() {
  if (stopping) return;
  stopping = true;
  await messages?.close();
}
process.on("SIGTERM", stop);
process.on("SIGINT", stop);

console.log(`serving ${kind}/${name} at ${nc.getServer()}`);
while (!stopping) {
  messages = await consumer.fetch({ max_messages: maxRunning - jobs.size, expires: 5000 });
  for await (const msg of messages) {
    const done = run(msg).finally(() => jobs.delete(done));
    jobs.add(done);
  }
  if (jobs.size >= maxRunning) await Promise.race(jobs);
}
await Promise.all(jobs);
await nc.drain();
