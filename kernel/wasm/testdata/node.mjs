// node node.mjs FOLDER ARGUMENTS...: runs FOLDER/main.wasm, a Go test, in Node.
import {readFile} from "node:fs/promises";
import {createRequire} from "node:module";
import {join} from "node:path";
import {openCompute} from "../web/compute.mjs";

const [folder, ...args] = process.argv.slice(2);
const require = createRequire(import.meta.url);
globalThis.fs = require("node:fs");
globalThis.path = require("node:path");
require(join(folder, "wasm_exec.js"));
globalThis.shoalCompute = openCompute;

const go = new Go();
go.argv = ["wasm.test", ...args];
go.exit = process.exit;
globalThis.testValues = () => go._values.length - go._idPool.length;
const {instance} = await WebAssembly.instantiate(await readFile(join(folder, "main.wasm")), go.importObject);
await go.run(instance);
