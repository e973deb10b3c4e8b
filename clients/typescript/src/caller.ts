import { ConnectionFailed, TimedOut, TonneError, UnexpectedResponse, apiError } from "./errors.ts";
import { type Page, Pages } from "./pages.ts";

export const VERSION = "0.1.0";
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8_000;
/** A longer `Retry-After` is left to the caller. */
const LONGEST_RETRY_AFTER_MS = 60_000;
const PAGE_SIZE = 100;
/** The service, or a proxy in front of it, failed or is not available for a moment. */
const TRY_AGAIN = new Set([408, 429, 500, 502, 503, 504]);
/** The request was refused before anything was done. */
const REFUSED = new Set([408, 429]);
/** Codes of Node for connections that were not made. Browsers do not say why a request failed. */
const NOT_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"]);

export interface ClientOptions {
  apiKey: string;
  baseUrl: string;
  /** The account to act for, if it is not the one of the key. */
  account?: string;
  /** Of each attempt. */
  timeoutMs?: number;
  /** The attempts after the first one. */
  maxRetries?: number;
  /** The beginning of the service's own headers, `Service` unless the operator changed it. */
  brand?: string;
  fetch?: typeof fetch;
}

/** What a single call can change. */
export interface CallOptions {
  account?: string;
  timeoutMs?: number;
  maxRetries?: number;
  signal?: AbortSignal;
}

/** What a call that creates something can change. */
export interface CreateOptions extends CallOptions {
  /** Instead of one that the client makes. A key in the body has priority. */
  idempotencyKey?: string;
}

/**
 * When a request may be sent again. `always`: it changes nothing, or sets a state. `key`, `items`: it carries an idempotency
 * key, or each of its items does; those that are missing are made once, so that every attempt has the same. `header`:
 * likewise, with the key in the header `Idempotency-Key`. `delete`: always, and if a repeated one finds nothing, the first
 * one was successful. `never`: only if it had no effect.
 */
export type Repeat = "always" | "never" | "delete" | "key" | "header" | "items";

export interface CallRequest {
  query?: object;
  body?: unknown;
  files?: object;
  repeat?: Repeat;
  returns?: "json" | "file" | "nothing";
}

/** A parameter of a path, encoded. */
export function segment(name: string, value: string): string {
  if (value === "" || value === "." || value === "..") {
    throw new TypeError(`${name} must not be "${value}".`);
  }
  return encodeURIComponent(value);
}

/** Sends calls until they succeed or must not be repeated. */
export class Caller {
  readonly #options: ClientOptions;
  readonly #baseUrl: string;

  constructor(options: ClientOptions) {
    if (!options.apiKey) {
      throw new TypeError("No API key: pass apiKey.");
    }
    this.#options = options;
    // The paths of all operations begin with /v1.
    this.#baseUrl = options.baseUrl.replace(/\/+$/, "").replace(/\/v1$/, "");
  }

  /** Send a request, with retries, and return the body. Also for routes that the library lacks. */
  async call<T>(method: string, path: string, request: CallRequest = {}, options: CreateOptions = {}): Promise<T> {
    const response = await this.#send(method, path, request, { ...this.#options, ...options });
    if (request.returns === "nothing") {
      await response.body?.cancel();
      return undefined as T;
    }
    if (request.returns === "file") {
      return (await response.arrayBuffer()) as T;
    }
    try {
      return (await response.json()) as T;
    } catch (error) {
      throw new UnexpectedResponse(`The response with the status ${response.status} is not JSON. Check baseUrl.`, { cause: error });
    }
  }

  pages<T>(path: string, query: object, options: CallOptions = {}): Pages<T> {
    return new Pages((cursor) => {
      const after = cursor === undefined ? {} : { after: cursor };
      return this.call<Page<T>>("GET", path, { query: { limit: PAGE_SIZE, ...defined(query), ...after } }, options);
    });
  }

