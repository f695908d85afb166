// Runs /go/main.wasm, a Go test whose arguments are in the address, and says what it prints.
import {openCompute} from "/kernel/web/compute.mjs";
import "/go/wasm_exec.js";

const say = (m) => fetch("/said", {method: "POST", body: JSON.stringify(m)});
const text = new TextDecoder();
const output = [];
let line = "";
globalThis.fs.writeSync = (_, bytes) => {
  const lines = (line + text.decode(bytes, {stream: true})).split("\n");
  line = lines.pop();
  output.push(...lines);
  return bytes.length;
};
globalThis.shoalCompute = openCompute;

// What tests look at: how many workers run, and how many values Go refers to.
let workers = 0;
globalThis.testWorkers = () => workers;
globalThis.Worker = class extends Worker {
  constructor(...args) {
    super(...args);
    workers++;
  }
  terminate() {
    super.terminate();
    workers--;
  }
};

let code; // once the program has ended
// A timer of Go's that is due after that throws.
addEventListener("error", (e) => { if (code !== undefined) e.preventDefault(); });

try {
  const go = new Go();
  go.argv = ["wasm.test", ...new URL(location).searchParams.getAll("arg")];
  globalThis.testValues = () => go._values.length - go._idPool.length;
  go.exit = (c) => { code = c; };
  const {instance} = await WebAssembly.instantiateStreaming(fetch("/go/main.wasm"), go.importObject);
  await go.run(instance);
  say({done: {code, output: output.join("\n")}});
} catch (e) {
  say({fail: [...output, e?.stack ?? e].join("\n")});
}
