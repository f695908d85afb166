// A daemon's page server with an invented run, for tests of the page alone. Its peer (fakepeer.mjs) computes nothing: it
// says what the test tells it to say.

import { createServer } from 'node:http';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import path from 'node:path';

const here = path.dirname(fileURLToPath(import.meta.url));
const web = path.join(here, '../../wasm/web');
const types = { '.html': 'text/html; charset=utf-8', '.css': 'text/css', '.mjs': 'text/javascript', '.svg': 'image/svg+xml' };

export const secret = '00112233445566778899aabbccddeeff';
export const runID = '5f0c9a'.padEnd(64, '9a1c44e07b');

/** A link as peer/link.go writes it; the peer in it is nobody. */
export function makeLink(run = runID, word = secret) {
  const field = (b) => [b.length, ...b];
  const halved = (hex) => { const b = Buffer.from(hex, 'hex'); return [(b.length << 1) | 1, ...b]; };
  const body = Buffer.from([1, ...field([0, 36, 8, 1, 18, 32, ...Buffer.alloc(32, 7)]), ...halved(run), ...halved(word), 0]);
  let crc = ~0;
  for (const b of body) {
    crc ^= b;
    for (let i = 0; i < 8; i++) crc = (crc >>> 1) ^ (crc & 1 ? 0x82f63b78 : 0);
  }
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(~crc >>> 0);
  let bits = '';
  for (const b of Buffer.concat([body, sum])) bits += b.toString(2).padStart(8, '0');
  return 'shoal:' + bits.match(/.{1,5}/g).map((c) => 'abcdefghijklmnopqrstuvwxyz234567'[parseInt(c.padEnd(5, '0'), 2)]).join('');
}

// Numbers that look random and are the same each time.
function dice(seed) {
  let s = seed;
  return () => {
    s = (Math.imul(s, 1664525) + 1013904223) >>> 0;
    return s / 2 ** 32;
  };
}

/** Losses of steps 1 to n: they fall from 2.3 to about 0.04, and scatter. */
export function losses(n) {
  const r = dice(7);
  return Array.from({ length: n }, (_, i) => [i + 1, (0.035 + 2.27 / (1 + (i / 42) ** 2.1)) * Math.exp(0.3 * (r() + r() - 1))]);
}

/** Members of an invented run: as many daemons and tabs. The last tab is this page's peer, if own says so. */
export function members(daemons, tabs) {
  const r = dice(daemons * 64 + tabs);
  const total = 9.7e6;
  const weights = Array.from({ length: daemons + tabs }, (_, i) => (i < daemons ? 2 : 1) * (0.7 + 0.6 * r()));
  const sum = weights.reduce((a, b) => a + b);
  return weights.map((w, i) => ({
    id: i + 1, peer: peerID(i), kind: i < daemons ? 'daemon' : 'browser', rank: i, voter: i < Math.min(3, daemons), data: true,
    owned: Math.round(total * w / sum), backed_up: Math.round(total * w / sum), to_fill: 0, microseconds: 9000,
  }));
}

/** The id of an invented peer. */
export function peerID(i) {
  const r = dice(i + 11);
  return '12D3KooW' + Array.from({ length: 44 }, () => 'ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz123456789'[Math.floor(r() * 58)]).join('');
}

/** What `shoal status --json` prints of the invented run. */
export function status(changes = {}) {
  const list = changes.members ?? members(3, 1);
  return {
    version: 1, run_id: runID, name: 'digits', strategy: 'fsdp', pid: 4242, peer: list[0].peer, step: 120, steps: 450, loss: 0.31, samples: 7680,
    samples_per_second: 312, retries: 0, generation: 0, view: 7, fence: 431, applied: 460, leader: list[0].peer, survives: 1, redundancy: 1,
    wanted: 1, voters: 3, files: false, members: list, phase: '', unit: -1, waiting: [], stuck: '', faults: [],
    traffic: [{ class: 'parameters', codec: 'packed', sent: 41e6, received: 37e6 }, { class: 'gradients', codec: 'packed', sent: 66e6, received: 58e6 }],
    streams: 12, connections: 3, ...changes,
  };
}

/** What /run.json answers. */
export function runJSON(changes = {}) {
  const s = changes.status ?? status();
  return {
    run: {
      id: runID, name: s.name, model: 'vision transformer, 12 blocks of width 64, images of 28 x 28', data: 'digits', steps: s.steps,
      strategy: 'fsdp', parameters: 605322, precision: 'bf16/fixed32',
    },
    joining: { parameters_bytes: 484258, memory_bytes: 8.3 * 2 ** 20, download_bytes: 2.77 * 2 ** 20 },
    status: s, losses: losses(s.step), samples_per_second: s.samples_per_second, peers_seen: s.members.length, ...changes,
  };
}

/** Serves the page on a free port of this machine. answer may be changed meanwhile: an object, or a status code. */
export async function serve({ isolated = true } = {}) {
  const key = 'Shoal ' + createHash('sha256').update('shoal page\0' + secret).digest('hex');
  const out = { answer: runJSON(), asked: 0, port: 0, close: null };
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url, 'http://page');
    const headers = {
      'Content-Security-Policy': "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self'; connect-src 'self' ws: wss: https:; worker-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      'Cache-Control': 'no-store', 'X-Content-Type-Options': 'nosniff', 'Referrer-Policy': 'no-referrer',
    };
    if (isolated) Object.assign(headers, { 'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp' });
    if (pathname === '/run.json') {
      out.asked++;
      const code = typeof out.answer === 'number' ? out.answer : request.headers.authorization === key ? 200 : 401;
      response.writeHead(code, { ...headers, 'Content-Type': 'application/json' }).end(code === 200 ? JSON.stringify(out.answer) : '{}');
      return;
    }
    const file = pathname === '/' ? path.join(web, 'page/index.html')
      : pathname === '/peer.mjs' ? path.join(here, 'fakepeer.mjs')
        : pathname.startsWith('/page/') ? path.join(web, pathname) : '';
    const body = file.startsWith(web) || file.startsWith(here) ? await readFile(file).catch(() => null) : null;
    if (body === null) response.writeHead(404, headers).end();
    else response.writeHead(200, { ...headers, 'Content-Type': types[path.extname(file)] }).end(body);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  out.port = server.address().port;
  out.close = () => { server.closeAllConnections?.(); return new Promise((resolve) => server.close(resolve)); };
  return out;
}
