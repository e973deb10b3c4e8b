// A receiver of Tonne's webhooks with Node 22.13 or newer: verifies, stores, responds, and handles the events afterwards.
//
//   npm install tonne-client
//   WEBHOOK_SECRETS=whsec_... node receiver.mjs
//
// Give both secrets, separated by a space, while you rotate them. TLS_CERT and TLS_KEY name PEM files, to serve https without
// a proxy.

import { readFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import { DatabaseSync } from "node:sqlite";
import { WebhookInbox, WebhookInvalid, verifyWebhook } from "tonne-client";

const { WEBHOOK_SECRETS = "", INBOX_FILE = "inbox.db", PORT = "9000", TLS_CERT, TLS_KEY } = process.env;
const secrets = WEBHOOK_SECRETS.split(" ").filter(Boolean);
// Larger than any request of Tonne: nobody can fill the memory.
const MAX_BYTES = 1_000_000;

/** Events in a file of SQLite: they survive a crash. */
class SqliteStore {
  #database = new DatabaseSync(INBOX_FILE);

  constructor() {
    this.#database.exec(`
      PRAGMA journal_mode = WAL;
      PRAGMA synchronous = FULL;
      CREATE TABLE IF NOT EXISTS inbox (
        event_id TEXT PRIMARY KEY, account_id TEXT NOT NULL, sequence TEXT NOT NULL, json TEXT NOT NULL,
        failures INTEGER NOT NULL DEFAULT 0, due REAL NOT NULL DEFAULT 0, finished INTEGER NOT NULL DEFAULT 0);
      CREATE INDEX IF NOT EXISTS unfinished ON inbox (account_id, sequence) WHERE finished = 0`);
  }

  add(events) {
    const insert = this.#database.prepare(
      "INSERT INTO inbox (event_id, account_id, sequence, json) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
    );
    this.#database.exec("BEGIN IMMEDIATE");
    try {
      const counts = events.map((event) =>
        Number(insert.run(event.event_id, event.account_id, event.sequence, JSON.stringify(event)).changes),
      );
      this.#database.exec("COMMIT");
      return counts.reduce((sum, count) => sum + count, 0);
    } catch (error) {
      this.#database.exec("ROLLBACK");
      throw error;
    }
  }

  claim(now, leaseMs) {
    const row = this.#database
      .prepare(
        `UPDATE inbox SET due = ? WHERE event_id = (
           SELECT event_id FROM inbox AS first WHERE finished = 0 AND due <= ? AND NOT EXISTS (
             SELECT 1 FROM inbox AS earlier WHERE earlier.account_id = first.account_id
               AND earlier.finished = 0 AND earlier.sequence < first.sequence)
           ORDER BY sequence LIMIT 1)
         RETURNING json, failures`,
      )
      .get(now + leaseMs, now);
    return row === undefined ? null : { event: JSON.parse(row.json), failures: row.failures };
  }

  finish(eventId) {
    this.#database.prepare("UPDATE inbox SET finished = 1 WHERE event_id = ?").run(eventId);
  }

  retry(eventId, at) {
    this.#database.prepare("UPDATE inbox SET failures = failures + 1, due = ? WHERE event_id = ?").run(at, eventId);
  }
}

/** Replace this by what your system does. It may be called twice for an event, if the process dies meanwhile. */
function handle(event) {
  if (event.event_type.startsWith("order.")) {
    console.log(event.event_type, event.data.order.id);
  }
}

const inbox = new WebhookInbox(new SqliteStore());

async function readBody(request) {
  const parts = [];
  let length = 0;
  for await (const part of request) {
    length += part.length;
    if (length > MAX_BYTES) {
      throw new WebhookInvalid("The body is too large.");
    }
    parts.push(part);
  }
  return Buffer.concat(parts);
}

async function receive(request, response) {
  try {
    // The raw body: parsing and writing it again would change the bytes that were signed.
    await inbox.receive(await verifyWebhook(await readBody(request), request.headers, secrets));
    response.writeHead(204).end();
  } catch (error) {
    const isRefused = error instanceof WebhookInvalid;
    console.error(isRefused ? error.message : error);
    response.writeHead(isRefused ? 401 : 500).end();
  }
}

async function handleForEver() {
  const errors = await inbox.process(handle);
  errors.forEach((error) => console.error(error));
  setTimeout(handleForEver, 200);
}

const tls = TLS_CERT && TLS_KEY ? { cert: readFileSync(TLS_CERT), key: readFileSync(TLS_KEY) } : null;
const server = tls ? https.createServer(tls, receive) : http.createServer(receive);
server.listen(Number(PORT), () => console.log(`Listening on port ${PORT}`));
handleForEver();
