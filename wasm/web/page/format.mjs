// Numbers for people.

const missing = '–';

function significant(v) {
  return v < 9.995 ? v.toFixed(2) : v < 99.95 ? v.toFixed(1) : v.toFixed(0);
}

/** Bytes with three digits, in powers of 1024. */
export function bytes(n) {
  if (!Number.isFinite(n)) return missing;
  if (n < 1024) return `${Math.round(n)} B`;
  for (const unit of ['KiB', 'MiB', 'GiB']) {
    n /= 1024;
    if (n < 999.5) return `${significant(n)} ${unit}`;
  }
  return `${significant(n / 1024)} TiB`;
}

/** A whole number with thousands apart. */
export function count(n) {
  return Number.isFinite(n) ? String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, '\u202f') : missing;
}

/** A large number in words: 1.21 million. */
export function many(n) {
  if (!Number.isFinite(n)) return missing;
  for (const [size, word] of [[1e9, 'billion'], [1e6, 'million']]) {
    if (n >= size * 0.9995) return `${significant(n / size)} ${word}`;
  }
  return count(n);
}

/** A loss or another number of any size, at most five characters long where that is possible. */
export function value(v) {
  if (!Number.isFinite(v)) return missing;
  if (v === 0) return '0';
  const size = Math.abs(v);
  if (size < 0.001 || size >= 1e5) return v.toExponential(1).replace('e+', 'e');
  return size < 1 ? String(Number(v.toPrecision(3))) : String(Number(v.toPrecision(4)));
}

/** Milliseconds as time that has passed: 45 s, 12 min, 3 h 5 min. */
export function duration(ms) {
  if (!Number.isFinite(ms) || ms < 0) return missing;
  const s = Math.floor(ms / 1000);
  if (s < 100) return `${s} s`;
  const min = Math.floor(s / 60);
  return min < 100 ? `${min} min` : `${Math.floor(min / 60)} h ${min % 60} min`;
}

/** A part of 1 in percent; what is there is never shown as 0%. */
export function percent(part) {
  if (!Number.isFinite(part)) return missing;
  if (part > 0 && part < 0.01) return '< 1%';
  return `${Math.round(100 * part)}%`;
}

/** A peer's id as everywhere in Shoal: its last eight characters. */
export function short(id) {
  return id.length > 8 ? `…${id.slice(-8)}` : id;
}

/** 1 peer, 2 peers. */
export function plural(n, one, more = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : more}`;
}
