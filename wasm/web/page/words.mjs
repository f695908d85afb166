// What the page says: every state, in words.

import { bytes, many, plural } from './format.mjs';

/** What a volunteer reads of a run that waits for a peer. The peer's own words are advice for whoever keeps the run. */
export const keeperMissing = 'The run waits for its keeper, a device that it can’t go on without. There is nothing to do here: it goes on by itself, or ends.';

/** Joined to what is said of a device that is out of a run of which nothing is heard any more. */
export const mayBeOver = 'The daemon does not answer any more, and few steps were left: the run may be over.';

/**
 * The states of this device's part. tone picks the colour of the dot; text is a sentence or a function that makes one
 * from the reason; buttons are those that are shown.
 */
export const states = {
  // before joining
  asking: { word: 'Looking', tone: 'busy', text: 'Asking the daemon behind this address about the run.', buttons: [] },
  idle: { word: 'Not joined', tone: 'off', text: 'This device takes no part yet. Nothing is computed or kept here until you join.', buttons: ['join'] },
  nolink: {
    word: 'No invitation', tone: 'bad', buttons: [],
    text: 'This address lacks the invitation. Open the whole address that “shoal up” printed, with everything behind the # sign.',
  },
  badlink: {
    word: 'Unreadable invitation', tone: 'bad', buttons: [],
    text: (why) => `The invitation in this address can’t be used: ${why || 'it is not readable'}. Copy the whole address once more.`,
  },
  wronglink: {
    word: 'Other run', tone: 'bad', buttons: ['ask'],
    text: 'The daemon behind this address takes part in another run than this invitation is for. Ask for a new address.',
  },
  unreachable: {
    word: 'No answer', tone: 'bad', buttons: ['ask'],
    text: (why) => `${whole(why || 'the daemon that serves this page does not answer')} The page asks again by itself; if it stays so, check your network, or ask whether the daemon still runs.`,
  },
  soon: { word: 'Starting', tone: 'busy', text: 'The daemon behind this address is about to start the run. The page asks again by itself.', buttons: [] },
  maybeover: {
    word: 'Run over?', tone: 'off', buttons: ['ask'],
    text: 'The run may be over: the daemon that serves this page does not answer any more, and few steps were left when it last did. The page asks again by itself.',
  },
  over: { word: 'Run over', tone: 'good', text: 'All steps of this run are done, and there is nothing left to join.', buttons: [] },

  // after joining; the peer's worker tells these
  loading: { word: 'Loading', tone: 'busy', text: 'Fetching the program and starting it.', buttons: ['pause', 'leave'] },
  connecting: { word: 'Connecting', tone: 'busy', text: 'Looking for the run’s peers.', buttons: ['pause', 'leave'] },
  waiting: {
    word: 'Waiting for work', tone: 'busy', buttons: ['pause', 'leave'],
    text: (why) => (why ? keeperMissing : 'Connected. This device gets its share of the model and the next samples in a moment.'),
  },
  computing: { word: 'Computing', tone: 'good', text: 'This device computes samples and keeps its share of the model.', buttons: ['pause', 'leave'] },
  reconnecting: {
    word: 'Reconnecting', tone: 'busy', buttons: ['pause', 'leave'],
    text: (why) => `${whole(why || 'the connection was lost')} The others go on meanwhile; this device comes back by itself.`,
  },
  changing: { word: 'Changing', tone: 'busy', text: 'Handing over, and joining again with what you lend now.', buttons: ['pause', 'leave'] },
  pausing: { word: 'Pausing', tone: 'busy', text: 'Handing over to the others what is kept here.', buttons: ['resume-soon', 'leave'] },
  paused: { word: 'Paused', tone: 'off', text: 'This device has handed over its share. Resume joins again where the run is by then.', buttons: ['resume', 'leave'] },
  leaving: { word: 'Leaving', tone: 'busy', text: 'Handing over to the others what is kept here.', buttons: ['leave-soon'] },
  left: {
    word: 'Left', tone: 'off', buttons: ['again'],
    text: (why) => `${whole(why || 'this device has handed over its share and is out of the run')} Thank you. You may close this tab.`,
  },
  refused: {
    word: 'Refused', tone: 'bad', buttons: ['again'],
    text: (why) => `The run does not take this device: ${why || 'it did not say why'}.`,
  },
  done: { word: 'Done', tone: 'good', text: 'The run is complete. Thank you for your part in it.', buttons: [] },
  failed: {
    word: 'Stopped', tone: 'bad', buttons: ['again'],
    text: (why) => `Something went wrong here: ${why || 'the program has ended'}. The others go on without this device.`,
  },
};

