// One execution: evaluates the code, tells results, at most one error, and the end. It ends once, whoever ends it: the
// code itself, an interrupt, or `process.exit`.
'use strict';
const inspector = require('node:inspector');
const util = require('node:util');
const v8 = require('node:v8');
const vm = require('node:vm');
const errors = require('./errors.cjs');
const show = require('./show.cjs');

const RECEIVE = Symbol.for('atoll.receive');
const DECLARED = /^SyntaxError: Identifier '(.+)' has already been declared/;
let session = connected();
let old = null;

class Cell {
  constructor(message, kernel) {
    Object.assign(this, { message, ...kernel, over: false, cut: false, isImpatient: false, exitCode: undefined });
    this.isLeaving = false;
    this.timers = new Set();
    this.restore = setEnvironment(message.env);
  }

  async run() {
    const answer = await this.evaluate(asExpression(this.message.code));
    if (this.over) return;
    try {
      if (answer.failed) return this.stop();
      if (answer.exceptionDetails) return this.fail(answer.exceptionDetails);
      const value = real(answer.result);
      // So that `main()` as the last line is waited for.
      await this.show(util.types.isPromise(value) ? await value : value);
      if (this.message.once) await this.finish();
      this.end();
    } catch (thrown) {
      this.end(errors.describe(thrown));
    }
  }

  // V8 answers when the code has ended, or when its promise is collected: nothing can end it then. Node 22 and later die of
  // that answer, because it comes in the middle of the collection. So the promise, the first one that the code makes, is
  // held as long as the session waits for it.
  evaluate(code) {
    const expression = `${code}\n//# sourceURL=cell_${this.message.number}.js`;
    const how = { expression, replMode: true, awaitPromise: true, objectGroup: 'cell' };
    let resolve;
    const answered = new Promise((one) => (resolve = one));
    const release = v8.promiseHooks.onInit((promise) => {
      release();
      this.held = promise;
    });
    session.post('Runtime.evaluate', how, (failed, answer) => resolve(failed ? { failed } : answer));
    release();
    return answered;
  }

  // A name that an earlier cell has declared in another way: the control thread knows how to say it anew.
  fail(details) {
    const thrown = details.exception ? real(details.exception) : details.text;
    if (errors.isOfCompiler(thrown, this.message.number)) {
      const name = DECLARED.exec(details.exception.description)?.[1];
      const clash = name === undefined ? undefined : { name, ...kindOf(name) };
      const error = errors.ofCompiler(thrown, details, this.message);
      return this.leave({ type: 'refused', id: this.message.id, clash, error });
    }
    this.end(errors.describe(thrown));
  }

  // Nothing follows in this context: as a script, it ends when nothing is left to do, or with an error that nobody catches.
  finish() {
    this.isLeaving = true;
    return this.idle(this.message.id);
  }

  async show(value) {
    if (value !== undefined && !this.over) this.result(await show.forms(value), true);
  }

  result(data, main) {
    if (this.over) return;
    const message = { type: 'result', id: this.message.id, main, data, chart: null };
    const size = JSON.stringify(message).length;
    if (size <= this.message.most_bytes) return this.say(message);
    this.say({ type: 'dropped', id: this.message.id, bytes: size });
    const text = data['text/plain'];
    if (typeof text !== 'string') return;
    this.say({ ...message, data: { 'text/plain': show.headOf(text, this.message.most_bytes) } });
  }

  cancel(id) {
    if (this.message.id !== id || this.over) return;
    this.stop();
  }

  // Cut off: by `process.exit`, or by an interrupt.
  stop() {
    this.cut = true;
    reconnect();
    this.timers.forEach((timer) => (timer.refresh ? clearTimeout(timer) : clearImmediate(timer)));
    const code = this.exitCode;
    if (code === undefined) return this.end({ name: 'KeyboardInterrupt', value: '', traceback: ['KeyboardInterrupt'] });
    const error = { name: 'SystemExit', value: String(code), traceback: [`SystemExit: ${code}`] };
    this.end(code === 0 ? undefined : error, code);
  }

  end(error = null, exitCode = null) {
    if (!this.over) this.leave({ type: 'done', id: this.message.id, error, exit_code: exitCode });
  }

  // An interrupt may cut this off as well, and then asks again: so it is one message, and what follows it may be lost.
  leave(message) {
    this.restore();
    this.say(message);
    this.over = true;
    this.ended();
  }
}

function connected() {
  const fresh = new inspector.Session();
  fresh.connect();
  return fresh;
}

// What the old session still waits for is given up. This may be cut off anywhere, and then it is done again.
function reconnect() {
  old ??= session;
  session = connected();
  old.disconnect();
  old = null;
}

// `{a: 1}` is an object, unless it can only be a block.
function asExpression(code) {
  if (!/^\s*\{[^]*\}\s*$/.test(code)) return code;
  try {
    new vm.Script(`(${code}\n)`);
    return `(${code}\n)`;
  } catch {
    return code;
  }
}

// The value itself: the inspector only names it.
function real(named) {
  if (named.type === 'undefined') return undefined;
  if (!named.objectId) return 'value' in named ? named.value : vm.runInThisContext(`(${named.unserializableValue})`);
  let value;
  Object.defineProperty(globalThis, RECEIVE, { value: (one) => void (value = one), configurable: true });
  session.post('Runtime.callFunctionOn', {
    functionDeclaration: "function (value) { globalThis[Symbol.for('atoll.receive')](value); }",
    objectId: named.objectId,
    arguments: [{ objectId: named.objectId }],
  });
  session.post('Runtime.releaseObjectGroup', { objectGroup: 'cell' });
  delete globalThis[RECEIVE];
  return value;
}

// How a name is there already: as `let`, `const` or `class`, or as `var` or `function`.
function kindOf(name) {
  let lexical = false;
  session.post('Runtime.globalLexicalScopeNames', {}, (_, answer) => (lexical = answer?.names.includes(name)));
  return { lexical, fixed: Object.getOwnPropertyDescriptor(globalThis, name)?.configurable === false };
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

module.exports = { Cell };
