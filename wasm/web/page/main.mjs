// The page that a volunteer sees. It asks the daemon about the run, and starts the peer, which lives in a worker of its
// own (../peer.mjs). Here is only what is seen: nothing is computed, and nothing may take longer than a frame.

import { readLink, pageKey, BadLink } from './link.mjs';
import { states, inRun, takesOffers, sentence, plain, mayBeOver, whatIsTrained, details, whySlower, needs } from './words.mjs';
import { bytes, count, duration, percent, plural, short, value } from './format.mjs';
import { lossChart } from './chart.mjs';
import { peerRing } from './ring.mjs';

const MiB = 2 ** 20;
const askEvery = 3000;        // milliseconds between two looks at a run that isn't joined
const askAtMost = 10000;      // milliseconds until an answer counts as missing
const nearEnd = 0.02;         // of all steps; with no more left, a run whose pace is unknown may be over by the next look
const leaveWithin = 15000;    // milliseconds for handing over; then the worker is ended
const paintEvery = 250;       // milliseconds between two drawings of the curve
const rateOver = 30000;       // milliseconds over which the time that is left is guessed
const steady = 5000;          // milliseconds before that is guessed at all
const lendAtMost = 2048;      // MiB
const lendUnknown = 1024;     // MiB, where the browser doesn't say how much memory the device has

const $ = (id) => document.getElementById(id);
const chart = lossChart($('chart'));
const ring = peerRing($('ring'));

let link = null;              // {text, run, secret}
let key = '';                 // shown to the server instead of the secret
let state = 'asking', reason = '', notice = '';
let news = '';                // a notice that waits for the next status: it may be the same
let answered = 0;             // when the daemon last told of the run
let lost = false;             // since then it didn't answer, and the run may be over
let info = null;              // the last /run.json
let status = null;            // the last status, from there or from the peer
let joined = false;           // once joined, the figures of what was given stay
let worker = null, self = null, usage = {}, report = null;
let offer = null;             // what the peer was told: {cores, memory}
let since = 0, spent = 0;     // when computing began, and milliseconds of it before that
let given = nothing();        // by the peer as it is now,
let before = nothing();       // and by those before it, which paused or lost the run
let counted = '';             // the id of the peer as it is now
const pace = [];              // [time, step] of late
let pieces = { gather: 0, reduce: 0 };

function nothing() { return { samples: 0, sent: 0, received: 0 }; }

// --- what is known of the run

async function ask() {
  clearTimeout(ask.timer);
  const late = AbortSignal.timeout ? AbortSignal.timeout(askAtMost) : undefined;
  try {
    const answer = await fetch(new URL('run.json', document.baseURI), {
      headers: { Authorization: `Shoal ${key}` }, cache: 'no-store', credentials: 'omit', redirect: 'error', signal: late,
    });
    if (answer.status === 401 && !inRun(state)) return become('wronglink');
    if (answer.status === 503 && !joined) {
      become('soon');
      return again();
    }
    if (!answer.ok) throw new Error(`the daemon that serves this page answers with error ${answer.status}`);
    const got = await answer.json();
    info = got;
    answered = performance.now();
    lost = false;
    curve(got.losses);
    if (!self || looksOn()) learn(got.status); // in the run, the peer's own is newer
    if (['asking', 'soon', 'unreachable', 'maybeover', 'wronglink'].includes(state)) become('idle');
    if (['idle', 'paused', 'left', 'refused'].includes(state) && status.steps > 0 && status.step >= status.steps) become('over');
  } catch (e) {
    const silent = e instanceof TypeError || e.name === 'TimeoutError';
    lost = silent && looksOn() && (lost || mayBeDone());
    if (!inRun(state) && !joined) become(lost ? 'maybeover' : 'unreachable', silent ? '' : e.message);
    soon();
  }
  again();
}

/** Whether what happens in the run is known from the daemon, for this device takes no part. */
const looksOn = () => !inRun(state) || state === 'paused';

