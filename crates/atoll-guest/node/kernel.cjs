// The JavaScript context: one cell after the other from the control socket (descriptor 3), run by V8's own console
// mode, which keeps `let` and `const` between cells and knows top-level await. Output goes to descriptors 1 and 2 like
// that of any program. A cell cannot be interrupted from inside: whoever interrupts it ends the process, and a fresh
// context follows.
'use strict';
const inspector = require('node:inspector');
const net = require('node:net');
const util = require('node:util');
const vm = require('node:vm');

const session = new inspector.Session();
session.connect();
const control = new net.Socket({ fd: 3, readable: true, writable: true });
const shown = [];
const RECEIVE = Symbol.for('atoll.receive');

globalThis.require = require('node:module').createRequire(process.cwd() + '/');
globalThis.display = (value) => void shown.push(bundle(value));
for (const name of ['require', 'display']) Object.defineProperty(globalThis, name, { enumerable: false });
for (const late of ['uncaughtException', 'unhandledRejection']) {
  process.on(late, (error) => process.stderr.write(`${util.inspect(error)}\n`));
}

// ---- talk

let rest = Buffer.alloc(0);
let queue = Promise.resolve();
control.on('data', (bytes) => {
  rest = Buffer.concat([rest, bytes]);
  while (rest.length >= 4 && rest.length >= 4 + rest.readUInt32LE(0)) {
    const end = 4 + rest.readUInt32LE(0);
    const message = JSON.parse(rest.subarray(4, end).toString('utf8'));
    rest = rest.subarray(end);
    queue = queue.then(() => take(message));
  }
});
control.on('close', () => process.exit(0));
control.on('error', () => process.exit(0));

function say(message) {
  const body = Buffer.from(JSON.stringify(message), 'utf8');
  const head = Buffer.alloc(4);
  head.writeUInt32LE(body.length, 0);
  control.write(Buffer.concat([head, body]));
}

async function take(message) {
  if (message.type === 'warm') return say({ type: 'warmed' });
  if (message.type !== 'run') return;
  const restore = setEnvironment(message.env);
  const done = await run(message.code);
  restore();
  const result = (data, main) => say({ type: 'result', id: message.id, main, data, chart: null });
  shown.splice(0).forEach((data) => result(data, false));
  if (done.error) say({ type: 'error', id: message.id, ...done.error });
  else if (done.value !== undefined) result(bundle(done.value), true);
  say({ type: 'done', id: message.id, exit_code: null });
}

function setEnvironment(wanted) {
  const before = Object.keys(wanted).map((name) => [name, process.env[name]]);
  Object.assign(process.env, wanted);
  return () => {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  };
}

// ---- run

async function run(code) {
  let answer;
  const answered = new Promise((resolve) => (answer = resolve));
  evaluate(code, answer);
  return judge(await answered);
}

function evaluate(expression, resolve) {
  const how = { expression, replMode: true, awaitPromise: true, objectGroup: 'cell' };
  session.post('Runtime.evaluate', how, (failed, answer) => resolve(failed ? { failed } : answer));
}

function judge(answer) {
  if (answer.failed) return { error: { name: 'Error', value: String(answer.failed.message), traceback: [] } };
  const { exceptionDetails: details, result } = answer;
  if (details) return { error: describe(details.exception ? real(details.exception) : details.text) };
  return { value: real(result) };
}

// The value itself: the inspector only names it.
function real(named) {
  if (named.type === 'undefined') return undefined;
  if (!named.objectId) return 'value' in named ? named.value : vm.runInThisContext(`(${named.unserializableValue})`);
  let value;
  globalThis[RECEIVE] = (one) => void (value = one);
  session.post('Runtime.callFunctionOn', {
    functionDeclaration: "function () { globalThis[Symbol.for('atoll.receive')](this); }",
    objectId: named.objectId,
  });
  session.post('Runtime.releaseObjectGroup', { objectGroup: 'cell' });
  delete globalThis[RECEIVE];
  return value;
}

function describe(error) {
  if (!util.types.isNativeError(error)) return { name: 'Error', value: util.inspect(error), traceback: [] };
  const lines = String(error.stack ?? error).split('\n');
  const traceback = lines.filter((line) => !/^\s+at .*(node:|kernel\.cjs|\[eval\]|evalmachine)/.test(line));
  return { name: error.name, value: error.message, traceback };
}

// ---- show

function bundle(value) {
  if (isBundle(value)) return { ...value };
  const text = typeof value === 'string' ? `'${value}'` : util.inspect(value, { depth: 4 });
  const data = { 'text/plain': text };
  const json = isPlain(value) ? toJson(value) : undefined;
  if (json !== undefined) data['application/json'] = json;
  return data;
}

// Forms by media type, as `display({'text/html': '<b>x</b>'})` gives them.
function isBundle(value) {
  if (!isPlain(value) || Array.isArray(value)) return false;
  const keys = Object.keys(value);
  return keys.length > 0 && keys.every((key) => /^[a-z]+\/[\w.+-]+$/.test(key));
}

function isPlain(value) {
  if (Array.isArray(value)) return true;
  if (value === null || typeof value !== 'object') return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function toJson(value) {
  try {
    const text = JSON.stringify(value);
    return text !== undefined && text.length < 1 << 20 ? JSON.parse(text) : undefined;
  } catch {
    // A value that refers to itself has no JSON; its text is enough.
    return undefined;
  }
}

say({ type: 'ready' });
