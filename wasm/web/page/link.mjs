// The invitation: what stands behind the # of the page's address. peer/link.go says how it is written.

import { sha256 } from './sha256.mjs';

const prefix = 'shoal:';
const versions = [1, 2]; // which differ in the addresses only
const longest = 8192; // characters
const alphabet = 'abcdefghijklmnopqrstuvwxyz234567';

/** What is wrong with a link, as a clause. */
export class BadLink extends Error {}

/**
 * Reads a link as it stands in location.hash. Returns null if there is none, else {text, run, secret}: the link as
 * the peer takes it, the run's id and the invitation's secret. Throws BadLink.
 */
export function readLink(hash) {
  let text = hash.replace(/^#/, '').trim();
  try { text = decodeURIComponent(text); } catch { /* it wasn't encoded */ }
  text = text.trim().toLowerCase();
  if (text === '') return null;
  if (text.length > longest) throw new BadLink('it is too long');
  if (!text.startsWith(prefix)) throw new BadLink(`behind the # it has to start with “${prefix}”`);
  const bytes = base32(text.slice(prefix.length));
  const end = bytes ? bytes.length - 4 : 0;
  if (end < 1 || crc32c(bytes.subarray(0, end)) !== new DataView(bytes.buffer).getUint32(end)) {
    throw new BadLink('it is cut short or mistyped');
  }
  if (!versions.includes(bytes[0])) throw new BadLink(`it is of version ${bytes[0]}, this page reads versions up to ${versions.at(-1)}`);
  const r = { bytes: bytes.subarray(1, end), at: 0 };
  try {
    field(r, varint(r)); // the peer's id, which is not needed here
    return { text, run: words(r), secret: words(r) };
  } catch {
    throw new BadLink('what is in it does not fit together');
  }
}

/** What the page shows the server instead of the secret: 64 hexadecimal digits. */
export async function pageKey(secret) {
  const bytes = new TextEncoder().encode('shoal page\0' + secret);
  return hex(globalThis.crypto?.subtle ? new Uint8Array(await crypto.subtle.digest('SHA-256', bytes)) : sha256(bytes));
}

function hex(bytes) {
  return Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');
}

function base32(text) {
  const out = new Uint8Array(Math.floor(text.length * 5 / 8));
  let bits = 0, held = 0, n = 0;
  for (const c of text) {
    const v = alphabet.indexOf(c);
    if (v < 0) return null;
    held = (held << 5) | v;
    bits += 5;
    if (bits >= 8) {
      bits -= 8;
      out[n++] = held >> bits;
      held &= (1 << bits) - 1;
    }
  }
  return held === 0 ? out : null;
}

function crc32c(bytes) {
  let crc = ~0;
  for (const b of bytes) {
    crc ^= b;
    for (let i = 0; i < 8; i++) crc = (crc >>> 1) ^ (crc & 1 ? 0x82f63b78 : 0);
  }
  return ~crc >>> 0;
}

function varint(r) {
  let v = 0;
  for (let shift = 0; shift < 28; shift += 7) {
    const b = field(r, 1)[0];
    v |= (b & 127) << shift;
    if (b < 128) return v;
  }
  throw new RangeError('a number is too large');
}

function field(r, length) {
  if (r.at + length > r.bytes.length) throw new RangeError('it ends too early');
  return r.bytes.subarray(r.at, r.at += length);
}

// The lowest bit of the length says that text is written as hexadecimal digits, halved.
function words(r) {
  const n = varint(r);
  const raw = field(r, n >> 1);
  return n & 1 ? hex(raw) : new TextDecoder().decode(raw);
}
