import { TonneError } from "./errors.ts";
import type { WebhookDelivery, WebhookEvent } from "./models.ts";

const PREFIX = "whsec_";

/** The request is not genuine, or too old. Respond with 401 and do not read its body. */
export class WebhookInvalid extends TonneError {}

export interface VerifyOptions {
  /** How far the time of the signature may be from now. Every attempt is signed anew, so late retries pass. */
  maxAgeSeconds?: number;
  brand?: string;
  /** Unix time in seconds. */
  now?: number;
}

type HeaderSource = Headers | Record<string, string | string[] | undefined>;

/**
 * The events of a genuine webhook request; throws `WebhookInvalid` for any other. `body` is the raw body, before JSON parsing.
 * Give the new and the old secret while you rotate them. Both signatures of the service are accepted: `Service-HMAC` and
 * those of Standard Webhooks. Ignore events of types that you do not know.
 */
export async function verifyWebhook(
  body: Uint8Array<ArrayBuffer> | string,
  headers: HeaderSource,
  secrets: string | readonly string[],
  options: VerifyOptions = {},
): Promise<WebhookEvent[]> {
  const raw = typeof body === "string" ? encode(body) : body;
  const known = (typeof secrets === "string" ? [secrets] : secrets).filter((secret) => secret !== "");
  if (known.length === 0) {
    throw new TypeError("No signing secret is given.");
  }
  const brand = options.brand ?? "Service";
  const own = header(headers, `${brand}-HMAC`);
  const standard = header(headers, "webhook-signature");
  if (own === null && standard === null) {
    throw new WebhookInvalid(`The request has neither ${brand}-HMAC nor webhook-signature.`);
  }
  const timestamp = own === null ? (header(headers, "webhook-timestamp") ?? "") : (values(own, "timestamp")[0] ?? "");
  if (!/^\d{1,12}$/.test(timestamp)) {
    throw new WebhookInvalid("The signature has no timestamp.");
  }
  const genuine =
    own === null
      ? await matchesStandard(header(headers, "webhook-id") ?? "", timestamp, standard ?? "", raw, known)
      : await matchesOwn(own, timestamp, raw, known);
  if (!genuine) {
    throw new WebhookInvalid("No signature fits: the secret is wrong, or the request is not from the service.");
  }
  const now = options.now ?? Date.now() / 1000;
  if (Math.abs(now - Number(timestamp)) > (options.maxAgeSeconds ?? 300)) {
    throw new WebhookInvalid("The signature is too old, or this clock is wrong.");
  }
  return parseEvents(raw);
}

/** The events of a body that was verified before. */
export function parseEvents(body: Uint8Array | string): WebhookEvent[] {
  let delivery: Partial<WebhookDelivery> | null;
  try {
    delivery = JSON.parse(typeof body === "string" ? body : new TextDecoder().decode(body)) as Partial<WebhookDelivery> | null;
  } catch (error) {
    throw new WebhookInvalid("The body is not JSON.", { cause: error });
  }
  if (!Array.isArray(delivery?.events)) {
    throw new WebhookInvalid("The body has no events.");
  }
  return delivery.events;
}

/** `timestamp=…,organisation=…,v1=…`, with one `v1` for each valid secret. The key is the whole secret. */
function matchesOwn(text: string, timestamp: string, body: Uint8Array, secrets: readonly string[]): Promise<boolean> {
  const given = values(text, "v1").map(fromHex);
  return anyMatches(given, secrets.map(encode), concatenated(`${timestamp}.`, body));
}

/** `v1,…` for each valid secret, separated by spaces. Older secrets have no key for it. */
function matchesStandard(
  id: string,
  timestamp: string,
  text: string,
  body: Uint8Array,
  secrets: readonly string[],
): Promise<boolean> {
  const given = text.split(" ").map((part) => (part.startsWith("v1,") ? fromBase64(part.slice(3)) : null));
  const keys = secrets.map((secret) => (secret.startsWith(PREFIX) ? fromBase64(secret.slice(PREFIX.length)) : null));
  return anyMatches(given, keys, concatenated(`${id}.${timestamp}.`, body));
}

type Bytes = Uint8Array<ArrayBuffer>;

async function anyMatches(signatures: (Bytes | null)[], keys: (Bytes | null)[], message: Bytes): Promise<boolean> {
  let found = false;
  for (const raw of keys) {
    if (raw === null || raw.length === 0) {
      continue;
    }
    const key = await crypto.subtle.importKey("raw", raw, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
    for (const signature of signatures) {
      // WebCrypto compares in constant time.
      found = (signature !== null && (await crypto.subtle.verify("HMAC", key, signature, message))) || found;
    }
  }
  return found;
}

function header(headers: HeaderSource, name: string): string | null {
  if (headers instanceof Headers) {
    return headers.get(name);
  }
  const found = Object.entries(headers).find(([key]) => key.toLowerCase() === name.toLowerCase())?.[1];
  return Array.isArray(found) ? (found[0] ?? null) : (found ?? null);
}

function values(text: string, name: string): string[] {
  const pairs = text.split(",").map((part) => part.trim());
  return pairs.filter((pair) => pair.startsWith(`${name}=`)).map((pair) => pair.slice(name.length + 1));
}

function encode(text: string): Bytes {
  return new TextEncoder().encode(text) as Bytes;
}

function concatenated(prefix: string, body: Uint8Array): Bytes {
  const first = encode(prefix);
  const whole = new Uint8Array(first.length + body.length);
  whole.set(first);
  whole.set(body, first.length);
  return whole;
}

function fromHex(text: string): Bytes | null {
  return /^([0-9a-f]{2})+$/.test(text) ? Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16)) : null;
}

function fromBase64(text: string): Bytes | null {
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text)) {
    return null;
  }
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return null;
  }
}
