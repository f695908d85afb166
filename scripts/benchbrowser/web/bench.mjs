// Times one product of matrices by kernel/wasm, TensorFlow.js, ONNX Runtime Web and, on the same machine, the CPU's AVX2
// kernels: in turn, a slice of time each, so that what else the machine does meets all of them. Then training steps by kernel/wasm and
// by AVX2.
import * as ort from "/npm/onnxruntime-web/dist/ort.wasm.min.mjs";
import {openCompute} from "/kernel/web/compute.mjs";
import {onnx} from "./onnx.mjs";

const {m, n, k, rounds, slice} = Object.fromEntries([...new URL(location).searchParams].map(([key, v]) => [key, Number(v)]));
const FLOP = 2 * m * n * k;
const TRANS = ["NN", "NT", "TN"];

const post = async (path, body) => {
  const r = await fetch(path, {method: "POST", body: JSON.stringify(body)});
  if (!r.ok) throw new Error(`${path}: ${await r.text()}`);
  return r.json();
};

// matrix holds numbers in [-1/2, 1/2), always the same ones.
function matrix(length, seed) {
  const x = new Float32Array(length);
  for (let i = 0; i < length; i++) {
    seed = (Math.imul(seed, 1664525) + 1013904223) | 0;
    x[i] = seed / 2 ** 32;
  }
  return x;
}
const A = matrix(m * k, 1);
const B = matrix(k * n, 2);

// A contestant has run(trans, times), which resolves to the milliseconds that so many products take, and result(trans), their
// outcome.

// Shoal's device: commands as package kernel/wasm makes them.
async function shoal(workers) {
  const parts = workers > 1 ? 2 * workers : 1; // as kernel/wasm does
  const c = await openCompute({workers, bytes: 4 * (m * k + k * n + m * n), ops: ["mat_mul"]});
  if (c.workers !== workers) throw new Error(`${c.workers} workers instead of ${workers}`);
  const command = new Uint32Array(c.commands.buffer);
  const a = c.arena, b = a + 4 * A.length, y = b + 4 * B.length;
  let done;
  c.listen((count, fault, why) => { if (fault || why) throw new Error(why ?? "a fault"); done(); });
  const push = (...words) => { command.set(words); c.push(1); };
  const fence = (address = 0, length = 0) => {
    const passed = new Promise((resolve) => { done = resolve; });
    push(0, 1, address, length);
    return passed;
  };
  const upload = async (to, x) => {
    const bytes = new Uint8Array(x.buffer);
    for (let at = 0; at < bytes.length; at += c.chunk) {
      const part = bytes.subarray(at, at + c.chunk);
      c.bounce.set(part);
      c.put(0, part.length);
      push(1, 1, to + at, 0, part.length);
      await fence();
    }
  };
  await upload(a, A);
  await upload(b, B);
  return {
    name: `Shoal, ${workers} worker${workers > 1 ? "s" : ""}`, kind: c.kind,
    async run(trans, times) {
      const start = performance.now();
      for (let i = 0; i < times; i++) push(2, parts, trans, y, m * n, a, m * k, b, k * n, m, n, k, 0);
      await fence();
      return performance.now() - start;
    },
    async result() {
      const bytes = new Uint8Array(4 * m * n);
      await fence(y, bytes.length);
      for (let at = 0; at < bytes.length; at += c.chunk) {
        const length = Math.min(c.chunk, bytes.length - at);
        c.get(y + at, length);
        bytes.set(c.bounce.subarray(0, length), at);
      }
      return new Float32Array(bytes.buffer);
    },
  };
}

async function tensorflow() {
  tf.wasm.setWasmPaths("/npm/@tensorflow/tfjs-backend-wasm/dist/");
  tf.wasm.setThreadsCount(1);
  if (!(await tf.setBackend("wasm"))) throw new Error("no wasm backend");
  const operands = TRANS.map((t) => [
    tf.tensor2d(A, t === "TN" ? [k, m] : [m, k]), tf.tensor2d(B, t === "NT" ? [n, k] : [k, n]), t === "TN", t === "NT",
  ]);
  return {
    name: "TensorFlow.js (wasm)", version: tf.version_core,
    async run(trans, times) {
      const start = performance.now();
      for (let i = 0; i < times; i++) tf.matMul(...operands[trans]).dispose(); // computed at the call
      return performance.now() - start;
    },
    async result(trans) {
      const y = tf.matMul(...operands[trans]);
      const x = y.dataSync().slice();
      y.dispose();
      return x;
    },
  };
}

