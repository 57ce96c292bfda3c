// The API: requests that say what went wrong, and streams that go on where they stopped.

/** @import { Costs } from './types' */

/** The API said no. The message is meant for people. */
export class Refused extends Error {
  /**
   * @param {number} status
   * @param {string} message
   */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const UNREACHABLE = 'The server does not answer. Is “tapline serve” still running?';
const SIGNED_OUT = 'This page is not signed in. Open the link that “tapline serve link” prints, or sign in with a token.';
const WRONG_TOKEN = 'The token is wrong. A line of the file has its rights first, and then the token: paste only the token.';

/** @type {() => void} */
let signedOut = () => {};

/** Tells when the server wants to know who asks. @param {() => void} told */
export function onSignedOut(told) {
  signedOut = told;
}

/** @param {Response} response */
async function refusal(response) {
  if (response.status === 401) {
    signedOut();
    return new Refused(401, SIGNED_OUT);
  }
  let message = `The server answered ${response.status}. Try again in a moment.`;
  try {
    message = (await response.json()).error.message ?? message;
  } catch {
    // Not an answer of the API: the number has to do.
  }
  return new Refused(response.status, message);
}

/**
 * @param {string} path
 * @param {RequestInit} [options]
 */
async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, { credentials: 'same-origin', ...options });
  } catch (error) {
    if (options?.signal?.aborted) throw error;
    throw new Refused(0, UNREACHABLE);
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

/**
 * @template T
 * @param {string} path
 * @param {AbortSignal} [signal]
 * @returns {Promise<T>}
 */
export async function get(path, signal) {
  return (await ask(path, { signal, headers: { Accept: 'application/json' } })).json();
}

/**
 * @param {string} path
 * @param {unknown} body
 */
export async function post(path, body) {
  await ask(path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
}

/**
 * What it all costs, by days of the reader. A server that does not know that time zone counts its own days.
 * @param {string} query
 * @param {AbortSignal} signal
 * @returns {Promise<Costs>}
 */
export async function costsOf(query, signal) {
  const path = `/api/v1/costs?${query}`, zone = Intl.DateTimeFormat().resolvedOptions().timeZone ?? '';
  try {
    return await get(`${path}&tz=${encodeURIComponent(zone)}`, signal);
  } catch (error) {
    if (error instanceof Refused && error.status === 400) return get(path, signal);
    throw error;
  }
}

/** Gets the cookie for a token. @param {string} token */
export async function signIn(token) {
  // A header holds no other characters, and neither does a token.
  if (!/^[!-~]+$/.test(token)) throw new Refused(401, WRONG_TOKEN);
  const response = await fetch('/api/v1/sign-in', { method: 'POST', credentials: 'same-origin', headers: { Authorization: `Bearer ${token}` } }).catch(() => null);
  if (!response) throw new Refused(0, UNREACHABLE);
  if (response.status === 401) throw new Refused(401, WRONG_TOKEN);
  if (!response.ok) throw await refusal(response);
}

/** @param {string} id */
export function sessionPath(id) {
  return `/api/v1/sessions/${encodeURIComponent(id)}`;
}

/** Where the page shows a session. @param {string} id @param {number | null} [step] */
export function sessionLink(id, step) {
  return `/sessions/${encodeURIComponent(id)}${step === null || step === undefined ? '' : `#step-${step}`}`;
}

/**
 * @param {string} id
 * @param {'html' | 'markdown' | 'jsonl'} format
 * @param {string} [run] an earlier run
 */
export function downloadLink(id, format, run) {
  return `${sessionPath(id)}/download?format=${format}${run ? `&run=${encodeURIComponent(run)}` : ''}`;
}

/** @typedef {{ event: string, data: unknown, id: string }} Message */

/**
 * The events of a stream, as its bytes arrive.
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<Message>}
 */
async function* messages(body) {
  const reader = body.pipeThrough(/** @type {ReadableWritablePair<string, Uint8Array>} */ (new TextDecoderStream())).getReader();
  let rest = '', event = '', data = '', id = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    // A line may end in CR LF, and the chunk between the two: a lone CR waits for the next chunk.
    const lines = (rest + value).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line === '') {
        if (data !== '') yield { event: event || 'message', data: JSON.parse(data), id };
        event = data = '';
        continue;
      }
      const colon = line.indexOf(':');
      const [field, text] = colon < 0 ? [line, ''] : [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, '')];
      if (field === 'event') event = text;
      else if (field === 'data') data += data === '' ? text : '\n' + text;
      else if (field === 'id') id = text;
    }
  }
}

const SHORTEST = 500, LONGEST = 10_000;

/** @type {Set<(lost: string | null) => void>} */
const watchers = new Set();
/** @type {Map<object, string>} what each broken stream says */
const broken = new Map();

/**
 * Tells how the streams are: null, or one sentence about what is lost.
 * @param {(lost: string | null) => void} watcher
 */
export function onConnection(watcher) {
  watchers.add(watcher);
}

/**
 * @param {object} stream
 * @param {string | null} message
 */
function report(stream, message) {
  if (message === null) broken.delete(stream);
  else broken.set(stream, message);
  const [first] = broken.values();
  for (const watcher of watchers) watcher(first ?? null);
}

/** A promise that is kept after a while, or at once when the computer is online again. @param {number} ms @param {AbortSignal} signal */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const go = () => {
      clearTimeout(timer);
      removeEventListener('online', go);
      signal.removeEventListener('abort', go);
      resolve(undefined);
    };
    const timer = setTimeout(go, ms);
    addEventListener('online', go);
    signal.addEventListener('abort', go);
  });
}

/**
 * Follows a stream of events until `close`. When it breaks, it goes on after the last event that was seen. This is not `EventSource`, because
 * that cannot say where to begin.
 */
export class Stream {
  /**
   * @param {string} path
   * @param {string | number} after the last event that is known already
   * @param {(message: Message) => void} on
   */
  constructor(path, after, on) {
    this.path = path;
    this.last = String(after);
    this.on = on;
    this.ending = new AbortController();
    this.follow();
  }

  async follow() {
    const { signal } = this.ending;
    let wait = SHORTEST;
    while (!signal.aborted) {
      try {
        const response = await ask(this.path, { signal, headers: { Accept: 'text/event-stream', 'Last-Event-ID': this.last }, cache: 'no-store' });
        report(this, null);
        wait = SHORTEST;
        if (response.body) {
          for await (const message of messages(response.body)) {
            if (signal.aborted) return;
            if (message.id !== '') this.last = message.id;
            this.tell(message);
          }
        }
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Refused && (error.status === 401 || error.status === 404)) {
          report(this, error.message);
          if (error.status === 401) return;
        }
      }
      if (signal.aborted) return;
      if (!broken.has(this)) report(this, 'Connection lost. Trying again …');
      await pause(wait, signal);
      wait = Math.min(wait * 2, LONGEST);
    }
  }

  /** A fault of the page must not look like a lost connection. @param {Message} message */
  tell(message) {
    try {
      this.on(message);
    } catch (error) {
      reportError(error);
    }
  }

  close() {
    this.ending.abort();
    report(this, null);
  }
}