  async #send(method: string, path: string, request: CallRequest, options: ClientOptions & CreateOptions): Promise<Response> {
    const repeat = withGivenKey(request.repeat ?? (method === "POST" ? "never" : "always"), options, `${method} ${path}`);
    const url = this.#baseUrl + path + queryString(request.query);
    const init = this.#init(method, request, repeat, options);
    const maxRetries = options.maxRetries ?? 5;
    for (let attempt = 0; ; attempt++) {
      let waitMs: number;
      try {
        const response = await this.#attempt(url, init, options);
        if (response.ok || (repeat === "delete" && response.status === 404 && attempt > 0)) {
          return response;
        }
        waitMs = await waitAfterResponse(response, repeat, attempt < maxRetries);
      } catch (error) {
        waitMs = waitAfterFailure(error, repeat, attempt < maxRetries, options.signal, `${method} ${path}`);
      }
      await sleep(Math.max(waitMs, backOff(attempt)), options.signal);
    }
  }

  #init(method: string, request: CallRequest, repeat: Repeat, options: ClientOptions & CreateOptions): RequestInit {
    const headers: Record<string, string> = {
      Authorization: `Bearer ${this.#options.apiKey}`,
      "User-Agent": `tonne-client-typescript/${VERSION}`,
    };
    if (options.account !== undefined) {
      headers[`${options.brand ?? "Service"}-Account`] = options.account;
    }
    if (repeat === "header") {
      headers["Idempotency-Key"] = options.idempotencyKey ?? newKey();
    }
    const init: RequestInit = { method, headers, redirect: "manual" };
    if (request.files !== undefined) {
      const form = new FormData();
      for (const [name, file] of Object.entries(request.files)) {
        form.append(name, file as Blob);
      }
      init.body = form;
    } else if (request.body !== undefined) {
      headers["Content-Type"] = "application/json";
      init.body = JSON.stringify(withKeys(request.body, repeat, options.idempotencyKey));
    }
    return init;
  }

  #attempt(url: string, init: RequestInit, options: ClientOptions & CreateOptions): Promise<Response> {
    const timeout = AbortSignal.timeout(options.timeoutMs ?? 30_000);
    const signal = options.signal === undefined ? timeout : AbortSignal.any([timeout, options.signal]);
    return (options.fetch ?? fetch)(url, { ...init, signal });
  }
}

/** Returns how long the service asks to wait, or throws the error that the response describes. */
async function waitAfterResponse(response: Response, repeat: Repeat, hasRetry: boolean): Promise<number> {
  const retryAfterMs = retryAfter(response.headers.get("Retry-After"));
  const document: unknown = await response.json().catch(() => null);
  const error = apiError(response.status, document, response.headers.get("X-Request-Id"), retryAfterMs);
  const isRefused = REFUSED.has(response.status) || (error as { code?: string }).code === "service_held";
  const isRepeatable = TRY_AGAIN.has(response.status) && (repeat !== "never" || isRefused);
  if (!hasRetry || !isRepeatable || (retryAfterMs ?? 0) > LONGEST_RETRY_AFTER_MS) {
    throw error;
  }
  return retryAfterMs ?? 0;
}

/** Returns 0, or throws the error if the request must not be sent again. */
function waitAfterFailure(error: unknown, repeat: Repeat, hasRetry: boolean, signal: AbortSignal | undefined, what: string): number {
  // An error of this library, or the caller has given up.
  if (error instanceof TonneError || signal?.aborted) {
    throw error;
  }
  const code = (error as { cause?: { code?: string } }).cause?.code ?? "";
  if (hasRetry && (repeat !== "never" || NOT_SENT.has(code))) {
    return 0;
  }
  const kind = (error as Error).name === "TimeoutError" ? TimedOut : ConnectionFailed;
  throw new kind(`${what} failed: ${code || (error as Error).message}`, { cause: error });
}

/** Exponential, with jitter: clients that failed together must not come back together. */
function backOff(attempt: number): number {
  return Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** attempt) * (0.5 + Math.random() / 2);
}

function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** `Retry-After` in milliseconds: the header has a number of seconds or a date. */
function retryAfter(text: string | null): number | null {
  if (text === null) {
    return null;
  }
  const seconds = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now();
  return Number.isNaN(seconds) ? null : Math.max(0, seconds);
}

/** With a key for the whole request, the service makes those of the items from it. */
function withGivenKey(repeat: Repeat, options: CreateOptions, what: string): Repeat {
  if (options.idempotencyKey !== undefined && !["key", "header", "items"].includes(repeat)) {
    throw new TypeError(`${what} takes no idempotencyKey: it creates nothing.`);
  }
  return options.idempotencyKey !== undefined && repeat === "items" ? "header" : repeat;
}

type Keyed = { idempotency_key?: string | null };

/** The body with the idempotency keys that are missing. */
function withKeys(body: unknown, repeat: Repeat, given: string | undefined): unknown {
  if (repeat === "key") {
    return withKey(body as Keyed, given);
  }
  return repeat === "items" ? (body as Keyed[]).map((item) => withKey(item)) : body;
}

function withKey<T extends Keyed>(body: T, given?: string): T {
  return body.idempotency_key ? body : { ...body, idempotency_key: given ?? newKey() };
}

function newKey(): string {
  return `auto-${crypto.randomUUID()}`;
}

function defined(values: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}

function queryString(query: object | undefined): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(defined(query ?? {}))) {
    if (Array.isArray(value)) {
      value.forEach((entry) => parameters.append(name, String(entry)));
    } else if (typeof value === "object" && value !== null) {
      Object.entries(value).forEach(([key, entry]) => parameters.append(`${name}[${key}]`, String(entry)));
    } else if (value !== null) {
      parameters.append(name, String(value));
    }
  }
  const text = parameters.toString();
  return text && `?${text}`;
}
