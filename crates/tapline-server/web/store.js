// All sessions, kept current. It lives as long as the page, so that going back to the list shows it at once.

/** @import { Row, SessionsPage } from './types' */
import { Stream, get } from './api.js';
import { framed } from './dom.js';
import { noteRights } from './rights.js';

/** How many rows one request asks for. */
const PAGE = 500;
/** Older sessions than this many are found by the search of the server. */
const MOST = 20_000;

export class Store {
  constructor() {
    /** @type {Map<string, Row>} */
    this.rows = new Map();
    /** @type {string | null} why there is nothing to show */
    this.error = null;
    this.loaded = false;
    /** @type {Set<() => void>} */
    this.watchers = new Set();
    this.changed = framed(() => this.watchers.forEach((watcher) => watcher()));
    /** @type {Stream | null} */
    this.stream = null;
    this.last = '';
    /** @type {{ path: string, y: number, selected: string | null }} where the reader was in the list */
    this.place = { path: '/', y: 0, selected: null };
    /** Which reading of the list counts: a newer one ends an older one. */
    this.round = 0;
    /** @type {import('./types').Budget[]} what was known of budgets last, so that the list is back at once as it was left */
    this.budgets = [];
    /** Whether runs may be controlled from here, as far as it is known. */
    this.control = false;
    /** @type {Set<string>} rows that came by the stream and not by a page */
    this.fresh = new Set();
  }

  /** Begins to follow the list, after the last event that was seen. */
  open() {
    if (this.stream) return;
    if (this.last === '') this.load();
    else this.follow(this.last);
  }

  /** A browser opens few connections to one host: the list is not followed while another view has a stream of its own. */
  close() {
    if (this.stream) this.last = this.stream.last;
    this.stream?.close();
    this.stream = null;
    this.round++;
  }

  async load() {
    const round = ++this.round;
    /** @type {Set<string>} */
    const seen = new Set();
    let after = '';
    try {
      do {
        /** @type {SessionsPage} */
        const page = await get(`/api/v1/sessions?limit=${PAGE}${after && `&after=${encodeURIComponent(after)}`}`);
        if (round !== this.round) return;
        this.control = noteRights(page);
        for (const row of page.sessions) {
          seen.add(row.id);
          this.rows.set(row.id, row);
        }
        // What happens while the other pages are read arrives by the stream.
        if (after === '') this.follow(String(page.event_id));
        after = page.next ?? '';
        this.error = null;
        this.loaded = true;
        this.changed();
      } while (after !== '' && seen.size < MOST);
      for (const id of this.rows.keys()) if (!seen.has(id) && !this.fresh.has(id)) this.rows.delete(id);
    } catch (error) {
      if (round !== this.round) return;
      this.error = error instanceof Error ? error.message : String(error);
      this.last = '';
    }
    this.changed();
  }

  /** @param {string} after */
  follow(after) {
    this.stream?.close();
    this.fresh.clear();
    this.stream = new Stream('/api/v1/events', after, ({ event, data }) => {
      if (event === 'session') this.take(/** @type {Row} */ (data));
      else if (event === 'gone') this.rows.delete(/** @type {{ id: string }} */ (data).id);
      // The server does not know any more what was missed.
      else if (event === 'snapshot') this.load();
      this.changed();
    });
  }

  /** @param {Row} row */
  take(row) {
    this.fresh.add(row.id);
    this.rows.set(row.id, row);
    this.changed();
  }
}
