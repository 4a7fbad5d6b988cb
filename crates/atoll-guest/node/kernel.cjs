// The JavaScript context, main thread: the user's code runs here and nothing else does. Cells come from the control
// thread (`control.cjs`), which owns the socket and can stop a loop that never ends. V8's own console mode runs them: it
// keeps `let`, `const` and `class` between cells and knows top-level await. Output goes to descriptors 1 and 2 like that
// of any program.
'use strict';
const path = require('node:path');
const { clearImmediate, setImmediate } = require('node:timers');
const { Worker } = require('node:worker_threads');
const { Cell } = require('./cell.cjs');
const errors = require('./errors.cjs');
const world = require('./world.cjs');

// A group of processes gets SIGINT when the code waits for one of its children.
process.on('SIGINT', () => {});
const hardExit = process.exit.bind(process);
const turn = new Int32Array(new SharedArrayBuffer(4));
const workerData = { language: process.argv[2], turn };
const control = new Worker(path.join(__dirname, 'control.cjs'), { workerData });
process.argv = [process.execPath];
const say = (message) => control.postMessage(message);
const state = { cell: null, say, turn };
let agreed = () => {};
const mending = { answer: null, throws: null };
world.furnish(state);
for (const late of ['uncaughtException', 'unhandledRejection']) {
  process.on(late, (thrown) => {
    const error = errors.describe(thrown);
    if (state.cell?.isLeaving) state.cell.end(error);
    else process.stderr.write(`Uncaught ${error.traceback.join('\n')}\n`);
  });
}

control.on('message', (message) => {
  if (message.type === 'run') run(message);
  if (message.type === 'cancel') state.cell?.cancel(message.id);
  if (message.type === 'idle') agreed(message.id);
  if (message.type === 'mend') mend({ ...message, type: 'mended' });
});
control.on('error', (error) => {
  process.stderr.write(`the control thread failed: ${error?.stack}\n`);
  hardExit(70);
});
control.on('exit', () => hardExit(0));

function run(message) {
  state.cell = new Cell(message, { say, idle, ended: () => (state.cell = null) });
  state.cell.run();
}

// Resolves when nothing is left to do: no timer, no request, no server. Node tells it when it would end. The control thread
// agrees, unless it has just cut off what was the last thing to do.
function idle(id) {
  return new Promise((resolve) => {
    agreed = (whose) => whose === id && resolve();
    process.once('beforeExit', () => {
      control.ref();
      say({ type: 'idle', id });
    });
    control.unref();
  });
}

// Code that was cut off in the middle of a callback leaves Node's stack of callbacks in disorder. An error that nobody
// catches makes Node clear it. The answer proves that this thread listens again. This function may be cut off as well.
function mend(answer) {
  world.renewOutputs();
  const isCaught = process.hasUncaughtExceptionCaptureCallback();
  if (isCaught && !mending.answer) return say(answer);
  mending.answer = answer;
  if (!isCaught) process.setUncaughtExceptionCaptureCallback(mended);
  clearImmediate(mending.throws);
  mending.throws = setImmediate(() => {
    throw new Error('mend');
  });
}

function mended() {
  process.setUncaughtExceptionCaptureCallback(null);
  say(mending.answer);
  mending.answer = null;
}

say({ type: 'up' });
