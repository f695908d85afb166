// Runs the Go program of step/ in this Worker, and answers {ms} with how long a step took.
import {openCompute} from "/kernel/web/compute.mjs";
import "/step/wasm_exec.js";

globalThis.shoalCompute = openCompute;
const ready = new Promise((resolve, reject) => {
  globalThis.shoalReady = (fault) => fault ? reject(new Error(fault)) : resolve();
});
const answer = async (f) => {
  try {
    postMessage({ms: await f()});
  } catch (e) {
    postMessage({fail: String(e?.stack ?? e)});
  }
};
onmessage = ({data}) => answer(() => globalThis.shoalTurn(data.ms));
answer(async () => {
  const go = new Go();
  const {instance} = await WebAssembly.instantiateStreaming(fetch("/step/main.wasm"), go.importObject);
  go.run(instance);
  await ready;
  return 0;
});
