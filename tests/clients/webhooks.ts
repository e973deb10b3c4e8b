// Verifies the requests of a JSON file with the TypeScript client, and prints the number of events, or why each is invalid.
import { MemoryStore, WebhookInbox, WebhookInvalid, type models, verifyWebhook } from "tonne-client";
import { readFileSync } from "node:fs";

interface Case {
  body: string;
  headers: Record<string, string>;
  secrets: string[];
  now: number;
}

const cases = JSON.parse(readFileSync(process.argv[2] ?? "", "utf-8")) as Case[];
const results: (number | string)[] = [];
for (const { body, headers, secrets, now } of cases) {
  try {
    results.push((await verifyWebhook(new TextEncoder().encode(body), new Headers(headers), secrets, { now })).length);
  } catch (error) {
    results.push(error instanceof WebhookInvalid ? error.message : String(error));
  }
}

const event = (number: number, account: string) =>
  ({ event_id: `${account}${number}`, account_id: account, sequence: String(number), event_type: "order.placed" }) as models.WebhookEvent;
const inbox = new WebhookInbox(new MemoryStore());
const handled: string[] = [];
const counts = [await inbox.receive([event(2, "a"), event(1, "a"), event(1, "b")]), await inbox.receive([event(1, "a"), event(3, "a")])];
let errors = await inbox.process((each) => {
  if (each.event_id === "a2") {
    throw new Error("no");
  }
  handled.push(each.event_id);
});
console.log(JSON.stringify({ results, counts, handled, errors: errors.length }));
