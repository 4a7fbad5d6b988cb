// The control thread: owns the socket to the host (descriptor 3), makes each cell fit for V8's console mode, and stops
// the main thread when the host asks. It runs no code of the user, so it listens however busy that is.
//
// An interrupt has three steps. A main thread that only waits answers the first: it gives the cell up. One that is busy
// is cut off by V8 wherever it is; no `catch` or `finally` sees it. One that waits for a child process gets it ended by
// SIGINT. If nothing helps, the host ends the process.
'use strict';
const inspector = require('node:inspector');
const net = require('node:net');
const { parentPort, workerData } = require('node:worker_threads');

const CUT_OFF_AFTER_MS = 50;
const AGAIN_AFTER_MS = 150;
const CHILDREN_AT_TRY = 3;
const MOST_REWRITES = 50;

const host = new net.Socket({ fd: 3, readable: true, writable: true });
const typed = workerData.language === 'typescript';
const waiting = [];
let cell = null;
let knife = null;
let cuts = 0;
let number = 0;

// ---- the host

let rest = Buffer.alloc(0);
host.on('data', (bytes) => {
  rest = Buffer.concat([rest, bytes]);
  while (rest.length >= 4 && rest.length >= 4 + rest.readUInt32LE(0)) {
    const end = 4 + rest.readUInt32LE(0);
    const body = rest.subarray(4, end).toString('utf8');
    rest = rest.subarray(end);
    hear(JSON.parse(body));
  }
});
// The main thread may never listen again, so this is said to the kernel.
for (const end of ['close', 'error']) host.on(end, () => process.kill(process.pid, 'SIGKILL'));

function tell(message) {
  const body = Buffer.from(JSON.stringify(message), 'utf8');
  const head = Buffer.alloc(4);
  head.writeUInt32LE(body.length, 0);
  host.write(Buffer.concat([head, body]));
}

function hear(message) {
  if (message.type === 'warm') tell({ type: 'warmed' });
  if (message.type === 'interrupt' && cell) stop();
  if (message.type === 'turn') nextTurn();
  if (message.type !== 'run') return;
  waiting.push(message);
  if (!cell) begin();
}

// The host has read what was printed.
function nextTurn() {
  Atomics.add(workerData.turn, 0, 1);
  Atomics.notify(workerData.turn, 0);
}

// ---- the main thread

parentPort.on('message', (message) => {
  const { type } = message;
  if (type === 'up') tell({ type: 'ready' });
  else if (type === 'exit') cutOff();
  else if (type === 'mended') mended(message);
  else if (type === 'idle') agree(message);
  else if (type === 'refused') refused(message);
  else if (type === 'done') done(message);
  else tell(message);
});

function begin() {
  const message = waiting.shift();
  if (!message) return;
  number += 1;
  cell = { message, number, source: message.code, rewrites: 0, tries: 0, wasCut: false, typed, last: null };
  send(() => fit(cell.typed ? rewrite().withoutTypes(message.code) : message.code));
}

// Many cells need no parser.
function fit(code) {
  const plain = /\b(import|export)\b/.test(code) ? rewrite().withoutModules(code, !cell.typed) : code;
  try {
    return /\bconst\b/.test(plain) ? rewrite().withoutConstants(plain) : plain;
  } catch {
    // Broken code: V8 says it best.
    return plain;
  }
}

function rewrite() {
  return require('./rewrite.cjs');
}

function send(make) {
  try {
    cell.code = make();
  } catch (error) {
    return fail(rewrite().describe(error, cell));
  }
  const { message, code, number, source } = cell;
  parentPort.postMessage({ ...message, type: 'run', code, number, source, exact: code.length === source.length });
}

// The code was refused before any of it ran. It may be TypeScript, or declare a name that is there in another way.
function refused({ clash, error }) {
  const before = cell.code;
  const other = cell.rewrites++ < MOST_REWRITES ? otherwise(clash) : undefined;
  if (other === undefined || other === before) return fail(error);
  send(() => other);
}

function otherwise(clash) {
  try {
    if (clash) return rewrite().declaredAnew(cell.code, clash);
    if (cell.typed) return undefined;
    cell.typed = true;
    return fit(rewrite().withoutTypes(cell.source));
  } catch {
    return undefined;
  }
}

function fail(error) {
  done({ type: 'done', id: cell.message.id, error, exit_code: null });
}

// ---- ends

function stop() {
  parentPort.postMessage({ type: 'cancel', id: cell.message.id });
  cell.clock ??= setTimeout(cutOff, CUT_OFF_AFTER_MS);
}

function cutOff() {
  if (cell) {
    cell.wasCut = true;
    cell.tries += 1;
    if (cell.tries >= CHILDREN_AT_TRY) process.kill(0, 'SIGINT');
    clearTimeout(cell.clock);
    cell.clock = setTimeout(cutOff, AGAIN_AFTER_MS);
  }
  terminate();
}

// Nothing is left to do, if that is not because of a cut: that ends the cell in its own way. A cell before this one may
// have come to its end late.
function agree({ id }) {
  if (cell?.message.id === id && !cell.clock) parentPort.postMessage({ type: 'idle', id });
}

// Connected only while it is needed: a process that ends by itself would wait for it, and say so.
function terminate() {
  if (!knife) {
    knife = new inspector.Session();
    knife.connectToMainThread();
  }
  cuts += 1;
  knife.post('Runtime.terminateExecution', wasTerminated);
}

function wasTerminated() {
  cuts -= 1;
  if (!cell) return sheathe();
  parentPort.postMessage({ type: 'cancel', id: cell.message.id });
  if (cell.last) askToMend();
}

function sheathe() {
  knife?.disconnect();
  knife = null;
  cuts = 0;
}

// A main thread that was cut off must prove that it listens again before the host sends the next cell. It may have told
// its end before.
function done({ error, ...message }) {
  if (cell.last) return;
  clearTimeout(cell.clock);
  if (error) tell({ ...error, type: 'error', id: cell.message.id });
  cell.last = message;
  if (!cell.wasCut) return finish();
  askToMend();
}

// A cut that finds the main thread idle waits for the next code that runs there. That must not be the next cell, so only
// the answer to a question counts that was asked when no cut was under way.
function askToMend() {
  parentPort.postMessage({ type: 'mend', isWhole: cuts === 0 });
  clearTimeout(cell.clock);
  cell.clock = setTimeout(askToMend, AGAIN_AFTER_MS);
}

function mended({ isWhole }) {
  if (isWhole && cuts === 0 && cell?.last) finish();
}

function finish() {
  clearTimeout(cell.clock);
  sheathe();
  tell(cell.last);
  cell = null;
  begin();
}
