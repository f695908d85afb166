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
  if (!existsSync(program)) throw new Error(`${program} is missing: run \`make wasm build\` first`);
  const folder = await mkdtemp(path.join(tmpdir(), 'shoal-pagetest-'));
  const run = await readFile(path.join(root, 'examples/small.yaml'), 'utf8');
  await writeFile(path.join(folder, 'run.yaml'), run.replace(/steps: \d+/, 'steps: 1000000'));
  const child = spawn(program, ['up', path.join(folder, 'run.yaml'), '--peers', '1', '--cores', '1', '--listen', '127.0.0.1:0', '--page', '127.0.0.1:0'],
    { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
  const lines = [];
  const gone = new Promise((resolve) => { child.on('close', resolve); child.on('error', resolve); });
  const address = await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no address of a page after ${patience} ms:\n${lines.join('\n')}`)), patience);
    gone.then(() => reject(new Error(`${program} up has ended:\n${lines.join('\n')}`)));
    for (const stream of [child.stdout, child.stderr]) {
      let rest = '';
      stream.setEncoding('utf8').on('data', (text) => {
        const got = (rest + text).split(/[\r\n]+/);
        rest = got.pop();
        lines.push(...got);
        lines.splice(0, lines.length - last);
        const found = lines.map((l) => l.match(/https?:\/\/\S+#shoal:\S+/)).find(Boolean);
        if (found) {
          clearTimeout(timer);
          resolve(found[0]);
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
