// Reads a file on the visitor's device: the certificate number, the credentials and the proofs in a PDF, or a credential as JSON.
// verify.js loads it when a file is chosen.

// A hostile file may have thousands of streams, each of which unpacks to a thousand times its size.
const MOST_STREAMS = 300;
const MOST_UNPACKED = 256 * 1024;
// A credential is larger if the certificate has hundreds of retirements.
const LARGEST_CREDENTIAL = 8 * 1024 * 1024;
const NUMBER = /(?<![0-9A-Za-z])(?:TEST-)?(?:[0-9A-HJKMNP-TV-Z]{4}-){3}[0-9A-HJKMNP-TV-Z]{4}(?![0-9A-Za-z-])/;

const text = (bytes) => new TextDecoder("latin1").decode(bytes);
const numberIn = (found) => (found.match(NUMBER) || found.replaceAll("\0", "").match(NUMBER) || [""])[0];
const isObject = (bytes) => text(bytes.subarray(0, 100)).trimStart().startsWith("{");

const unpack = async (bytes) => {
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate")).getReader();
  const parts = [];
  let size = 0;
  try {
    while (size < (parts.length && isObject(parts[0]) ? LARGEST_CREDENTIAL : MOST_UNPACKED)) {
      const { done, value } = await reader.read();
      if (done) break;
      parts.push(value);
      size += value.length;
    }
    await reader.cancel();
  } catch {
    // The stream is not compressed, or its end is not known. What came before the error is kept.
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
};

// Where the data of a stream ends: its length if the file states it, or the line before "endstream".
const endOf = (whole, keyword, from) => {
  const length = /\/Length (\d+)(?! \d+ R)/.exec(whole.slice(whole.lastIndexOf("obj", keyword), keyword));
  const stated = from + Number(length?.[1]);
  if (/^\s*endstream/.test(whole.slice(stated, stated + 12))) return stated;
  const end = whole.indexOf("endstream", from);
  return end < 0 ? whole.length : end - whole.slice(end - 2, end).match(/\r?\n?$/)[0].length;
};

const addOnce = (list, found) => {
  if (!list.includes(found)) list.push(found);
};

// Reads the certificate number, the credentials and the proofs of a PDF.
const readPdf = async (bytes) => {
  const whole = text(bytes);
  const found = { number: numberIn(whole), isSigned: /\/ByteRange\s*\[/.test(whole), credentials: [], proofs: [] };
  if (!window.DecompressionStream) return found;
  let streams = 0;
  for (const start of whole.matchAll(/(?<!end)stream\r?\n/g)) {
    streams += 1;
    if (streams > MOST_STREAMS) break;
    const from = start.index + start[0].length;
    const data = bytes.subarray(from, Math.min(endOf(whole, start.index, from), from + LARGEST_CREDENTIAL));
    const unpacked = await unpack(data);
    const content = unpacked.length ? unpacked : data;
    found.number ||= numberIn(text(content.subarray(0, MOST_UNPACKED)));
    if (isObject(content)) {
      const json = new TextDecoder().decode(content);
      if (json.includes('"VerifiableCredential"')) addOnce(found.credentials, json);
    } else if (text(content.subarray(0, 22)) === "c2sp.org/tlog-proof@v1") {
      addOnce(found.proofs, new TextDecoder().decode(content));
    }
  }
  return found;
};

const numberOf = (json) => {
  try {
    return numberIn(String(JSON.parse(json).credentialSubject.number));
  } catch {
    return "";
  }
};

/** What a PDF or a credential contains, or null for other files. */
export const readFile = async (bytes) => {
  if (text(bytes.subarray(0, 1024)).includes("%PDF-")) {
    const found = await readPdf(bytes);
    const [only, ...others] = found.credentials;
    return { isPdf: true, ...found, credentialNumber: only && !others.length ? numberOf(only) : "" };
  }
  const json = isObject(bytes) ? new TextDecoder().decode(bytes) : "";
  const credentialNumber = numberOf(json);
  return credentialNumber ? { isPdf: false, isSigned: false, credentials: [json], proofs: [], credentialNumber } : null;
};
