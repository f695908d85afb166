// Starts the Go peer (wasm/main_js.go) in a browser's worker or in Node.
import "./dist/wasm_exec.js";

// startPeer runs a compiled module. post gets each of its messages, as an object. It resolves once the peer takes commands,
// with send(message) and ended, a promise of the exit code. open is openCompute of kernel/wasm/web/compute.mjs.
export function startPeer({ module, post, open, env = {} }) {
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
    const go = new Go();
    Object.assign(go.env, env);
    let code = 0;
    go.exit = (c) => { code = c; };
    const ended = WebAssembly.instantiate(module, go.importObject)
      .then((instance) => go.run(instance))
      .then(() => {
        bridge.receive = null;
        reject(new Error("the peer ended as it began"));
        return code;
      });
    ended.catch(reject);
  });
}
