// Checks the proofs of a certificate on the visitor's device: the signature of its credential, and its entry in the
// public log. It follows the rules of the Python package tonne_verify. verify.js loads it when a file is chosen.

/** Why something is not proven. The page has a text for each code. */
export class NotProven extends Error {}

const require = (condition, code) => {
  if (!condition) throw new NotProven(code);
};

// Bytes and encodings

const utf8 = (text) => new TextEncoder().encode(text);

const join = (...parts) => {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
};

const isSame = (one, other) => one.length === other.length && one.every((byte, at) => byte === other[at]);

export const sha256 = async (...parts) => new Uint8Array(await crypto.subtle.digest("SHA-256", join(...parts)));

export const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

const fromHex = (text) => {
  require(typeof text === "string" && /^(?:[0-9a-f]{2})*$/.test(text), "malformed");
  return Uint8Array.from(text.match(/../g) || [], (digits) => parseInt(digits, 16));
};

const fromBase64 = (text) => {
  require(/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(text), "malformed");
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
};

const BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/** Multibase with the prefix z: base58 with the alphabet of Bitcoin. */
const fromMultibase = (text) => {
  require(typeof text === "string" && /^z[1-9A-HJ-NP-Za-km-z]{1,200}$/.test(text), "malformed");
  const bytes = [];
  let number = 0n;
  for (const letter of text.slice(1)) number = number * 58n + BigInt(BASE58.indexOf(letter));
  for (; number > 0n; number >>= 8n) bytes.unshift(Number(number & 255n));
  const zeros = text.slice(1).match(/^1*/)[0].length;
  return Uint8Array.from([...new Array(zeros).fill(0), ...bytes]);
};

/** RFC 8785 for strings, integers, true, false, null, lists and objects. Fractions are refused. */
export const canonicalJson = (value) => {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "number") {
    require(Number.isSafeInteger(value), "malformed");
    return String(value);
  }
  if (typeof value === "string") {
    require(!/[\uD800-\uDFFF]/u.test(value), "malformed");
    return JSON.stringify(value);
  }
  require(typeof value === "object", "malformed");
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  // sort() compares UTF-16 code units, as RFC 8785 demands.
  const members = Object.keys(value).sort();
  return `{${members.map((name) => `${canonicalJson(name)}:${canonicalJson(value[name])}`).join(",")}}`;
};

