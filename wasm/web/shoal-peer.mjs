#!/usr/bin/env node
// The browser's peer without a page: node shoal-peer.mjs LINK [--cores N] [--memory 512MiB] [--json]
// Ctrl-C leaves the run politely. docs/browser.md says more.
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { gunzipSync } from "node:zlib";

const usage = "usage: node shoal-peer.mjs LINK [--cores N] [--memory 512MiB] [--json]";
const patience = 5000; // milliseconds for a polite end

function fail(text, code = 1) {
  process.stderr.write(`shoal-peer: ${text}\n`);
  process.exit(code);
}

function bytes(text) {
  const [, n, unit] = /^(\d+(?:\.\d+)?)(|KiB|MiB|GiB)$/.exec(text) ?? fail(`--memory: ${text} is no size, write it as in 512MiB`, 2);
  return Math.floor(Number(n) * 1024 ** ["", "KiB", "MiB", "GiB"].indexOf(unit));
}

function args() {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: { cores: { type: "string" }, memory: { type: "string" }, json: { type: "boolean" }, help: { type: "boolean" } },
    });
    if (values.help) {
      process.stdout.write(`${usage}\n`);
      process.exit(0);
    }
    if (positionals.length !== 1) fail(usage, 2);
    const cores = Number(values.cores ?? 0);
    if (!Number.isInteger(cores) || cores < 0) fail(`--cores: ${values.cores} is not allowed here, use 1 or more`, 2);
    const link = positionals[0].replace(/^.*#(?=shoal:)/, ""); // also of a page's address
    return { link, cores, memory: values.memory ? bytes(values.memory) : 0, json: values.json };
  } catch (error) {
    return fail(`${error.message}; ${usage}`, 2);
  }
}

// Older Nodes have a WebSocket, and relaxed SIMD, only when they are asked for it.
const newer = ["--experimental-websocket", "--experimental-wasm-relaxed-simd"];

function again() {
  if (process.execArgv.includes(newer[0]) || !process.allowedNodeEnvironmentFlags.has(newer[0])) {
    fail(`this Node (${process.version}) has no WebSocket: use version 20.10 or newer`);
  }
  // In a group of its own, so that Ctrl-C comes once; by the channel it learns that this process is gone.
  const child = spawn(process.execPath, [...newer, "--no-warnings", ...process.argv.slice(1)],
    { stdio: ["inherit", "inherit", "inherit", "ipc"], detached: true });
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => child.kill(signal));
  child.on("exit", (code, signal) => process.exit(signal ? 1 : code));
}

async function run(options) {
  const dist = new URL("./dist/", import.meta.url);
  if (!existsSync(new URL("build.mjs", dist))) fail(`there is no peer in ${fileURLToPath(dist)}: make wasm builds it`);
  const kernel = new URL("./kernel/", import.meta.url); // of an archive
  const from = existsSync(kernel) ? kernel : new URL("../../kernel/wasm/", import.meta.url);
  const [{ wasm }, { startPeer }, { openCompute }] = await Promise.all(
    [new URL("build.mjs", dist), new URL("./start.mjs", import.meta.url), new URL("web/compute.mjs", from)].map((u) => import(u)));
  const module = await WebAssembly.compile(gunzipSync(readFileSync(new URL(`${wasm}.gz`, dist))));

  let ending = 0; // interrupts
  const show = (text) => process.stderr.write(`${text}\n`);
  const post = (m) => {
    if (options.json) process.stdout.write(`${JSON.stringify(m)}\n`);
    switch (m.type) {
      case "self": show(`this is peer ${m.peer.slice(-8)}, ${m.backend}, ${m.workers} worker${m.workers === 1 ? "" : "s"}`); break;
      case "notice": show(m.text); break;
      case "progress": if (!options.json) show(`step ${m.step}/${m.steps}  loss ${m.loss?.toFixed(4) ?? "not finite"}  ${m.peers} peers`); break;
      case "report": if (!options.json) process.stdout.write(`state hash  ${m.report.state_hash}\n`); break;
      case "state": state(m); break;
    }
  };
  const state = (m) => {
    switch (m.state) {
      case "done": process.exit(0); break;
      case "left": process.exit(ending ? 130 : 0); break;
      case "failed": fail(m.reason); break;
      case "refused": fail(`the run refused this peer: ${m.reason}`); break;
      default: show(m.reason ? `${m.state}: ${m.reason}` : m.state);
    }
  };
  const peer = await startPeer({ module, post, open: openCompute });
  const stop = () => {
    if (ending++) process.exit(130);
    peer.send({ type: "leave" });
    setTimeout(() => process.exit(130), patience).unref();
  };
  process.on("SIGINT", stop);
  process.on("SIGTERM", stop);
  process.on("disconnect", () => process.exit(1)); // see again
  peer.ended.then((why) => fail(`the peer ended by itself: ${why}`));
  peer.send({ type: "join", link: options.link, cores: options.cores, memory: options.memory });
}

const options = args();
if (globalThis.WebSocket) await run(options);
else again();
