"use strict";
// Runs the script of a report page, as a browser would, and prints what the page then shows. The second argument takes
// something away: `webcrypto` or `ed25519`.

const fs = require("node:fs");
const vm = require("node:vm");
const { webcrypto } = require("node:crypto");

const [, , file, lacks] = process.argv;
const page = fs.readFileSync(file, "utf8");
const inside = (id) => page.match(new RegExp(`<script type="[a-z/]+" id="${id}">([^<]*)</script>`))[1];
const script = page.match(/<script>([^]*)<\/script>/)[1];

class Element {
  textContent = "";
  children = [];
  append(...children) {
    this.children.push(...children);
  }
}

const withoutEd25519 = {
  digest: (...args) => webcrypto.subtle.digest(...args),
  importKey: async () => {
    throw Object.assign(new Error("unknown algorithm"), { name: "NotSupportedError" });
  },
};

async function shown(texts) {
  const ids = ["verdict", "key", "question", "entries", "denials", "proof", "signature"];
  const elements = Object.fromEntries(ids.map((id) => [id, new Element()]));
  for (const [id, text] of Object.entries(texts)) elements[id].textContent = text;
  const document = { getElementById: (id) => elements[id], createElement: () => new Element() };
  const world = { TextEncoder, document };
  if (lacks === "ed25519") world.crypto = { subtle: withoutEd25519 };
  else if (lacks !== "webcrypto") world.crypto = webcrypto;
  vm.runInNewContext(script, world);
  await world.shown;
  const rows = elements.entries.children.map(({ children }) => children.map(({ textContent }) => textContent));
  return { kind: elements.verdict.className, verdict: elements.verdict.textContent, rows };
}

const flipped = (text, at) => text.slice(0, at) + String.fromCharCode(text.charCodeAt(at) ^ 1) + text.slice(at + 1);

/* Places in the data that can be changed without notice. */
async function unnoticed(texts) {
  const found = [];
  for (const [id, text] of Object.entries(texts)) {
    for (let at = 0; at < text.length; at += 23) {
      const { kind, rows } = await shown({ ...texts, [id]: flipped(text, at) });
      if (kind !== "bad" || rows.length > 0) found.push(`${id} ${at}`);
    }
  }
  return found;
}

async function main() {
  const texts = { proof: inside("proof"), signature: inside("signature") };
  console.log(JSON.stringify({ ...await shown(texts), unnoticed: lacks ? [] : await unnoticed(texts) }));
}

main();
