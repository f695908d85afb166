// Runs the test binary main.wasm with the arguments and the environment of setup.json, and posts what it prints.
"use strict";
importScripts("/wasm_exec.js");

let posted = Promise.resolve(); // one after another, in order
const say = m => posted = posted.then(() => fetch("/said", {method: "POST", body: JSON.stringify(m)}));

console.log = text => say({log: text});
self.addEventListener("error", e => { // behind what was printed before
	e.preventDefault();
	say({fail: String(e.message)});
});

(async () => {
	const setup = await (await fetch("setup.json")).json();
	const go = new Go();
	go.argv = ["test", ...setup.args];
	go.env = setup.env;
	let code = -1;
	go.exit = c => { code = c; };
	const {instance} = await WebAssembly.instantiateStreaming(fetch("/main.wasm"), go.importObject);
	await go.run(instance);
	say(code === 0 ? {done: {}} : {fail: `the tests ended with code ${code}`});
})().catch(e => say({fail: String(e.stack ?? e)}));