/** Whether, by its pace up to the last answer, the run may have done its last step by now or soon. */
function mayBeDone() {
  if (!info || !(status?.steps > 0)) return false;
  const rest = status.steps - status.step;
  const [from, to] = [pace[0], pace.at(-1)];
  const soonest = Math.max(performance.now() - answered, askEvery) + askEvery;
  return rest <= nearEnd * status.steps || (to[1] > from[1] && rest * (to[0] - from[0]) <= soonest * (to[1] - from[1]));
}

function again() {
  clearTimeout(ask.timer);
  if (looksOn() && !['over', 'done', 'wronglink'].includes(state)) ask.timer = setTimeout(ask, askEvery);
}

function curve(losses) {
  chart.replace(Array.isArray(losses) ? losses : [], info?.run.steps ?? 0);
  curve.stale = true;
}

/** Takes how the run stands. A peer counts from its first step there on: until then, what the daemon told is kept. */
function learn(s) {
  if (!s) return;
  if (s.step === 0 && status?.step > 0) {
    const { step, samples, loss, samples_per_second } = status;
    s = { ...s, step, samples, loss, samples_per_second };
  }
  status = s;
  const now = performance.now();
  if (s.step !== pace.at(-1)?.[1]) pace.push([now, s.step]);
  while (pace.length > 2 && now - pace[0][0] > rateOver) pace.shift();
  soon();
}

// --- the peer's worker

function wanted() {
  return { cores: Number($('cores').value), memory: Number($('memory').value) * MiB };
}

function join() {
  dismiss();
  joined = true;
  report = null; self = null; usage = {};
  offer = wanted();
  become('loading');
  const w = new Worker(new URL('../peer.mjs', import.meta.url), { type: 'module', name: 'shoal peer' });
  worker = w;
  w.onmessage = (e) => { if (worker === w) hear(e.data); };
  w.onerror = (e) => {
    e.preventDefault?.();
    if (worker === w) become('failed', e.message ? `${e.message}` : 'its program could not be loaded, see whether the daemon still runs');
  };
  w.postMessage({ type: 'join', link: link.text, ...offer });
  w.postMessage({ type: 'visible', visible: !document.hidden });
}

function dismiss() {
  clearTimeout(leave.timer);
  worker?.terminate();
  worker = null;
}

function leave() {
  become('leaving');
  worker.postMessage({ type: 'leave' });
  leave.timer = setTimeout(() => become('left', 'handing over took too long, so the others took over by themselves'), leaveWithin);
}

function hear(m) {
  switch (m?.type) {
    case 'state':
      if (outdated(m.state)) return;
      become(m.state, m.reason);
      break;
    case 'self':
      if (m.peer !== counted) another();
      counted = m.peer;
      self = m;
      break;
    case 'progress':
      chart.add(m.step, m.loss);
      curve.stale = true;
      break;
    case 'status':
      learn(m.status);
      tellNews();
      counts({ sent: m.status.traffic.reduce((sum, t) => sum + t.sent, 0), received: m.status.traffic.reduce((sum, t) => sum + t.received, 0) });
      break;
    case 'pieces':
      for (const [kind] of m.list) if (kind in pieces) pieces[kind]++;
      ring.pieces(m.list);
      break;
    case 'usage':
      usage = m;
      counts({ samples: m.samples });
      break;
    case 'notice':
      news = m.text;
      if (!['waiting', 'computing'].includes(state)) tellNews();
      break;
    case 'report': report = m.report; break;
  }
  soon();
}

/** Shows what the peer told, unless it is why the run waits: the sentence says that. */
function tellNews() {
  if (news && news !== status?.stuck) notice = plain(news);
  news = '';
}

/** Takes counters of the peer; one that fell is another peer's, which has begun anew. */
function counts(now) {
  if (Object.keys(now).some((k) => now[k] < given[k])) another();
  Object.assign(given, now);
}

/** What was given so far counts on its own from now on. */
function another() {
  for (const k in given) before[k] += given[k];
  given = nothing();
}

