// One session: the conversation as it happens, what it asks, and what can be done about it.

/** @import { Row, Session, Step, View } from './types' */
/** @import { Store } from './store.js' */
import { Refused, Stream, get, post, sessionPath } from './api.js';
import { Conversation } from './conversation.js';
import { copy, h, put, update, visible } from './dom.js';
import { exactTime, isLive, resumeCommand, stateWord, titleOf, when, whereabouts, whole } from './format.js';
import { drawPanel, panelLine } from './panel.js';
import { answerKey, showQuestion } from './question.js';
import { noteRights, takesControl } from './rights.js';
import { nowOf } from './row.js';

/** How often the panel's numbers are read again while things happen. */
const PANEL_EVERY = 2000;
/** How often a tab that nobody sees asks how its session stands. */
const UNSEEN_EVERY = 5000;

/** @implements {View} */
export class SessionView {
  /**
   * @param {HTMLElement} main
   * @param {Store} store
   * @param {string} id
   * @param {(path: string) => void} go
   */
  constructor(main, store, id, go) {
    this.id = id;
    this.go = go;
    this.main = main;
    this.store = store;
    this.closed = false;
    /** @type {Session | null} */
    this.session = null;
    /** @type {Stream | null} */
    this.stream = null;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.pausing = undefined;
    /** @type {ReturnType<typeof setInterval> | undefined} */
    this.looking = undefined;
    this.drawn = false;
    // One stream for each tab: a browser opens few connections to one host.
    store.close();
    this.talk = new Conversation(id, {
      started: () => this.session?.started_at ?? null,
      depth: (agent) => this.depth(agent),
      changed: () => this.drawNewest(),
      failed: (message) => this.readingFailed(message),
    });
    this.head = h('header', { class: 'session-head' });
    this.newest = h('button', { type: 'button', class: 'newest', hidden: true, onclick: () => this.talk.newest() });
    this.asked = h('div', { class: 'asked' });
    this.problem = h('p', { class: 'problem', role: 'alert', hidden: true });
    this.foot = h('div', { class: 'foot' }, this.problem, this.asked);
    this.panel = h('aside', { class: 'panel', 'aria-label': 'About this session', id: 'panel' });
    this.more = h('button', { type: 'button', class: 'more', 'aria-expanded': 'false', 'aria-controls': 'panel', onclick: () => this.unfold() });
    this.root = h('div', { class: 'session-view' }, this.head,
      h('div', { class: 'talk' }, this.talk.node, h('div', { class: 'newest-place', role: 'status' }, this.newest), this.foot), this.more, this.panel);
    put(main, this.root);
    this.ending = new AbortController();
    addEventListener('hashchange', () => this.toHash(), { signal: this.ending.signal });
    document.addEventListener('visibilitychange', () => this.seen(), { signal: this.ending.signal });
    this.open();
  }

  close() {
    this.closed = true;
    this.ending.abort();
    this.stream?.close();
    this.talk.close();
    clearTimeout(this.pausing);
    clearInterval(this.looking);
  }

  async open() {
    try {
      await this.readSession();
      if (this.closed || !this.session) return;
      const step = stepOf(location.hash);
      const after = await this.talk.open(step ?? (isLive(this.session) ? 'end' : 0), this.session.steps);
      if (!this.closed) this.follow(after);
    } catch (error) {
      if (error instanceof Refused && error.status === 404) this.absent();
      else this.fail(error instanceof Error ? error.message : String(error));
    }
  }

  /** Says that there is no such session: the link is old, or was cut. */
  absent() {
    if (this.closed) return;
    document.title = 'No such session · tapline';
    put(this.main, h('div', { class: 'absent', role: 'alert' }, h('h1', null, 'There is no such session'),
      h('p', null, 'No session here has the id ', h('code', null, visible(this.id)), '. Its files may have been deleted, or the link is incomplete.'),
      h('p', null, h('a', { href: '/' }, 'All sessions'))));
  }

  async readSession() {
    /** @type {Session} */
    const session = await get(sessionPath(this.id), this.ending.signal);
    if (this.closed) return;
    this.session = session;
    this.store.control = noteRights(session);
    this.draw(session);
    this.talk.end(session.ending);
    drawPanel(this.panel, session, (step) => this.jump(step));
  }

  /** @param {string | number} after */
  follow(after) {
    this.stream = new Stream(`${sessionPath(this.id)}/events`, after, ({ event, data }) => {
      if (event === 'step') this.talk.take(/** @type {Step} */ (data));
      else if (event === 'row') this.takeRow(/** @type {Row} */ (data));
      else if (event === 'snapshot') this.talk.reload(/** @type {{ total: number }} */ (data).total);
      if (event !== 'row') this.panelLater();
    });
  }

  /** A tab that nobody sees keeps no connection: a browser has few for one host, and every tab would take one. */
  seen() {
    if (!this.stream) return;
    clearInterval(this.looking);
    if (document.hidden) {
      this.stream.close();
      // Its title still says whether somebody is needed.
      this.looking = setInterval(() => this.readSession().catch(() => { /* It asks again. */ }), UNSEEN_EVERY);
    } else if (this.stream.ending.signal.aborted) this.follow(this.stream.last);
  }

  /** @param {Row} row */
  takeRow(row) {
    if (!this.session) return;
    this.session = { ...this.session, ...row };
    this.draw(this.session);
    this.panelLater();
  }

  panelLater() {
    this.pausing ??= setTimeout(() => {
      this.pausing = undefined;
      this.readSession().catch(() => { /* The stream says it if the server is gone. */ });
    }, PANEL_EVERY);
  }

