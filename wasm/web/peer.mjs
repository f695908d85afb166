// The peer's worker: a page starts it as new Worker("/peer.mjs", {type: "module"}). docs/browser.md lists the messages.
import { startPeer } from "./start.mjs";
import { wasm } from "./dist/build.mjs";
import { openCompute } from "/kernel/web/compute.mjs";

const restarts = 3; // of a peer that has ended by itself, which is for want of memory
const waiting = []; // commands that came before the peer could take them
let peer = null;
let joined = null; // the last join, with the offer of later settings
let child = false; // of a testnet
let last = "loading"; // state

const idle = ["paused", "left", "refused", "done", "failed"];

function post(message) {
  if (message.type === "state") last = message.state;
  postMessage(message);
}

// log is for whoever looks at the console; a testnet looks at all of it.
function log(line) {
  console.error(line);
  if (child) postMessage({ type: "log", text: `${line}\n` });
}

function command(message) {
  if (message.type === "child") child = true;

  if (message.type === "join") joined = { ...message };
  if (message.type === "settings" && joined) Object.assign(joined, { cores: message.cores, memory: message.memory });
  if (peer) peer.send(message);
  else waiting.push(message);
}

async function run() {
  post({ type: "state", state: "loading" });
  const module = await WebAssembly.compileStreaming(fetch(new URL(`./dist/${wasm}`, import.meta.url)));
  for (let tries = 0; ; tries++) {
    peer = await startPeer({ module, post, open: openCompute, log });
    for (const m of waiting.splice(0)) peer.send(m);
    const why = await peer.ended;
    peer = null;
    if (!joined || tries >= restarts) throw new Error(`the peer ended by itself: ${why}`);
    if (idle.includes(last)) continue;
    post({ type: "state", state: "reconnecting", reason: `the peer ended by itself (${why}) and starts again with a smaller offer` });
    joined.memory = Math.floor((joined.memory || 2 ** 31) / 2);
    waiting.unshift(joined);
  }
}

onmessage = (event) => command(event.data);
run().catch((error) => post({ type: "state", state: "failed", reason: String(error.message ?? error) }));