/** Whether a state of the peer is from before it heard what the volunteer wants, or a part of that. */
function outdated(next) {
  const ends = ['left', 'refused', 'failed', 'done'];
  if (state === 'leaving') return !ends.includes(next);
  if (state === 'pausing') return next !== 'paused' && !ends.includes(next);
  if (state === 'changing') return next === 'leaving' || (next === 'computing' && self === null);
  return false;
}

function become(next, why = '') {
  if (!states[next]) return;
  if (next === state && (why || '') === reason) return;
  if (next === 'computing' && !since) {
    since = performance.now();
    ask(); // for the losses of steps that were done without this device
  }
  if (next !== 'computing' && since) {
    spent += performance.now() - since;
    since = 0;
  }
  if (next !== state) notice = news = '';
  if (inRun(next) && next !== 'paused') lost = false;
  state = next;
  reason = why || '';
  if (['left', 'refused', 'failed', 'done', 'over'].includes(state)) dismiss();
  if (['left', 'refused', 'failed', 'paused'].includes(state)) ask();
  stayAwake();
  soon();
}

// --- what is seen

let frame = 0;
function soon() {
  if (!frame) frame = requestAnimationFrame(() => { frame = 0; show(); });
}

/** Sets text only where it changes, so that nothing is laid out anew and no screen reader wakes up. */
function text(id, t) {
  const e = $(id);
  if (e.textContent !== t) e.textContent = t;
}

function show() {
  const { word, tone } = states[state];
  text('word', word);
  text('pill-word', word);
  $('state').dataset.tone = $('pill').dataset.tone = tone;
  const says = sentence(state, state === 'waiting' ? status?.stuck : reason);
  text('sentence', says);
  const more = state === 'done' ? outcome() : lost && state !== 'maybeover' ? mayBeOver : notice;
  text('notice', more || means());
  showButtons();
  showOffer();
  if (info) showRun();
  if (status) showPeers();
  showGiven();
  const now = performance.now();
  if (curve.stale && now - (curve.painted ?? -paintEvery) >= paintEvery) {
    curve.stale = false;
    curve.painted = now;
    chart.draw();
    const last = chart.last();
    text('latest', value(last ? last[1] : NaN));
    text('latest-step', last ? `at step ${count(last[0])}${chart.isLog() ? ', log scale' : ''}` : '');
  } else if (curve.stale && !curve.timer) {
    curve.timer = setTimeout(() => { curve.timer = 0; soon(); }, paintEvery);
  }
  document.title = [word, status?.name, 'Shoal'].filter(Boolean).join(' · ');
  say(`${word}. ${says} ${more}`.trim());
}

/** Tells screen readers of a state once it has lasted for a moment. */
function say(t) {
  if (t === say.next) return;
  say.next = t;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => text('said', t), 300);
}

/** With what this device takes part, for those who want to know. */
function means() {
  if (state !== 'computing' || !self) return '';
  return [self.backend, plural(self.workers, 'worker'), self.transport].filter(Boolean).join(', ');
}

function outcome() {
  if (!report) return '';
  const loss = report.loss?.at?.(-1);
  return [
    `${plural(report.steps, 'step')}`, Number.isFinite(loss) && `loss ${value(loss)}`,
    report.eval && `accuracy ${percent(report.eval.accuracy)}`, report.state_hash && `state hash ${report.state_hash.slice(0, 16)}…`,
  ].filter(Boolean).join(', ');
}

function showRun() {
  const { run } = info;
  const steps = run.steps, step = Math.min(status?.step ?? 0, steps);
  text('name', status?.name || run.name || 'A run of Shoal');
  text('what', whatIsTrained(run));
  $('progress').max = steps || 1;
  $('progress').value = step;
  const rate = status?.samples_per_second;
  text('figures', [
    `Step ${count(step)} of ${count(steps)}`, rate > 0 && `${count(rate)} samples/s`, left(steps - step), status?.stuck && state !== 'waiting' && 'waits for its keeper',
  ].filter(Boolean).join(' · '));
  needs(info.joining).forEach((v, i) => text(['need-memory', 'need-download', 'need-parameters'][i], v));
  text('run-id', details(run));
}

