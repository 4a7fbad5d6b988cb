// Values as forms by media type: text always, JSON for plain data, and what a value offers by itself. Understood are the
// `Jupyter.display` symbol of Deno and the `_toHtml` family of IJavascript.
'use strict';
const util = require('node:util');

const DISPLAY = Symbol.for('Jupyter.display');
const OFFERS = { _toHtml: 'text/html', _toSvg: 'image/svg+xml', _toPng: 'image/png', _toJpeg: 'image/jpeg' };
const MAX_JSON_CHARS = 1 << 20;
const MAX_JSON_DEPTH = 60;
const MAX_TEXT_CHARS = 64 << 10;
const MIME = /^[a-z]+\/[\w.+-]+$/;

async function forms(value) {
  const offered = await offeredBy(value);
  if (offered) return wire(offered);
  const data = { 'text/plain': typeof value === 'string' ? `'${value}'` : util.inspect(value, { depth: 4 }) };
  const json = isPlain(value) ? toJson(value) : undefined;
  if (json !== undefined) data['application/json'] = json;
  return data;
}

async function offeredBy(value) {
  if (value === null || typeof value !== 'object' || util.types.isProxy(value)) return undefined;
  if (typeof value[DISPLAY] === 'function') return await value[DISPLAY]();
  if (typeof value._toMime === 'function') return await value._toMime();
  const known = Object.entries(OFFERS).filter(([name]) => typeof value[name] === 'function');
  if (known.length === 0) return undefined;
  const data = { 'text/plain': util.inspect(value, { depth: 4 }) };
  for (const [name, mime] of known) data[mime] = await value[name]();
  return data;
}

// Forms by media type, as `display({'text/html': '<b>x</b>'})` gives them.
function isBundle(value) {
  if (!isPlain(value) || Array.isArray(value)) return false;
  const keys = Object.keys(value);
  return keys.length > 0 && keys.every((key) => MIME.test(key));
}

// Bytes travel as base64; what has no JSON is told by its text.
function wire(bundle) {
  const data = {};
  for (const [mime, value] of Object.entries(Object(bundle))) {
    if (value === undefined || value === null) continue;
    if (ArrayBuffer.isView(value)) data[mime] = base64(value);
    else if (typeof value === 'string') data[mime] = value;
    else data[mime] = toJson(value) ?? util.inspect(value, { depth: 4 });
  }
  return data;
}

function base64(view) {
  return Buffer.from(view.buffer, view.byteOffset, view.byteLength).toString('base64');
}

function isPlain(value) {
  if (util.types.isProxy(value)) return false;
  if (Array.isArray(value)) return true;
  if (value === null || typeof value !== 'object') return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function toJson(value) {
  try {
    const text = JSON.stringify(value);
    if (text === undefined || text.length > MAX_JSON_CHARS || depthOf(text) > MAX_JSON_DEPTH) return undefined;
    return JSON.parse(text);
  } catch {
    // A value that refers to itself, or is too deep, has no JSON; its text is enough.
    return undefined;
  }
}

function depthOf(json) {
  let depth = 0;
  let deepest = 0;
  for (const sign of json.replace(/"(?:[^"\\]|\\.)*"/g, '')) {
    if (sign === '{' || sign === '[') deepest = Math.max(deepest, ++depth);
    else if (sign === '}' || sign === ']') depth--;
  }
  return deepest;
}

function headOf(text, most) {
  const kept = Math.min(MAX_TEXT_CHARS, Math.floor(most / 8));
  return text.length <= kept ? text : `${text.slice(0, kept)}... (${text.length - kept} more characters)`;
}

module.exports = { forms, headOf, isBundle, wire };
