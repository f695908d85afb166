// A real daemon that serves the page: `shoal up` of a small run that lasts longer than any test.

import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');
const program = process.env.SHOAL_PROGRAM || path.join(root, 'build/shoal');
const patience = 30000; // milliseconds until the page's address is printed
const last = 200;       // lines that are kept for when something goes wrong

/** Starts it. The result has the page's address with the invitation, what the daemon said last, and stop. */
export async function startDaemon() {
  const run = await readFile(path.join(root, 'examples/small.yaml'), 'utf8');
  return start(run.replace(/steps: \d+/, 'steps: 1000000'), ['up', 'run.yaml', '--peers', '1', '--page', '127.0.0.1:0'], (line) => line.match(/https?:\/\/\S+#shoal:\S+/)?.[0]);
}

/** Starts another daemon of the same run, and waits until it has done a step. */
export const startOther = (daemon) => start('', ['join', daemon.address.split('#')[1]], (line) => line.match(/^step [1-9]/)?.[0]);

/** Starts the program, and waits for a line in which find finds something: the address. */
async function start(run, args, find) {
  if (!existsSync(program)) throw new Error(`${program} is missing: run \`make wasm build\` first`);
  const folder = await mkdtemp(path.join(tmpdir(), 'shoal-pagetest-'));
  await writeFile(path.join(folder, 'run.yaml'), run);
  const child = spawn(program, [...args, '--cores', '1', '--listen', '127.0.0.1:0'], { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
  const lines = [];
  const gone = new Promise((resolve) => { child.on('close', resolve); child.on('error', resolve); });
  const address = await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`not in the run after ${patience} ms:\n${lines.join('\n')}`)), patience);
    gone.then(() => reject(new Error(`${program} ${args[0]} has ended:\n${lines.join('\n')}`)));
    for (const stream of [child.stdout, child.stderr]) {
      let rest = '';
      stream.setEncoding('utf8').on('data', (text) => {
        const got = (rest + text).split(/[\r\n]+/);
        rest = got.pop();
        lines.push(...got);
        lines.splice(0, lines.length - last);
        const found = lines.map(find).find(Boolean);
        if (found) {
          clearTimeout(timer);
          resolve(found);
        }
      });
    }
  }).catch(async (error) => {
    child.kill('SIGKILL');
    await rm(folder, { recursive: true, force: true });
    throw error;
  });
  return {
    address, lines,
    async stop() {
      child.kill('SIGKILL');
      await gone;
      await rm(folder, { recursive: true, force: true });
    },
  };
}
