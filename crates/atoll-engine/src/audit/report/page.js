
"use strict";

const byId = (id) => document.getElementById(id);
const encoder = new TextEncoder();

const bytesOf = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));

const hexOf = (buffer) => Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");

const digestOf = async (text) => hexOf(await crypto.subtle.digest("SHA-256", encoder.encode(text)));

const join = (texts, separator = "\n") => texts.filter(Boolean).join(separator);

/* `null` where the browser has no Ed25519. */
async function importKey(hex) {
  try {
    return await crypto.subtle.importKey("raw", bytesOf(hex), { name: "Ed25519" }, false, ["verify"]);
  } catch (error) {
    if (error.name === "NotSupportedError") return null;
    throw error;
  }
}

async function checkSignature(key, purpose, hash, signature, what) {
  if (!/^[0-9a-f]{128}$/.test(signature)) throw new Error(`${what} has no valid signature`);
  if (key === null) return;
  const message = new Uint8Array([...encoder.encode(`${purpose}\0`), ...bytesOf(hash)]);
  const isSigned = await crypto.subtle.verify({ name: "Ed25519" }, key, bytesOf(signature), message);
  if (!isSigned) throw new Error(`${what} was not signed with this key`);
}

async function checkRecord(raw, key) {
  if (await digestOf(raw.record) !== raw.hash) throw new Error("the hash of a record does not match its content");
  const record = JSON.parse(raw.record);
  const name = `record ${record.seq}`;
  if (raw.private !== null && await digestOf(`atoll audit private\0${raw.private}`) !== record.private) {
    throw new Error(`the private part of ${name} does not match its digest`);
  }
  const isSigned = !["opened", "closed"].includes(record.body.kind);
  if (isSigned) await checkSignature(key, "atoll audit 1", raw.hash, raw.signature, name);
  if (!isSigned && raw.signature !== null) throw new Error(`${name} has a signature`);
  const data = raw.private === null ? {} : JSON.parse(raw.private).data;
  return { ...record, hash: raw.hash, isSigned, data, isRedacted: record.private !== null && raw.private === null };
}

/* Behind a signed record another run may begin. */
function checkOrder(before, record) {
  if (record.seq === before.seq + 1) {
    if (record.prev !== before.hash) throw new Error(`record ${record.seq} does not continue the hash chain`);
  } else if (!before.isSigned || record.seq < before.seq) {
    throw new Error(`the record behind ${before.seq} is missing`);
  }
}

async function check(text, signature, key) {
  const proof = JSON.parse(text);
  await checkSignature(key, "atoll audit report 1", await digestOf(text), signature, "the report");
  const records = [];
  for (const raw of proof.records) {
    const record = await checkRecord(raw, key);
    if (records.length > 0) checkOrder(records.at(-1), record);
    records.push(record);
  }
  if (!records.at(-1)?.isSigned) throw new Error("the last record is not signed");
  return records;
}

function entriesOf(records, query) {
  const ends = new Map(records.filter(({ body }) => body.kind === "closed").map((record) => [record.body.entry, record]));
  const entries = records.filter(({ body }) => body.kind === "opened").map((opened) => {
    const end = ends.get(opened.seq);
    return { opened, open: opened.body, end, closed: end?.body ?? {} };
  });
  return entries.filter(({ opened, open, closed }) =>
    (query.sandbox === null || (open.sandbox ?? closed.sandbox) === query.sandbox) &&
    (query.api_key === null || query.keys.includes(open.actor.key)) &&
    (query.since === null || opened.time >= query.since) &&
    (query.until === null || opened.time < query.until));
}

function caller({ opened, open }) {
  const { tenant, key } = open.actor;
  const uid = open.uid === undefined ? "" : `uid=${open.uid}`;
  return join([join([tenant, opened.data.key_name ?? key ?? uid], " "), opened.data.address, open.attack && "attack"]);
}

