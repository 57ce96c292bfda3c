// What this browser may do, as the server says: what its token may, or all.

/** @import { Row } from './types' */

let may = false;

/** Notes what the server says. Returns whether runs may be controlled from here. @param {{ control: boolean, rights: string[] }} said */
export function noteRights({ control, rights }) {
  may = rights.includes('control');
  return control && may;
}

/** Whether a run takes what this browser says. @param {Row} row */
export function takesControl(row) {
  return row.controllable && may;
}

/** Says where to answer instead. @param {Row} row */
export function answerElsewhere(row) {
  return row.controllable ? 'Your token may only look. Answer it where this session runs, or open a link that “tapline serve link” prints.' : 'Answer it where this session runs.';
}