/** Reads JSON, and refuses an object with a key twice: readers would disagree about its value. */
export const readJson = (text) => {
  const value = JSON.parse(text);
  const open = [];
  for (const [token, key] of text.matchAll(/[{}[\]]|("(?:[^"\\]|\\.)*")\s*:|"(?:[^"\\]|\\.)*"/g)) {
    if (token === "{" || token === "[") open.push(new Set());
    else if (token === "}" || token === "]") open.pop();
    else if (key) {
      const name = JSON.parse(key);
      require(!open.at(-1).has(name), "malformed");
      open.at(-1).add(name);
    }
  }
  return value;
};

const isEqual = (one, other) => canonicalJson(one) === canonicalJson(other);

// Ed25519

/** Whether this browser can verify Ed25519 signatures. */
export const canVerify = async () => {
  try {
    // The public key of the first test of RFC 8032.
    await importKey(fromHex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"));
    return true;
  } catch {
    return false;
  }
};

const importKey = (key) => crypto.subtle.importKey("raw", key, { name: "Ed25519" }, false, ["verify"]);

const isSigned = async (key, signature, message) => {
  require(key.length === 32 && signature.length === 64, "malformed");
  return crypto.subtle.verify({ name: "Ed25519" }, await importKey(key), signature, message);
};

// Credentials: W3C Verifiable Credentials 2.0, secured with eddsa-jcs-2022

/** The public key of a Multikey (z6Mk…). */
const multikey = (text) => {
  const bytes = fromMultibase(text);
  require(bytes.length === 34 && bytes[0] === 0xed && bytes[1] === 0x01, "malformed");
  return bytes.slice(2);
};

/** Checks the signature with the keys of the issuer. Returns the key's entry in the issuer file. */
export const checkCredential = async (credential, issuer) => {
  const { proof, ...document } = credential;
  require(proof && !Array.isArray(proof), "credential_unsigned");
  require(proof.type === "DataIntegrityProof" && proof.cryptosuite === "eddsa-jcs-2022", "credential_unsigned");
  require(proof.proofPurpose === "assertionMethod", "credential_unsigned");
  require((document.issuer?.id ?? document.issuer) === issuer.issuer, "other_issuer");
  const key = issuer.credential_keys.find((each) => each.id === proof.verificationMethod);
  require(key, "unknown_key");
  const created = Date.parse(proof.created);
  require(!Number.isNaN(created), "malformed");
  require(!key.from || created >= Date.parse(key.from), "key_ended");
  require(!key.until || created <= Date.parse(key.until), "key_ended");
  require(!key.revoked_from || created < Date.parse(key.revoked_from), "key_ended");
  const { proofValue, ...options } = proof;
  const context = document["@context"] ?? null;
  require(isEqual(options["@context"] ?? context, context), "credential_changed");
  const message = join(await sha256(utf8(canonicalJson(options))), await sha256(utf8(canonicalJson(document))));
  const isGenuine = await isSigned(multikey(key.public_key_multibase), fromMultibase(proofValue), message);
  require(isGenuine, "credential_changed");
  return key;
};

// The log: c2sp.org/signed-note, tlog-checkpoint, tlog-cosignature, tlog-proof, RFC 6962

const ED25519 = 0x01;
const COSIGNATURE = 0x04;

/** `name+id+base64(type, public key)`. */
const parseVerifierKey = async (vkey) => {
  const [, name, id, encoded] = /^([^\s+]+)\+([0-9a-f]{8})\+(.+)$/.exec(vkey) || [];
  require(name, "malformed");
  const bytes = fromBase64(encoded);
  const expected = hex((await sha256(utf8(`${name}\n`), bytes)).subarray(0, 4));
  require(bytes.length === 33 && id === expected, "malformed");
  return { name, id, type: bytes[0], key: bytes.slice(1) };
};

/** Splits a signed note into its text and its signatures. */
const parseNote = (note) => {
  // eslint-disable-next-line no-control-regex
  require(!/[\x00-\x09\x0b-\x1f]/.test(note), "malformed");
  const end = note.lastIndexOf("\n\n");
  require(end >= 0 && note.endsWith("\n"), "malformed");
  const lines = note.slice(end + 2, -1).split("\n");
  require(lines.length <= 100, "malformed");
  const signatures = lines.map((line) => {
    const [, name, encoded] = /^\u2014 ([^\s+]+) (\S+)$/.exec(line) || [];
    require(name, "malformed");
    const bytes = fromBase64(encoded);
    require(bytes.length > 4, "malformed");
    return { name, id: hex(bytes.subarray(0, 4)), signature: bytes.slice(4) };
  });
  return { text: note.slice(0, end + 1), signatures };
};

/** The signatures of a note by these keys. One that is wrong makes the whole note unacceptable. */
const verifiedSignatures = async (note, vkeys) => {
  const verified = [];
  for (const vkey of vkeys) {
    const key = await parseVerifierKey(vkey);
    for (const { name, id, signature } of note.signatures) {
      if (name !== key.name || id !== key.id) continue;
      let message = note.text;
      let raw = signature;
      let time = null;
      if (key.type === COSIGNATURE) {
        require(signature.length === 72, "checkpoint_changed");
        time = new DataView(signature.buffer, signature.byteOffset).getBigUint64(0);
        message = `cosignature/v1\ntime ${time}\n${note.text}`;
        raw = signature.subarray(8);
      } else require(key.type === ED25519 && signature.length === 64, "checkpoint_changed");
      require(await isSigned(key.key, raw, utf8(message)), "checkpoint_changed");
      verified.push({ name, time: time === null ? null : Number(time) });
    }
  }
  return verified;
};

const wholeNumber = (text) => {
  require(/^(?:0|[1-9][0-9]{0,15})$/.test(text), "malformed");
  return Number(text);
};

/** A checkpoint, and the log of the issuer file that it is of, once the log's signature is verified. */
export const openCheckpoint = async (note, issuer) => {
  const parsed = parseNote(note);
  const [origin, size, root, ...extensions] = parsed.text.slice(0, -1).split("\n");
  require(origin && root && extensions.every(Boolean), "malformed");
  const checkpoint = { origin, size: wholeNumber(size), root: fromBase64(root) };
  require(checkpoint.root.length === 32, "malformed");
  const log = issuer.logs.find((each) => each.origin === origin);
  require(log, "other_log");
  const signatures = await verifiedSignatures(parsed, log.keys);
  // The key of a closed log may have leaked since: the issuer file states its last checkpoint.
  require(signatures.length > 0 || log.final === parsed.text, "checkpoint_changed");
  const witnesses = await verifiedSignatures(parsed, log.witnesses || []);
  return { ...checkpoint, log, isSigned: signatures.length > 0, witnesses: [...new Set(witnesses.map((each) => each.name))] };
};

export const parseProof = (text) => {
  const end = text.indexOf("\n\n");
  require(text.startsWith("c2sp.org/tlog-proof@v1\n") && end > 0, "malformed");
  const lines = text.slice(0, end).split("\n").slice(1);
  const extra = lines[0]?.startsWith("extra ") ? fromBase64(lines.shift().slice(6)) : null;
  const first = lines.shift() || "";
  require(first.startsWith("index "), "malformed");
  const hashes = lines.map(fromBase64);
  require(hashes.length <= 64 && hashes.every((each) => each.length === 32), "malformed");
  return { index: wholeNumber(first.slice(6)), hashes, extra, checkpoint: text.slice(end + 2) };
};

const LEAF = Uint8Array.of(0);
const NODE = Uint8Array.of(1);

/** Recomputes the root from a leaf and its path (RFC 9162, section 2.1.3.2, for the trees of RFC 6962). */
export const checkInclusion = async (leaf, index, size, hashes, root) => {
  require(index < size, "not_in_log");
  let [node, last, found] = [BigInt(index), BigInt(size - 1), leaf];
  for (const hash of hashes) {
    require(last > 0n, "not_in_log");
    if (node & 1n || node === last) {
      found = await sha256(NODE, hash, found);
      while (!(node & 1n) && node > 0n) {
        node >>= 1n;
        last >>= 1n;
      }
    } else found = await sha256(NODE, found, hash);
    node >>= 1n;
    last >>= 1n;
  }
  require(last === 0n && isSame(found, root), "not_in_log");
};

const STATEMENT_KEYS = ["at", "facts", "format", "kind", "mode", "names", "subject"];
const ISSUED = "certificate.issued";
const RETIREMENT = "retirement";
const KINDS = [ISSUED, RETIREMENT, "certificate.replaced", "certificate.withdrawn"];

/** Checks the names of an opening against its statement. Returns the hash of its leaf in the log. */
export const leafOfOpening = async ({ statement, salt, names = null, names_salt: namesSalt = null }) => {
  require(statement && isEqual(Object.keys(statement).sort(), STATEMENT_KEYS), "malformed");
  require(statement.format === "tonne-statement/1" && KINDS.includes(statement.kind), "malformed");
  // A person's names can be erased: they and their salt are then null, and the other facts still verify.
  if (names !== null) {
    require(namesSalt !== null && statement.names !== null, "names_changed");
    const found = await sha256(fromHex(namesSalt), utf8(canonicalJson(names)));
    require(hex(found) === statement.names, "names_changed");
  }
  const secret = fromHex(salt);
  require(secret.length === 32, "malformed");
  return sha256(LEAF, await sha256(secret, utf8(canonicalJson(statement))));
};

/** Checks one entry of `evidence`: its opening is in the log, under a checkpoint that the issuer has signed. */
export const checkEvidence = async (evidence, issuer) => {
  const leaf = await leafOfOpening(evidence);
  const proof = parseProof(evidence.proof);
  const checkpoint = await openCheckpoint(proof.checkpoint, issuer);
  require(checkpoint.log.mode === evidence.statement.mode, "other_log");
  await checkInclusion(leaf, proof.index, checkpoint.size, proof.hashes, checkpoint.root);
  return { index: proof.index, ...checkpoint };
};

// What the page shows

const HOLDS = "holds";
const FAILS = "fails";
const UNCHECKED = "unchecked";
// The statement has these in `names`, or not at all.
const NOT_FACTS = ["beneficiary", "reason", "assigned_to", "registry_name", "name_erased_on", "logo", "supplied_on"];

const ERASED = "erased";

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** Whether two values state the same, apart from names. A missing member is null. */
const saysTheSame = (one, other) => {
  if (Array.isArray(one) && Array.isArray(other)) {
    return one.length === other.length && one.every((each, at) => saysTheSame(each, other[at]));
  }
  if (!isObject(one) || !isObject(other)) return isEqual(one, other);
  const keys = Object.keys({ ...one, ...other }).filter((key) => !NOT_FACTS.includes(key));
  return keys.every((key) => saysTheSame(one[key] ?? null, other[key] ?? null));
};

/** The names that a certificate states, as a statement has them. */
const namesOf = (said) => ({
  beneficiary: said.beneficiary,
  reason: said.replaces?.reason ?? null,
  lines: said.lines.map((each) => ({
    registry_name: each.registry_name ?? null,
    assigned_to: each.in_advance?.assigned_to ?? null,
  })),
});

const line = (check, verdict, text, values = {}) => ({ check, verdict, text, values });

/** Runs a check. What it throws is the reason why the check fails. */
const attempt = async (check, holds) => {
  try {
    return await holds();
  } catch (error) {
    return line(check, FAILS, error instanceof NotProven ? error.message : "malformed");
  }
};

const checkFacts = async (credential, evidence) => {
  for (const each of evidence) await leafOfOpening(each);
  const issued = evidence.filter(({ statement }) => statement.kind === ISSUED);
  require(issued.length === 1, "facts_differ");
  const [{ statement, names }] = issued;
  const said = {
    ...credential.credentialSubject,
    issued_at: credential.validFrom,
    issuer: credential.issuer.name,
    verification_url: credential.id,
  };
  require(statement.subject === said.number && statement.mode === said.mode, "facts_differ");
  require(saysTheSame(said, statement.facts) && statement.names !== null, "facts_differ");
  if (!names) {
    const { beneficiary, lines } = namesOf(said);
    const stated = [beneficiary, ...lines.map((each) => each.assigned_to)];
    const isErased = stated.every((name) => [null, undefined, ERASED].includes(name));
    return line("facts", isErased ? HOLDS : UNCHECKED, isErased ? "facts_without_names" : "names_left_out");
  }
  require(isEqual(namesOf(said), names), "facts_differ");
  return line("facts", HOLDS, "facts_same");
};

/** Tonnes with up to six decimals, as a whole number of grams. */
const grams = (tonnes) => {
  const [, whole, part = ""] = /^([0-9]{1,15})(?:\.([0-9]{1,6}))?$/.exec(tonnes) || [];
  require(whole, "retirements_missing");
  return BigInt(whole + part.padEnd(6, "0"));
};

/** The lines add up, and the log has a retirement of each that covers it. */
const checkRetirements = (said, evidence) => {
  const same = ["registry", "project_id", "vintage", "serial_range", "retired_on", "retirement_url"];
  const keyOf = (facts) => canonicalJson(same.map((name) => facts[name] ?? null));
  const left = new Map();
  for (const { statement } of evidence) {
    if (statement.kind === RETIREMENT) left.set(keyOf(statement.facts), grams(statement.facts.quantity));
  }
  let total = 0n;
  for (const each of said.lines) {
    const remains = (left.get(keyOf(each)) ?? -1n) - grams(each.quantity);
    require(remains >= 0n, "retirements_missing");
    left.set(keyOf(each), remains);
    total += grams(each.quantity);
  }
  require(said.lines.length > 0 && total === grams(said.total_quantity), "retirements_missing");
  return line("retirements", HOLDS, "retirements_logged");
};

const checkHeads = async (proofs, issuer) => {
  const heads = [];
  for (const proof of proofs) heads.push(await openCheckpoint(parseProof(proof).checkpoint, issuer));
  const [{ size, witnesses }] = heads;
  const reason = heads.every(({ isSigned }) => isSigned) ? "checkpoint_signed" : "checkpoint_final";
  return line("checkpoint", HOLDS, reason, { size, witnesses: witnesses.length });
};

const checkEntries = async (evidence, attached, issuer) => {
  const issued = evidence.find(({ statement }) => statement.kind === ISSUED);
  const all = [...evidence, ...attached.map((proof) => ({ ...issued, proof }))];
  const found = [];
  for (const each of all) found.push(await checkEvidence(each, issuer));
  const { index, log } = found[all.indexOf(issued)];
  const text = log.mode === "test" ? "log_included_test" : "log_included";
  return line("log", HOLDS, text, { position: index, origin: log.origin });
};

// What the page says: which checks belong to each of its lines. A check that holds shows its text.
const LINES = [
  ["signed", ["file", "pdf", "credential"]],
  ["logged", ["log", "facts", "checkpoint", "retirements"]],
];
// `retirements` does not count serial numbers as tonne-verify does, so that it can only refuse.
const SILENT = ["retirements"];

const verdictOf = (lines) => {
  if (lines.some(({ verdict }) => verdict === FAILS)) return FAILS;
  return lines.length > 0 && lines.every(({ verdict }) => verdict === HOLDS) ? HOLDS : UNCHECKED;
};

/**
 * Signed, logged and cosigned: a line for each, with its verdict and the codes of the texts that explain it.
 * A browser does not know which witnesses its user trusts, so the last one never holds.
 */
export const summarise = (lines) => {
  const [signed, logged] = LINES.map(([check, names]) => {
    const own = lines.filter((each) => names.includes(each.check));
    const texts = own.filter((each) => each.verdict !== HOLDS || !SILENT.includes(each.check));
    return { check, verdict: verdictOf(own), texts };
  });
  // What is attached to a changed file says nothing about it.
  if (signed.verdict !== HOLDS && logged.verdict === HOLDS) {
    Object.assign(logged, { verdict: UNCHECKED, texts: [{ text: "not_signed" }] });
  }
  const head = lines.find(({ check, verdict }) => check === "checkpoint" && verdict === HOLDS);
  const text = head ? "witnesses_named" : "no_checkpoint";
  return [signed, logged, { check: "cosigned", verdict: UNCHECKED, texts: [{ text, values: head ? head.values : {} }] }];
};

/**
 * Checks the credential of a file and the proofs that are attached to the file.
 * Returns a line per check: its verdict, and the code of the text that explains it.
 */
export const examine = async (credentials, attached, issuer) => {
  if (credentials.length === 0) return [line("credential", UNCHECKED, "no_credential")];
  if (credentials.length > 1) return [line("credential", FAILS, "several")];
  if (!(await canVerify())) return [line("credential", UNCHECKED, "no_ed25519")];
  let credential;
  const signature = await attempt("credential", async () => {
    credential = readJson(credentials[0]);
    await checkCredential(credential, issuer);
    return line("credential", HOLDS, "credential_genuine");
  });
  const evidence = credential?.evidence;
  if (!Array.isArray(evidence) || evidence.length === 0) return [signature, line("log", UNCHECKED, "no_proof")];
  const facts = await attempt("facts", () => checkFacts(credential, evidence));
  const retirements = await attempt("retirements", () => checkRetirements(credential.credentialSubject, evidence));
  const proofs = [...evidence.map((each) => each?.proof), ...attached];
  const head = await attempt("checkpoint", () => checkHeads(proofs, issuer));
  const entries =
    head.verdict === HOLDS
      ? await attempt("log", () => checkEntries(evidence, attached, issuer))
      : line("log", UNCHECKED, "not_reached");
  return [signature, facts, retirements, entries, head];
};