function ran({ opened, open }) {
  const { code, paths = [], command = [] } = opened.data;
  return join([
    join([open.action, open.language], " "),
    command.join(" "),
    ...paths,
    open.port && `port ${open.port}`,
    open.code && `code sha256:${open.code}`,
    code,
    opened.isRedacted && "private fields redacted",
  ]);
}

function allowed({ open, closed }) {
  const findings = (closed.findings ?? []).map(({ rule, line }) => `${rule} (line ${line})`);
  const policy = open.policy ?? closed.policy;
  return join([
    policy && `policy ${policy}`,
    closed.verdict && `verdict ${closed.verdict}`,
    ...findings,
    closed.approver && `approver ${closed.approver}`,
  ]);
}

function isolation({ open, closed }) {
  const layers = Object.keys(closed.facts?.layers ?? {});
  return join([open.tier ?? closed.tier, closed.receipt && `receipt sha256:${closed.receipt}`, layers.join(", ")]);
}

function left({ end, closed }) {
  const names = end?.data.paths ?? [];
  const files = (closed.outputs ?? []).map(({ size, sha256 }, index) =>
    join([names[index], `${size} bytes`, sha256 && `sha256:${sha256}`], " "));
  const { traffic, usage } = closed;
  return join([
    ...files,
    traffic && `${traffic.requests} requests, ${traffic.bytes_in} bytes in, ${traffic.bytes_out} bytes out`,
    usage?.net_out_bytes ? `${usage.net_out_bytes} bytes over the network` : "",
    end?.isRedacted && "private fields redacted",
  ]);
}

function outcome({ end, closed }) {
  return join([closed.outcome ?? "open", closed.reason, end?.data.error, end?.time]);
}

function row(entry) {
  const { opened } = entry;
  const texts = [join([String(opened.seq), opened.time]), caller(entry), ran(entry), allowed(entry), isolation(entry),
    left(entry), outcome(entry)];
  const line = document.createElement("tr");
  for (const text of texts) {
    const cell = document.createElement("td");
    cell.textContent = text;
    line.append(cell);
  }
  return line;
}

function denials(entries) {
  const counts = new Map();
  for (const { closed } of entries) {
    if (!["denied", "approval_denied", "approval_expired"].includes(closed.outcome)) continue;
    const reason = closed.reason ?? "other";
    counts.set(reason, (counts.get(reason) ?? 0) + 1);
  }
  return join([...counts].map(([reason, count]) => `Denied: ${count} ${reason}`));
}

function question({ sandbox, api_key: key, keys, since, until }) {
  return join([
    sandbox && `sandbox ${sandbox}`,
    key && `API key ${key} (${keys.join(", ")})`,
    since && `since ${since}`,
    until && `until ${until}`,
  ], ", ");
}

function tell(kind, text) {
  byId("verdict").className = kind;
  byId("verdict").textContent = text;
}

async function show() {
  const text = byId("proof").textContent;
  const proof = JSON.parse(text);
  const fallback = "Use `atoll audit verify-report`.";
  byId("key").textContent = `Public key: ${proof.key}. Compare it with a copy of key.pub from another place.`;
  byId("question").textContent = `Entries of: ${question(proof.query)}`;
  let records = null;
  if (globalThis.crypto?.subtle === undefined) {
    tell("", `Not verified: this browser has no WebCrypto. ${fallback}`);
    records = proof.records.map(({ record, private: hidden }) => {
      const parsed = JSON.parse(record);
      const data = hidden === null ? {} : JSON.parse(hidden).data;
      return { ...parsed, data, isRedacted: parsed.private !== null && hidden === null };
    });
  } else {
    const key = await importKey(proof.key);
    records = await check(text, byId("signature").textContent, key);
    if (key === null) tell("", `Hashes verified, signatures not: this browser has no Ed25519. ${fallback}`);
    else tell("good", `Verified: ${records.length} records and their signatures, up to record ${records.at(-1).seq}.`);
  }
  const entries = entriesOf(records, proof.query);
  byId("entries").append(...entries.map(row));
  byId("denials").textContent = denials(entries);
}

globalThis.shown = show().catch((error) => tell("bad", `Do not trust this report: ${error.message}.`));
