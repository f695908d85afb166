// Starts the Go peer (wasm/main_js.go) in a browser's worker or in Node.
import "./dist/wasm_exec.js";

// startPeer runs a compiled module. post gets each of its messages, as an object, and log each line that it prints, by default
// the console. open is openCompute of kernel/wasm/web/compute.mjs. It resolves once the peer takes commands, with
// send(message) and ended, a promise of why the peer has ended by itself.
export function startPeer({ module, post, open, log = console.error }) {
  return new Promise((resolve, reject) => {
    const bridge = {
      post(text) {
        const message = JSON.parse(text);
        if (message.type === "ready") resolve({ send: (m) => bridge.receive?.(JSON.stringify(m)), ended });
        else post(message);
      },
    };
    globalThis.shoalPeer = bridge;
    globalThis.shoalCompute = open;
    let crash = "";
    printTo((line) => {
      if (!crash && /^(panic|fatal error): /.test(line)) crash = line;
      log(line);
    });
    const go = new Go();
    let code = 0;
    go.exit = (c) => { code = c; };
    const ended = WebAssembly.instantiate(module, go.importObject)
      .then((instance) => go.run(instance))
      .then(() => {
        bridge.receive = null;
        const why = crash || `exit code ${code}`;
        reject(new Error(why));
        return why;
      });
    ended.catch(reject);
  });
}

// printTo has what the program prints given to line, a line at a time.
function printTo(line) {
  const decoder = new TextDecoder();
  let rest = "";
  globalThis.fs.writeSync = (_fd, bytes) => {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n");
    rest = lines.pop();
    lines.forEach((l) => line(l));
    return bytes.length;
  };
}