function left(steps) {
  const [from, to] = [pace[0], pace.at(-1)];
  if (steps <= 0 || !to || to[1] <= from[1] || to[0] - from[0] < steady) return '';
  return `about ${duration(steps * (to[0] - from[0]) / (to[1] - from[1]))} left`;
}

function showPeers() {
  const own = inRun(state) && state !== 'paused' ? self?.peer ?? '' : '';
  const members = status.members;
  $('peers').classList.toggle('moving', own !== '');
  ring.show(members, own);
  const total = members.reduce((sum, m) => sum + m.owned, 0);
  const rows = members.map((m) => ({
    name: short(m.peer), share: total > 0 ? percent(m.owned / total) : '–',
    kind: [m.peer === own && 'this tab', m.peer !== own && (m.kind === 'browser' ? 'tab' : 'daemon'), m.peer === status.leader && 'leader',
      m.rank < 0 ? 'joining' : m.to_fill > 0 && 'getting its share'].filter(Boolean).join(', '),
    look: [m.kind === 'browser' && 'tab', m.peer === own && 'own', !m.owned && 'none'].filter(Boolean).join(' '),
  })).sort((a, b) => b.look.includes('own') - a.look.includes('own'));
  const list = $('list');
  while (list.children.length > rows.length) list.lastChild.remove();
  while (list.children.length < rows.length) {
    const li = document.createElement('li');
    li.append(document.createElement('i'), document.createElement('code'), document.createElement('span'), document.createElement('b'));
    li.children[2].className = 'kind';
    list.append(li);
  }
  rows.forEach((r, i) => {
    const li = list.children[i];
    if (li.className !== r.look) li.className = r.look;
    [r.name, r.kind, r.share].forEach((t, k) => { if (li.children[k + 1].textContent !== t) li.children[k + 1].textContent = t; });
  });
  if (list.scrollHeight > list.clientHeight) list.tabIndex = 0;
  else list.removeAttribute('tabindex');
  const fault = status.faults?.at(-1);
  text('event', fault && fault.seconds_ago < 300
    ? `${duration(1000 * fault.seconds_ago)} ago: ${fault.reason.includes(fault.peer.slice(-8)) ? '' : `${short(fault.peer)}, `}${fault.reason}. The others went on.`
    : own && pieces.gather ? `${plural(pieces.gather, 'piece')} borrowed, ${count(pieces.reduce)} given back` : '\u00a0');
}

function showGiven() {
  const gave = inRun(state) || spent > 0;
  $('needs').hidden = gave;
  $('given').hidden = !gave;
  if (!gave) return;
  const me = status?.members.find((m) => m.peer === self?.peer);
  const total = status?.members.reduce((sum, m) => sum + m.owned, 0);
  const holds = inRun(state) && state !== 'paused';
  text('share', holds ? percent(me && total > 0 ? me.owned / total : NaN) : '0%');
  text('samples', count(before.samples + given.samples));
  text('time', duration(spent + (since ? performance.now() - since : 0)));
  text('used', bytes(holds ? usage.memory : 0));
  text('sent', bytes(before.sent + given.sent));
  text('received', bytes(before.received + given.received));
}

const labels = { join: 'Join', again: 'Join again', ask: 'Ask again', resume: 'Resume', 'resume-soon': 'Resume' };

function showButtons() {
  const { buttons } = states[state];
  const had = document.activeElement;
  const first = buttons.find((b) => b in labels);
  const set = (id, shown, ready = true) => {
    $(id).hidden = !shown;
    $(id).setAttribute('aria-disabled', String(!ready));
  };
  set('main', first, first !== 'resume-soon');
  if (first) text('main', labels[first]);
  set('pause', buttons.includes('pause'));
  set('leave', buttons.some((b) => b.startsWith('leave')), buttons.includes('leave'));
  if (had?.hidden) $('part-title').focus({ preventScroll: true });
}