  /** @param {string} agent */
  depth(agent) {
    let depth = 0;
    /** @type {string | null} */
    let at = agent;
    const agents = this.session?.agents ?? [];
    while (at !== null && depth < 4) {
      const found = agents.find((one) => one.id === at);
      depth++;
      at = found?.parent ?? null;
    }
    return depth;
  }

  /** @param {Session} session */
  draw(session) {
    document.title = `${session.questions.length > 0 ? `(${session.questions.length}) ` : ''}${titleOf(session)} · tapline`;
    const now = isLive(session) ? nowOf(session) : [];
    update(this.head,
      h('a', { class: 'back', href: '/', 'aria-label': 'Back to all sessions' }, '←'),
      h('div', { class: 'session-title' },
        h('h1', { title: titleOf(session) }, titleOf(session)),
        h('p', { class: 'sub' }, stateWord(session), h('span', null, whereabouts(session)),
          session.started_at && h('span', { class: 'started', title: exactTime(session.started_at) }, `started ${when(session.started_at)}`),
          session.questions.length === 0 && h('span', { class: 'session-now' }, ...now))),
      // A chat goes on after its turn; only a turn can be interrupted.
      takesControl(session) && h('div', { class: 'session-actions' },
        isLive(session) && h('button', { type: 'button', onclick: () => this.act('interrupt') }, 'Interrupt'),
        h('button', { type: 'button', class: 'danger', onclick: () => this.confirmStop() }, 'Stop')));
    update(this.more, panelLine(session));
    this.drawAsked(session);
    this.drawComposer(session);
    this.drawn = true;
  }

  /** @param {Session} session */
  drawAsked(session) {
    showQuestion(this.asked, session, true);
  }

  /** @param {Session} session */
  drawComposer(session) {
    const wanted = takesControl(session) && session.messages;
    // It stands below the buttons of a question, which do not move while it is open.
    if (wanted === Boolean(this.composer) || (this.drawn && session.questions.length > 0)) return;
    this.composer?.remove();
    this.composer = undefined;
    if (!wanted) return;
    const text = h('textarea', { rows: 1, placeholder: 'Message to the agent', 'aria-label': 'Message to the agent' });
    const send = async () => {
      const said = text.value.trim();
      if (said === '') return;
      if (await this.act('message', { text: said })) text.value = '';
    };
    text.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        send();
      } else if (event.key === 'Escape') this.talk.node.focus();
    });
    this.composer = h('form', { class: 'composer', onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); send(); } },
      text, h('button', { type: 'submit' }, 'Send'));
    this.foot.append(this.composer);
  }

  /** @param {string} what @param {unknown} [body] */
  async act(what, body = {}) {
    try {
      await post(`${sessionPath(this.id)}/${what}`, body);
      this.problem.hidden = true;
      return true;
    } catch (error) {
      this.fail(error instanceof Error ? error.message : String(error));
      return false;
    }
  }

  confirmStop() {
    /** @type {HTMLDialogElement} */
    const dialog = h('dialog', { class: 'dialog', 'aria-labelledby': 'stop-title', onclose: () => dialog.remove() },
      h('form', { method: 'dialog' },
        h('h2', { id: 'stop-title' }, 'Stop this session?'),
        h('p', null, 'The agent and everything it started end. What it did so far stays.'),
        h('div', { class: 'ask-buttons' },
          h('button', { class: 'main', onclick: () => this.act('stop') }, 'Stop it'), h('button', { autofocus: true }, 'Let it run'))));
    document.body.append(dialog);
    dialog.showModal();
  }

  /** Reading works again by itself; then there is nothing to say any more. @param {string | null} message */
  readingFailed(message) {
    if (message !== null) this.fail(message);
    else if (this.unread) this.problem.hidden = true;
    this.unread = message !== null;
  }

  /** @param {string} message */
  fail(message) {
    if (this.closed) return;
    update(this.problem, message);
    this.problem.hidden = false;
  }

  drawNewest() {
    const { follow, unseen } = this.talk;
    this.newest.hidden = follow || (unseen === 0 && !(this.session && isLive(this.session)));
    update(this.newest, unseen > 0 ? `${whole(unseen)} new ↓` : 'Newest ↓');
  }

  toHash() {
    const step = stepOf(location.hash);
    if (step !== null) this.talk.goTo(step);
  }

  /** @param {number} step */
  jump(step) {
    if (location.hash === `#step-${step}`) this.talk.goTo(step);
    else location.hash = `step-${step}`;
  }

  unfold() {
    const open = this.root.classList.toggle('unfolded');
    this.more.setAttribute('aria-expanded', String(open));
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const { key } = event;
    if (key === 'j') this.talk.move(1);
    else if (key === 'k') this.talk.move(-1);
    else if (key === 'g') this.talk.goTo(0);
    else if (key === 'G') this.talk.newest();
    else if (key === 'm' && this.composer) this.composer.querySelector('textarea')?.focus();
    else if (key === 'c' && this.session?.resume.length) this.copyResume();
    else if (key === 'Enter' && document.activeElement?.classList.contains('step')) this.toggle(document.activeElement);
    else if (key === 'Escape') this.go('/');
    else return answerKey(key, this.session ?? undefined, this.asked);
    return true;
  }

  copyResume() {
    const button = /** @type {HTMLButtonElement | null} */ (this.panel.querySelector('.copy'));
    if (button && this.session) copy(button, resumeCommand(this.session));
  }

  /** Opens or closes the step's card. @param {Element} step */
  toggle(step) {
    const details = step.querySelector('details');
    this.talk.leave();
    if (details) details.open = !details.open;
  }
}

/** The step that a link leads to. @param {string} hash */
function stepOf(hash) {
  const found = /^#step-(\d{1,9})$/.exec(hash);
  return found ? Number(found[1]) : null;
}