/** Whether the device takes part in a state, or tries to. */
export const inRun = (state) => ['loading', 'connecting', 'waiting', 'computing', 'reconnecting', 'changing', 'pausing', 'paused', 'leaving'].includes(state);

/** Whether a device in this state joins again at once with what it is to lend, or once it is resumed. */
export const takesOffers = (state) => inRun(state) && state !== 'pausing' && state !== 'leaving';

/** The sentence of a state. A reason may be a clause or a sentence. */
export function sentence(state, reason = '') {
  const { text } = states[state];
  return typeof text === 'string' ? text : text((state === 'waiting' ? reason : plain(reason)).trim().replace(/\.$/, ''));
}

/** What a peer says, without the commands for a terminal that it advises: a volunteer has none. */
export function plain(text) {
  const command = text.search(/\bshoal (recover|up|join|status)\b/);
  if (command < 0) return text;
  const before = text.slice(0, command);
  const end = Math.max(...['; ', ': ', '? ', '. '].map((mark) => before.lastIndexOf(mark)));
  return end < 0 ? '' : before.slice(0, before[end] === '?' ? end + 1 : end);
}

/** A clause as a sentence of its own. */
const whole = (clause) => `${clause[0].toUpperCase()}${clause.slice(1)}${clause.endsWith('?') ? '' : '.'}`;

const sources = { digits: 'drawn digits', mnist: 'handwritten digits', text: 'text', tokens: 'text', images: 'images' };

/** What is trained, in a sentence. run is that of /run.json, whose model is a list in words, kind first. */
export function whatIsTrained(run) {
  const kind = String(run.model).split(',')[0].replace(/^GPT$/, 'a language model (GPT)').replace(/^(?!an? )/, 'a ');
  return `${kind[0].toUpperCase()}${kind.slice(1)} with ${many(run.parameters)} parameters learns from ${sources[run.data] ?? run.data}, on many devices together.`;
}

/** The rest of what the run file says, for those who want to know. */
export function details(run) {
  return [`Run ${run.id.slice(0, 16)}…`, String(run.model).split(', ').slice(1).join(', '), run.strategy, run.precision].filter(Boolean).join(' · ');
}

/** Why this page is slower than it could be, or "". */
export function whySlower({ secure, isolated, transport }) {
  if (!secure) {
    return 'This address is plain http, so browsers keep shared memory and WebTransport from the page: one core computes, and data goes over WebSocket. It works, but slower; on the daemon’s own machine, http://localhost is faster.';
  }
  if (!isolated) {
    return 'The server did not isolate this page, so the browser keeps shared memory from it: one core computes.';
  }
  if (!transport) return 'This browser has no WebTransport: data goes over WebSocket, which is somewhat slower.';
  return '';
}

/** The peers of a run in words: 2 daemons, 1 tab. */
export function whoIsThere(members) {
  const tabs = members.filter((m) => m.kind === 'browser').length;
  const daemons = members.length - tabs;
  return [daemons && plural(daemons, 'daemon'), tabs && plural(tabs, 'tab')].filter(Boolean).join(', ') || 'nobody';
}

/** What joining would use with an even share: memory, what is fetched at first, and parameters that are kept here. */
export function needs(joining) {
  return [joining.memory_bytes, joining.download_bytes, joining.parameters_bytes].map(bytes);
}
