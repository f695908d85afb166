// Stands in for ../../wasm/web/peer.mjs in tests of the page: it passes on what the test says, and tells the test what
// the page said.

const say = new BroadcastChannel('shoal-say');
const told = new BroadcastChannel('shoal-told');
say.onmessage = (e) => postMessage(e.data);
onmessage = (e) => told.postMessage(e.data);
