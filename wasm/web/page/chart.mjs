// The loss curve.

import { draw } from './svg.mjs';
import { count, value } from './format.mjs';

const most = 1000;          // points that are kept; beyond them every second one goes
const logFrom = 10;         // a curve that falls by this factor has a logarithmic axis
const largest = 1e30;       // losses beyond are left out, as those that are not finite
const margin = { left: 44, right: 14, top: 12, bottom: 26 };

/**
 * A curve through the middle of points: each loss is averaged with its neighbours, of which there are more in a long
 * list, and fewer near both ends. With log, factors count instead of differences.
 */
export function smooth(points, log = false) {
  const reach = Math.min(12, Math.max(1, Math.round(points.length / 25)));
  const [to, back] = log ? [Math.log, Math.exp] : [Number, Number];
  return points.map(([step], i) => {
    const near = Math.min(reach, Math.max(i, 1), Math.max(points.length - 1 - i, Math.ceil(reach / 2)));
    let sum = 0, weight = 0;
    for (let k = Math.max(0, i - near); k <= Math.min(points.length - 1, i + near); k++) {
      const w = near + 1 - Math.abs(k - i);
      sum += w * to(points[k][1]);
      weight += w;
    }
    return [step, back(sum / weight)];
  });
}

/** About n round numbers between low and high, at least two: 1, 2 or 5 times a power of ten apart. */
export function ticks(low, high, n) {
  for (; n < 64; n++) {
    const raw = (high - low) / n;
    const size = 10 ** Math.floor(Math.log10(raw));
    const by = [1, 2, 5, 10].map((f) => f * size).find((s) => s >= raw * 0.999);
    const out = [];
    for (let i = Math.ceil(low / by - 1e-9); i * by <= high * (1 + 1e-9); i++) out.push(Number((i * by).toPrecision(12)));
    if (out.length > 1) return out;
  }
  return [];
}

/** The same for a logarithmic axis, or [] if fewer than two lie in between. */
export function logTicks(low, high) {
  for (const [digits, decades] of [[[1, 2, 5], 1], [[1, 3], 1], [[1], 1], [[1], 2], [[1], 5], [[1], 10]]) {
    const out = [];
    for (let p = decades * Math.floor(Math.log10(low) / decades); 10 ** p <= high; p += decades) {
      for (const d of digits) {
        const v = Number((d * 10 ** p).toPrecision(2));
        if (v >= low && v <= high) out.push(v);
      }
    }
    if (out.length <= 6) return out.length > 1 ? out : [];
  }
  return [];
}

const fits = (step, loss) => Number.isSafeInteger(step) && step > 0 && Number.isFinite(loss) && Math.abs(loss) < largest;

/** A chart in svg, an element whose size CSS sets. Every change is drawn with draw(). */
export function lossChart(svg) {
  let points = [];
  let steps = 0, log = false;

  /** All points anew: [[step, loss], ...]; those that are not finite are left out. steps is the run's last one. */
  function replace(list, last) {
    steps = last;
    points = list.filter(([s, l]) => fits(s, l)).slice(-most);
  }

  /** One more point; a step that is there already, or lies before the last one, is left out. */
  function add(step, loss) {
    if (!fits(step, loss) || step <= (points.at(-1)?.[0] ?? 0)) return;
    points.push([step, loss]);
    if (points.length > most) points = points.filter((_, i) => i % 2 === 0 || i === points.length - 1);
  }

  function paint() {
    const width = svg.clientWidth, height = svg.clientHeight;
    if (width < 100 || height < 60) return;
    svg.replaceChildren();
    svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    if (points.length === 0) {
      draw(svg, 'text', { x: width / 2, y: height / 2, class: 'empty' }, 'The curve begins with the first step.');
      svg.setAttribute('aria-label', 'Loss: no step is done yet');
      return;
    }
    const [first, last] = [points[0], points.at(-1)];
    const endStep = last[0] > 0.15 * steps ? steps : Math.max(10, Math.ceil(last[0] * 1.3));
    const losses = points.map((p) => p[1]);
    let [low, high] = [Math.min(...losses), Math.max(...losses)];
    let marks = low > 0 && high / low >= logFrom ? logTicks(low * 0.9, high * 1.1) : [];
    log = marks.length > 0;
    if (log) {
      [low, high] = [low * 0.9, high * 1.1];
    } else {
      if (low > 0 && low < high / 3) low = 0;
      const room = (high - low || Math.abs(high) || 1) * 0.06;
      [low, high] = [low === 0 ? 0 : low - room, high + room];
      marks = ticks(low, high, Math.max(2, Math.floor(height / 55)));
    }
    const curve = smooth(points, log);
    const scale = log ? Math.log : (v) => v;
    const from = Math.min(1, first[0]);
    const x = (s) => margin.left + (width - margin.left - margin.right) * (s - from) / Math.max(1, endStep - from);
    const y = (l) => height - margin.bottom - (height - margin.bottom - margin.top) * (scale(l) - scale(low)) / (scale(high) - scale(low));
    const line = (list) => list.map(([s, l], i) => `${i ? 'L' : 'M'}${x(s).toFixed(1)} ${y(l).toFixed(1)}`).join('');

    for (const v of marks) {
      draw(svg, 'line', { x1: margin.left, x2: width - margin.right, y1: y(v), y2: y(v), class: 'grid' });
      draw(svg, 'text', { x: margin.left - 9, y: y(v) + 4, class: 'y' }, value(v));
    }
    draw(svg, 'text', { x: 0, y: height - 6, class: 'axis' }, 'step');
    const across = ticks(from, endStep, Math.max(3, Math.floor(width / 110))).filter((v) => v > 0 && Number.isInteger(v) && x(v) > margin.left + 6);
    for (const v of across) {
      const text = draw(svg, 'text', { x: x(v), y: height - 6, class: 'x' }, count(v));
      if (x(v) > width - margin.right - 18) text.classList.add('last');
    }
    draw(svg, 'path', { d: line(points), class: 'raw' });
    draw(svg, 'path', { d: line(curve), class: 'curve' });
    const end = curve.at(-1);
    draw(svg, 'circle', { cx: x(end[0]), cy: y(end[1]), r: 4, class: 'now' });
    svg.setAttribute('aria-label', `Loss by step, ${log ? 'logarithmic scale' : 'linear scale'}: ` +
      `${value(curve[0][1])} at step ${count(first[0])}, ${value(end[1])} at step ${count(last[0])} of ${count(steps)}`);
  }

  return { replace, add, draw: paint, last: () => points.at(-1), isLog: () => log };
}