/** Whether other things are chosen to be lent than the peer was told, and it would use them. */
function isChanged() {
  const { cores, memory } = wanted();
  return offer !== null && takesOffers(state) && (cores !== offer.cores || memory !== offer.memory);
}

function showOffer() {
  const { cores, memory } = wanted();
  const most = Number($('cores').max);
  text('cores-value', most > 1 ? `${cores} of ${most}` : String(cores));
  text('memory-value', bytes(memory));
  const changed = isChanged();
  $('apply').classList.toggle('away', !changed);
  const tooLittle = info && !inRun(state) && memory < info.joining.memory_bytes;
  text('change-note', changed ? 'Using these hands over, and joins again with them.'
    : tooLittle ? `An even share takes ${bytes(info.joining.memory_bytes)}; with less, yours is smaller.`
      : 'Your share of the model and of the work follows what you lend.');
}

// --- what the volunteer does

const press = {
  join, again: join, ask,
  resume() { become('connecting'); worker.postMessage({ type: 'resume' }); },
};

function click(id, f) {
  $(id).addEventListener('click', () => { if ($(id).getAttribute('aria-disabled') !== 'true') f(); });
}

click('main', () => press[states[state].buttons.find((b) => b in press)]?.());
click('pause', () => { become('pausing'); worker.postMessage({ type: 'pause' }); });
click('leave', leave);
click('apply', () => {
  if (!isChanged()) return;
  offer = wanted();
  if (state !== 'paused') {
    self = null;
    become('changing');
  }
  worker.postMessage({ type: 'settings', ...offer });
  $('memory').focus();
  soon();
});
$('offer').addEventListener('input', soon);
$('offer').addEventListener('submit', (e) => e.preventDefault());
addEventListener('hashchange', () => location.reload());
document.addEventListener('visibilitychange', () => {
  worker?.postMessage({ type: 'visible', visible: !document.hidden });
  stayAwake();
});
new ResizeObserver(() => { curve.stale = true; soon(); }).observe($('chart'));
setInterval(() => { if (since) soon(); }, 1000); // the time that was given

// --- the screen

let lock = null;              // a promise of the browser's lock; null: none is wanted

function stayAwake() {
  const want = $('awake').checked && inRun(state) && state !== 'paused' && !document.hidden; // a hidden page loses it anyhow
  if (want && !lock) {
    lock = navigator.wakeLock.request('screen');
    lock.catch((e) => {
      lock = null;
      notice = `The browser doesn’t keep the screen on: ${e.message}`;
      $('awake').checked = false;
      soon();
    });
  } else if (!want && lock) {
    lock.then((l) => l.release(), () => {}); // one that was refused has been told of
    lock = null;
  }
}
$('awake').addEventListener('change', stayAwake);
if (!navigator.wakeLock) {
  $('awake').disabled = true;
  $('awake').nextSibling.textContent = 'Keep the screen on (not possible in this browser or at this address)';
}

// --- begin

async function begin() {
  const isolated = globalThis.crossOriginIsolated === true;
  const most = isolated ? Math.max(1, Math.min(64, navigator.hardwareConcurrency || 1)) : 1;
  $('cores').max = most;
  $('cores').value = Math.max(1, most - 1);
  $('cores').disabled = most === 1;
  const cap = Math.min(lendAtMost, navigator.deviceMemory ? 1024 * navigator.deviceMemory : lendUnknown);
  $('memory').max = cap;
  $('memory').min = Math.min(128, cap);
  $('memory').value = cap;
  const why = whySlower({ secure: isSecureContext, isolated, transport: 'WebTransport' in globalThis });
  text('slower', why);
  $('slower').hidden = why === '';
  try {
    link = readLink(location.hash);
  } catch (e) {
    if (!(e instanceof BadLink)) throw e;
    return become('badlink', e.message);
  }
  if (!link) return become('nolink');
  key = await pageKey(link.secret);
  ask();
}

begin();
soon();
