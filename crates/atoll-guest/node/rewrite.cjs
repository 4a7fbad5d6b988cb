// Source text made fit for V8's console mode: types go, `import` and `export` become what a script can do, and a name
// that was declared in another way before is declared anew. Lines stay where they are. Words are found by a real
// tokenizer (`vendor/sucrase`), so text in strings, templates, comments and regular expressions is left alone.
'use strict';
const vm = require('node:vm');
const { broken } = require('./errors.cjs');
const { parse, transform, TokenType: tt } = require('./vendor/sucrase/sucrase.min.cjs');

const IMPORT = '__atoll_import__';
const META = '__atoll_meta__';
// Roles that the tokenizer gives to names: declared at the top level, alone or in a pattern.
const DECLARED = new Set([2, 5]);
const OPENS = new Set([tt.braceL, tt.braceBarL, tt.dollarBraceL, tt.bracketL, tt.parenL]);
const KEYWORDS = new Set([tt._let, tt._const, tt._var, tt._class, tt._function]);
const ASSIGNS = new Set([tt.eq, tt.assign, tt.postIncDec]);
const CLOSES = new Set([tt.braceR, tt.braceBarR, tt.bracketR, tt.parenR]);

// ---- types

function withoutTypes(code) {
  refuseNamespaces(code);
  return asObject(code) ?? untyped(code);
}

function untyped(code) {
  const how = { transforms: ['typescript'], disableESTransforms: true, keepUnusedImports: true };
  return transform(code, how).code;
}

// `{a: 1, b: 2}` is an object, unless it can only be a block. The tokenizer alone takes it for a block.
function asObject(code) {
  if (!/^\s*\{[^]*\}\s*$/.test(code)) return undefined;
  try {
    const object = untyped(`(${code}\n)`);
    new vm.Script(object);
    return object;
  } catch {
    return undefined;
  }
}

// The transform would leave them out without a word.
function refuseNamespaces(code) {
  if (!/\b(namespace|module)\b/.test(code)) return;
  const { tokens } = parse(code, false, true, false);
  tokens.forEach((token, at) => {
    const text = code.slice(token.start, token.end);
    const isBlock = tokens[at + 1]?.type === tt.name && tokens[at + 2]?.type === tt.braceL && token.isType;
    if ((text !== 'namespace' && text !== 'module') || !isBlock || tokens[at - 1]?.type === tt._declare) return;
    const refused = new SyntaxError('`namespace` is not supported here; use an object or a module');
    throw Object.assign(refused, placeAt(code, token.start));
  });
}

function placeAt(code, start) {
  const before = code.slice(0, start).split('\n');
  return { loc: { line: before.length, column: before.at(-1).length + 1 } };
}

// What the tokenizer refuses, as data.
function describe(error, { source, number }) {
  const { line = 1, column = 1 } = error.loc ?? {};
  const value = String(error.message).replace(/^Error transforming [^:]*: /, '').replace(/ \(\d+:\d+\)$/, '');
  const shown = [source.split('\n')[line - 1] ?? '', `${' '.repeat(Math.max(0, column - 1))}^`];
  return broken(value, `cell_${number}.js:${line}`, shown);
}

// ---- modules

// `isChecked`: a name that the module does not have is an error. In TypeScript it may be a type.
function withoutModules(code, isChecked) {
  const { tokens } = parse(code, false, false, false);
  const text = (at) => code.slice(tokens[at].start, tokens[at].end);
  const edits = [];
  const put = (from, to, words) => edits.push({ start: tokens[from].start, end: tokens[to].end, words });
  tokens.forEach(({ type }, at) => {
    if (type === tt._import) putImport({ tokens, text, put, isChecked }, at);
    if (type === tt.name && isMeta(tokens, text, at)) put(at, at + 2, META);
    if (type === tt._export) putExport({ tokens, text, put }, at);
  });
  return applied(code, edits);
}

function putImport(cell, at) {
  const { tokens, text, put } = cell;
  const next = tokens[at + 1].type;
  if (next === tt.parenL) return put(at, at, IMPORT);
  const from = sourceAt(tokens, at + 1);
  const last = attributesEnd(tokens, text, from);
  const attributes = last > from ? `, {with: ${slice(cell, from + 2, last)}}` : ', undefined';
  const { fallback, whole, names } = bindings(cell, at + 1, from);
  const wanted = cell.isChecked ? [...names.map(([name]) => name), ...(fallback ? ['default'] : [])] : [];
  const call = `await ${IMPORT}(${text(from)}${attributes}, ${JSON.stringify(wanted)})`;
  put(at, last, declaration(call, fallback, whole, names) + (tokens[last + 1].type === tt.semi ? '' : ';'));
}

function isMeta(tokens, text, at) {
  const isWord = text(at) === 'import' && tokens[at + 1].type === tt.dot && text(at + 2) === 'meta';
  return isWord && tokens[at - 1]?.type !== tt.dot;
}

function declaration(call, fallback, whole, names) {
  const all = [...(fallback ? [['default', fallback]] : []), ...names];
  const pattern = `{${all.map(([name, local]) => `${JSON.stringify(name)}: ${local}`).join(', ')}}`;
  if (whole) return `const ${whole} = ${call}${fallback ? `, ${pattern} = ${whole}` : ''}`;
  return all.length > 0 ? `const ${pattern} = ${call}` : `void ${call}`;
}

