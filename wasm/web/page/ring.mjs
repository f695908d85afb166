// The ring: an arc for each peer, as long as its share of the model, and dots for pieces that are borrowed and given back.

import { draw, set } from './svg.mjs';
import { count } from './format.mjs';
import { whoIsThere } from './words.mjs';

const size = 320, middle = size / 2, radius = 122;
const gap = 0.022;           // radians between arcs
const least = 0.03;          // radians of the arc of whoever holds little
const settle = 500;          // milliseconds until arcs have their new length
const most = 28;             // dots at once
const flight = 750;          // milliseconds that a dot is on its way
const between = 140;         // milliseconds between two flights of the same kind

const at = (angle, r) => [middle + r * Math.sin(angle), middle - r * Math.cos(angle)];

/**
 * Where each arc begins and ends, in radians from the top, clockwise. shares are parts of 1 that add up to 1 or to 0;
 * whoever has nothing gets no arc: null.
 */
export function angles(shares) {
  const there = shares.filter((s) => s > 0).length;
  if (there === 0) return shares.map(() => null);
  const open = there > 1 ? gap : 0;
  const floor = Math.min(least, Math.PI / there);
  const lifted = shares.map((s) => (s > 0 ? Math.max(floor, s * 2 * Math.PI) : 0));
  const stretch = 2 * Math.PI / lifted.reduce((a, b) => a + b);
  let from = 0;
  return lifted.map((length) => {
    if (length === 0) return null;
    const arc = [from + open / 2, from + length * stretch - open / 2];
    from += length * stretch;
    return arc;
  });
}

function path([from, to], r) {
  const end = Math.min(to, from + 2 * Math.PI - 1e-4);
  const [x0, y0] = at(from, r), [x1, y1] = at(end, r);
  return `M${x0.toFixed(2)} ${y0.toFixed(2)}A${r} ${r} 0 ${end - from > Math.PI ? 1 : 0} 1 ${x1.toFixed(2)} ${y1.toFixed(2)}`;
}

/** A ring in svg. */
export function peerRing(svg) {
  set(svg, { viewBox: `0 0 ${size} ${size}`, role: 'img' });
  draw(svg, 'circle', { cx: middle, cy: middle, r: radius, class: 'track' });
  const arcs = draw(svg, 'g');
  const dots = draw(svg, 'g');
  const number = draw(svg, 'text', { x: middle, y: middle + 4, class: 'number' }, '–');
  const who = draw(svg, 'text', { x: middle, y: middle + 30, class: 'who' });
  const calm = matchMedia('(prefers-reduced-motion: reduce)');
  const shown = new Map(); // by member's id: {path, mark, now, from, to, own}
  let begun = 0, frame = 0, flying = 0;
  const lastOf = {};

  /** Shows members, as in a status; own is this device's peer id, or "". */
  function show(members, own) {
    const total = members.reduce((sum, m) => sum + m.owned, 0);
    const wanted = angles(members.map((m) => (total > 0 ? m.owned / total : 0)));
    for (const [id, arc] of shown) {
      if (!members.some((m, i) => m.id === id && wanted[i])) {
        arc.path.remove();
        arc.mark?.remove();
        shown.delete(id);
      }
    }
    let moved = false;
    const first = shown.size === 0;
    members.forEach((m, i) => {
      if (!wanted[i]) return;
      let arc = shown.get(m.id);
      if (!arc) {
        const begin = first ? wanted[i] : [wanted[i][0], wanted[i][0]];
        arc = { path: draw(arcs, 'path'), now: begin, from: begin, to: begin };
        shown.set(m.id, arc);
        moved = true;
      }
      arc.own = own !== '' && m.peer === own;
      arc.path.setAttribute('class', `arc ${m.kind === 'browser' ? 'tab' : 'daemon'}${arc.own ? ' own' : ''}`);
      if (arc.own && !arc.mark) arc.mark = draw(arcs, 'path', { class: 'mark' });
      if (!arc.own && arc.mark) { arc.mark.remove(); arc.mark = null; }
      if (arc.to[0] !== wanted[i][0] || arc.to[1] !== wanted[i][1]) {
        arc.to = wanted[i];
        moved = true;
      }
    });
    if (moved) {
      for (const arc of shown.values()) arc.from = arc.now;
      begun = performance.now();
      if (!frame) frame = requestAnimationFrame(move);
    }
    number.textContent = count(members.length);
    who.textContent = members.length ? whoIsThere(members) : 'nobody yet';
    svg.setAttribute('aria-label', `Ring of peers: ${who.textContent}`);
  }

  function move(now) {
    const t = calm.matches ? 1 : Math.min(1, (now - begun) / settle);
    const part = t * t * (3 - 2 * t);
    for (const arc of shown.values()) {
      arc.now = arc.from.map((a, i) => a + (arc.to[i] - a) * part);
      arc.path.setAttribute('d', path(arc.now, radius));
      arc.mark?.setAttribute('d', path(arc.now, radius + 20));
    }
    frame = t < 1 ? requestAnimationFrame(move) : 0;
  }

  /** Shows what happened to pieces just now, as the peer's worker tells it: [[kind, unit], ...]. */
  function pieces(list) {
    if (calm.matches || document.hidden) return;
    const own = [...shown.values()].find((a) => a.own);
    if (!own) return;
    const others = [...shown.values()].filter((a) => !a.own);
    for (const kind of new Set(list.map((p) => p[0]))) {
      const now = performance.now();
      if (now - (lastOf[kind] ?? -between) < between) continue;
      lastOf[kind] = now;
      if (kind === 'update') pulse(own.path);
      for (const other of others.slice(0, 6)) {
        if (kind === 'gather') fly('in', spot(other), spot(own));
        if (kind === 'reduce') fly('out', spot(own), spot(other));
      }
    }
  }

  const spot = ({ now: [from, to] }) => at(from + (to - from) * (0.2 + 0.6 * Math.random()), radius - 20);

  function fly(kind, [x0, y0], [x1, y1]) {
    if (flying >= most) return;
    flying++;
    const dot = draw(dots, 'circle', { r: 3.2, class: `dot ${kind}` });
    const from = `translate(${x0}px, ${y0}px)`, to = `translate(${x1}px, ${y1}px)`;
    const a = dot.animate([
      { transform: from, opacity: 0 }, { opacity: 0.9, offset: 0.15 }, { opacity: 0.9, offset: 0.85 }, { transform: to, opacity: 0 },
    ], { duration: flight * (0.85 + 0.3 * Math.random()), easing: 'cubic-bezier(.45,0,.35,1)' });
    a.onfinish = a.oncancel = () => { dot.remove(); flying--; };
  }

  function pulse(e) {
    e.animate([{ opacity: 1 }, { opacity: 0.62 }, { opacity: 1 }], { duration: 420, easing: 'ease-out' });
  }

  return { show, pieces };
}
