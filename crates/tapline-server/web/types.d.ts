// What the API gives (docs: /api/v1/openapi.json). Only for the type check; the browser never sees this file.

export type StateKind = 'running' | 'waiting' | 'limited' | 'finished' | 'failed' | 'interrupted' | 'silent' | 'unknown';

export interface State { kind: StateKind; since: string | null; until: string | null; message: string | null }
/** `summary` is a phrase for people; code in it stands between backticks: running `make`. */
export interface Now { tool: string; summary: string; since: string | null }
/** Something that a person is asked, with options or to be answered in words of their own. */
export interface Inquiry { question: string; header: string; options: { label: string; description: string; preview?: string }[]; several: boolean }
/** All that a question asks. */
export interface QuestionText { tool: string; input: Record<string, unknown>; options: Inquiry[] }
/**
 * `summary` is the beginning of what is asked: Bash `make deploy`. An answer names id and digest, so that it answers what was shown. `text` is all of it; a
 * large one is asked for. `answered`: how it was answered on a page, until the agent goes on.
 */
export interface Question {
  id: string; digest: string; tool: string; summary: string; since: string | null; size: number; lines: number; has_options: boolean;
  text: QuestionText | null; answered: 'allowed' | 'refused' | 'answered' | null;
}
export interface Tokens { input: number; output: number; cache_read: number; cache_write: number; cache_write_1h?: number; reasoning: number }

/** A session as the list shows it. */
export interface Row {
  id: string; agent: string; title: string; project: string | null; folder: string | null; branch: string | null; model: string | null;
  state: State; now: Now | null; cost_usd: number | null; cost_exact: boolean; tokens: Tokens; context_used: number | null;
  started_at: string | null; updated_at: string | null; source: 'recording' | 'transcript' | 'push'; steps: number;
  questions: Question[]; controllable: boolean;
  /** Whether it takes messages from here now. */
  messages: boolean;
  /** The names of the recordings of its earlier runs, the oldest first. */
  earlier?: string[];
}
/** `control`: whether the server lets runs be controlled from here. `rights`: what this browser may do. */
export interface SessionsPage { sessions: Row[]; next: string | null; event_id: number; control: boolean; rights: string[] }

export interface Turn { n: number; started_at: string | null; duration_ms: number | null; cost_usd: number | null; tokens: Tokens }
export interface SubAgent { id: string; parent: string | null; name: string; state: string; first_step: number | null }
export interface Span { step: number; name: string; start: string; end: string | null; agent: string | null }
/** One session with what the side panel shows. `ending`: the verdict as markup, once the run has ended. */
export interface Session extends Row { turns: Turn[]; agents: SubAgent[]; spans: Span[]; resume: string[]; verdict: unknown; ending: string; control: boolean; rights: string[] }

export interface Step { n: number; kind: string; time: string | null; agent: string | null; html: string }
export interface StepsPage { total: number; steps: Step[]; event_id: number }

export interface Hit { session: string; title: string; step: number | null; time: string | null; snippet: { text: string; hit: boolean }[] }
export interface Found { hits: Hit[] }

/** A row of `tapline stats --json`, as far as the page shows it. */
export interface Sum {
  key: string; input: number; output: number; cache_read: number; cache_write: number; tokens: number; cost_usd: number;
  cost_unknown: number; exact: boolean; requests: number; calls: number; sessions: number;
}
/** `project`: a part of the folder's path; null is everything. */
export interface Budget { project: string | null; limit_usd: number; spent_usd: number; period: string; level: 'fine' | 'near' | 'over'; message: string | null }
/** `today`: the key of the row of this day. */
export interface Costs { today: string; totals: Sum; rows: Sum[]; unknown_models: string[]; budgets: Budget[] }

export type Decision = 'allow' | 'deny';

/** One page of the application. `close` ends its timers, listeners and streams. */
export interface View { close(): void; key?(event: KeyboardEvent): boolean }