// Everything between `import` and its source: `a`, `* as b`, `{c, d as e, "f" as g}`.
function bindings({ tokens, text }, at, end) {
  const found = { fallback: undefined, whole: undefined, names: [] };
  let inBraces = false;
  for (; at < end; at++) {
    const { type } = tokens[at];
    if (type === tt.braceL) inBraces = true;
    else if (type === tt.braceR) inBraces = false;
    else if (type === tt.comma || (!inBraces && text(at) === 'from' && at === end - 1)) continue;
    else if (type === tt.star) found.whole = text((at += 2));
    else if (!inBraces) found.fallback = text(at);
    else if (text(at + 1) === 'as' && at + 2 < end) found.names.push([plain(text(at)), text((at += 2))]);
    else found.names.push([text(at), text(at)]);
  }
  return found;
}

function plain(word) {
  return /^['"]/.test(word) ? word.slice(1, -1) : word;
}

function sourceAt(tokens, at) {
  let braces = 0;
  for (; at < tokens.length; at++) {
    if (tokens[at].type === tt.braceL) braces++;
    if (tokens[at].type === tt.braceR) braces--;
    if (tokens[at].type === tt.string && braces === 0) return at;
  }
  throw new SyntaxError('import has no module specifier');
}

function attributesEnd(tokens, text, from) {
  const word = tokens[from + 1]?.type === tt.eof ? '' : text(from + 1);
  const isThere = (word === 'with' || word === 'assert') && tokens[from + 2]?.type === tt.braceL;
  return isThere ? closing(tokens, from + 2) : from;
}

function slice({ tokens, text }, first, last) {
  return tokens.slice(first, last + 1).map((_, at) => text(first + at)).join(' ');
}

// A cell has nobody to export to: what is declared stays declared.
function putExport(cell, at) {
  const { tokens, text, put } = cell;
  const { type } = tokens[at + 1];
  if (type === tt._default) {
    const word = text(at + 2) === 'async' ? at + 3 : at + 2;
    const isNamed = ['function', 'class'].includes(text(word)) && [tt.name, tt.star].includes(tokens[word + 1].type);
    return put(at, at + 1, isNamed ? '' : '0,');
  }
  if (type !== tt.braceL && type !== tt.star) return put(at, at, '');
  const end = type === tt.braceL ? closing(tokens, at + 1) : at + 1;
  const isFrom = type === tt.star || text(end + 1) === 'from';
  const last = isFrom ? sourceAt(tokens, end + 1) : end;
  put(at, last, isFrom ? `void await ${IMPORT}(${text(last)})` : '');
}

// ---- names

// A later cell may declare a name anew, but V8 takes no `let` for a `const`. So the constants of a cell are variables,
// except one that the cell itself assigns: that error is the user's.
function withoutConstants(code) {
  const { tokens } = parse(code, false, false, false);
  const text = (at) => code.slice(tokens[at].start, tokens[at].end);
  const assigned = new Set(tokens.flatMap((token, at) => (isAssigned(tokens, at) ? [text(at)] : [])));
  const kept = new Set();
  let word = -1;
  tokens.forEach((token, at) => {
    if (KEYWORDS.has(token.type)) word = at;
    else if (DECLARED.has(token.identifierRole) && assigned.has(text(at))) kept.add(word);
  });
  const isLoose = (token, at) => token.type === tt._const && token.scopeDepth === 0 && !kept.has(at);
  const edits = tokens.filter(isLoose).map(({ start, end }) => ({ start, end, words: 'let  ' }));
  return applied(code, edits);
}

function isAssigned(tokens, at) {
  const { type, identifierRole } = tokens[at];
  if (type !== tt.name || DECLARED.has(identifierRole) || tokens[at - 1]?.type === tt.dot) return false;
  return ASSIGNS.has(tokens[at + 1].type) || tokens[at - 1]?.type === tt.preIncDec;
}

// `clash.lexical`: the name is there by `let`, `const` or `class`; otherwise by `var` or `function`.
function declaredAnew(code, { name, lexical, fixed }) {
  const { tokens } = parse(code, false, false, false);
  const text = (at) => code.slice(tokens[at].start, tokens[at].end);
  const at = tokens.findIndex((token, at) => DECLARED.has(token.identifierRole) && text(at) === name);
  let word = at;
  while (word >= 0 && !KEYWORDS.has(tokens[word].type)) word--;
  if (word < 0 || !(lexical || fixed)) return undefined;
  const { start, end } = tokens[word];
  const wanted = lexical ? { const: 'let', var: 'let', function: 'let' } : { let: 'var', const: 'var', class: 'var' };
  const keyword = wanted[text(word)];
  if (!keyword) return undefined;
  if (!['class', 'function'].includes(text(word))) return applied(code, [{ start, end, words: keyword }]);
  const first = text(word - 1 < 0 ? word : word - 1) === 'async' ? tokens[word - 1].start : start;
  const last = tokens[closing(tokens, bodyAt(tokens, word))].end;
  const before = { start: first, end: first, words: `${keyword} ${name} = ` };
  return applied(code, [before, { start: last, end: last, words: ';' }]);
}

// Where the body of a function or class begins: the first brace outside of parentheses.
function bodyAt(tokens, at) {
  while (tokens[at].type !== tt.braceL) at = tokens[at].type === tt.parenL ? closing(tokens, at) + 1 : at + 1;
  return at;
}

function closing(tokens, at) {
  let depth = 0;
  for (; at < tokens.length; at++) {
    if (OPENS.has(tokens[at].type)) depth++;
    if (CLOSES.has(tokens[at].type) && --depth === 0) return at;
  }
  throw new SyntaxError('missing closing bracket');
}

// Lines that a replaced piece had are kept.
function applied(code, edits) {
  let out = '';
  let at = 0;
  for (const { start, end, words } of edits) {
    const breaks = code.slice(start, end).split('\n').length - 1;
    out += code.slice(at, start) + words + '\n'.repeat(breaks);
    at = end;
  }
  return out + code.slice(at);
}

module.exports = { declaredAnew, describe, withoutConstants, withoutModules, withoutTypes };