async function onnxruntime() {
  ort.env.wasm.wasmPaths = "/npm/onnxruntime-web/dist/";
  ort.env.wasm.numThreads = 1;
  const sessions = await Promise.all(TRANS.map(async (t) => {
    const session = await ort.InferenceSession.create(onnx(t, m, n, k), {executionProviders: ["wasm"]});
    const feeds = {
      A: new ort.Tensor("float32", A, t === "TN" ? [k, m] : [m, k]), B: new ort.Tensor("float32", B, t === "NT" ? [n, k] : [k, n]),
    };
    return () => session.run(feeds);
  }));
  return {
    name: "ONNX Runtime Web (wasm)", version: ort.env.versions.web,
    async run(trans, times) {
      const start = performance.now();
      for (let i = 0; i < times; i++) await sessions[trans](); // its operands are copied in, and the result out
      return performance.now() - start;
    },
    async result(trans) { return (await sessions[trans]()).C.data; },
  };
}

// native asks the program that serves this page.
async function native() {
  const {name} = await post("/native", {});
  return {name, run: async (trans, times) => (await post("/native", {trans, times})).ms, result: null};
}

// trainers take training steps: step(ms) resolves to the milliseconds that one took, on average over about ms.
async function trainers() {
  const worker = new Worker("./step.mjs", {type: "module"});
  const answer = () => new Promise((resolve, reject) => {
    worker.onmessage = ({data}) => data.fail ? reject(new Error(data.fail)) : resolve(data.ms);
    worker.onerror = (e) => reject(new Error(e.message ?? "step.mjs could not be loaded"));
  });
  await answer();
  return [
    async (ms) => (await post("/native-step", {ms})).ms,
    (ms) => { worker.postMessage({ms}); return answer(); },
  ];
}

// same fails unless all have the same product, but for rounding.
async function same(contestants, trans) {
  let want;
  for (const c of contestants) {
    if (!c.result) continue;
    await c.run(trans, 1);
    const got = await c.result(trans);
    want ??= got;
    for (let i = 0; i < want.length; i++) {
      if (!(Math.abs(got[i] - want[i]) < 1e-3)) throw new Error(`${TRANS[trans]}: element ${i} is ${got[i]} by ${c.name}, ${want[i]} by ${contestants[0].name}`);
    }
  }
}

try {
  const contestants = [await native(), await shoal(1), await shoal(2), await tensorflow(), await onnxruntime()];
  const gflops = contestants.map(() => TRANS.map(() => []));
  for (let trans = 0; trans < TRANS.length; trans++) {
    await same(contestants, trans);
    const times = [];
    for (const c of contestants) times.push(Math.max(1, Math.round(slice / Math.min(await c.run(trans, 2) / 2, await c.run(trans, 2) / 2))));
    for (let r = 0; r < rounds; r++) {
      for (let i = 0; i < contestants.length; i++) {
        const at = (i + r) % contestants.length; // nobody always follows the same one
        gflops[at][trans].push(FLOP * times[at] / (await contestants[at].run(trans, times[at])) / 1e6);
      }
    }
  }
  const steps = [[], []];
  const take = await trainers();
  for (const t of take) await t(1);
  for (let r = 0; r < rounds; r++) {
    for (let i = 0; i < take.length; i++) {
      const at = (i + r) % take.length;
      steps[at].push(await take[at](slice));
    }
  }
  await post("/done", {
    steps, browser: navigator.userAgent, contestants: contestants.map(({name, kind, version}, i) => ({name, kind, version, gflops: gflops[i]})),
  });
} catch (e) {
  await post("/done", {fail: String(e?.stack ?? e)});
}
