// A tab of a testnet: it starts the peer's worker as testnet's child and carries its standard streams to and from the program
// that has opened it (tab.go).
const worker = new Worker("/peer.mjs", { type: "module" });

const unsent = [];
let sending = false;

// say hands over messages in order, all that there are at a time.
async function say(message) {
  unsent.push(message);
  if (sending) return;
  sending = true;
  while (unsent.length > 0) {
    await fetch("/tab/said", { method: "POST", body: JSON.stringify(unsent.splice(0)) });
  }
  sending = false;
}

worker.onmessage = (e) => say(e.data);
worker.onerror = (e) => say({ type: "state", state: "failed", reason: e.message || "the worker can't be loaded" });

worker.postMessage(await (await fetch("/tab/child")).json());

// What the program says goes to the worker as it comes; an empty text is its end.
const input = (await fetch("/tab/input")).body.pipeThrough(new TextDecoderStream()).getReader();
for (;;) {
  const { value, done } = await input.read();
  if (done) break;
  if (value) worker.postMessage({ type: "input", text: value });
}
worker.postMessage({ type: "input", text: "" });
