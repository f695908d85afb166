// Makes pictures of a page small: flat colours need a palette of 256, not three bytes for each pixel.

import { deflateSync, inflateSync, crc32 as zlibCRC } from 'node:zlib';

const signature = Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]);

function crc32(bytes) {
  if (zlibCRC) return zlibCRC(bytes);
  let crc = ~0;
  for (const b of bytes) {
    crc ^= b;
    for (let i = 0; i < 8; i++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

function chunk(type, body) {
  const out = Buffer.alloc(12 + body.length);
  out.writeUInt32BE(body.length);
  out.write(type, 4, 'latin1');
  body.copy(out, 8);
  out.writeUInt32BE(crc32(out.subarray(4, 8 + body.length)), 8 + body.length);
  return out;
}

// Pixels of a PNG with 8 bits per colour, without interlacing, as browsers write them: {width, height, step, rows}.
function decode(png) {
  let at = signature.length, header = null;
  const parts = [];
  while (at < png.length) {
    const length = png.readUInt32BE(at), type = png.toString('latin1', at + 4, at + 8), body = png.subarray(at + 8, at + 8 + length);
    if (type === 'IHDR') header = body;
    if (type === 'IDAT') parts.push(body);
    at += 12 + length;
  }
  const [width, height, depth, kind] = [header.readUInt32BE(0), header.readUInt32BE(4), header[8], header[9]];
  const step = { 2: 3, 6: 4 }[kind];
  if (depth !== 8 || !step || header[12] !== 0) throw new Error('the picture is not of 8 bits per colour');
  const raw = inflateSync(Buffer.concat(parts)), line = width * step;
  const rows = Buffer.alloc(line * height);
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (line + 1)];
    for (let x = 0; x < line; x++) {
      const left = x >= step ? rows[y * line + x - step] : 0;
      const up = y > 0 ? rows[(y - 1) * line + x] : 0;
      const corner = x >= step && y > 0 ? rows[(y - 1) * line + x - step] : 0;
      const p = left + up - corner;
      const [dl, du, dc] = [Math.abs(p - left), Math.abs(p - up), Math.abs(p - corner)];
      const guess = [0, left, up, (left + up) >> 1, dl <= du && dl <= dc ? left : du <= dc ? up : corner][filter];
      rows[y * line + x] = raw[y * (line + 1) + 1 + x] + guess;
    }
  }
  return { width, height, step, rows };
}

/** The same PNG with 256 colours: the most frequent ones, of which no two are nearly the same; others become the nearest of these. */
export function fewColours(png) {
  const { width, height, step, rows } = decode(png);
  const times = new Map();
  const pixels = new Uint32Array(width * height);
  for (let i = 0; i < pixels.length; i++) {
    pixels[i] = (rows[i * step] << 16) | (rows[i * step + 1] << 8) | rows[i * step + 2];
    times.set(pixels[i], (times.get(pixels[i]) ?? 0) + 1);
  }
  const byTimes = [...times].sort((a, b) => b[1] - a[1] || a[0] - b[0]).map((e) => e[0]);
  const rough = new Map();
  for (const c of byTimes) if (!rough.has(c & 0xf8f8f8)) rough.set(c & 0xf8f8f8, c);
  const palette = [...rough.values()].slice(0, 256);
  const index = new Map(palette.map((c, i) => [c, i]));
  const far = (a, b) => (((a >> 16) - (b >> 16)) ** 2) + ((((a >> 8) & 255) - ((b >> 8) & 255)) ** 2) + (((a & 255) - (b & 255)) ** 2);
  for (const c of times.keys()) {
    if (!index.has(c)) index.set(c, palette.reduce((best, p, i) => (far(c, p) < far(c, palette[best]) ? i : best), 0));
  }
  const out = Buffer.alloc((width + 1) * height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) out[y * (width + 1) + 1 + x] = index.get(pixels[y * width + x]);
  }
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header[8] = 8;
  header[9] = 3;
  const colours = Buffer.from(palette.flatMap((c) => [c >> 16, (c >> 8) & 255, c & 255]));
  return Buffer.concat([signature, chunk('IHDR', header), chunk('PLTE', colours), chunk('IDAT', deflateSync(out, { level: 9, memLevel: 9 })), chunk('IEND', Buffer.alloc(0))]);
}
