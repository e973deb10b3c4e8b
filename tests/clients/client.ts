// Uses the TypeScript client with a running service. Prints one JSON document: what it saw, and every request and response.
import { NotFound, Client, ApiError, ConnectionFailed, type CreateOptions, TimedOut, type models } from "tonne-client";

const [baseUrl = "", apiKey = ""] = process.argv.slice(2);
const exchanges: object[] = [];
const lost = new Set<string>();
let isLosing = false;
let isSlow = false;

/** Records all requests and responses. While `isLosing`, the first response to each request is lost; while `isSlow`, requests wait. */
async function recording(input: string | URL | Request, init: RequestInit = {}): Promise<Response> {
  if (isSlow) {
    await new Promise((resolve) => setTimeout(resolve, 500));
    init.signal?.throwIfAborted();
  }
  const response = await fetch(input, init);
  const bytes = new Uint8Array(await response.arrayBuffer());
  const contentType = response.headers.get("Content-Type") ?? "";
  const text = contentType.startsWith("application/json") ? new TextDecoder().decode(bytes) : "";
  const headers = init.headers as Record<string, string>;
  exchanges.push({ method: init.method, url: String(input), headers, body: init.body ?? "", status: response.status, contentType, text });
  const id = `${String(input)} ${String(init.body)}`;
  if (isLosing && !lost.has(id)) {
    lost.add(id);
    throw new TypeError("fetch failed", { cause: { code: "ECONNRESET" } });
  }
  return new Response(bytes.length === 0 ? null : bytes, response);
}

const client = new Client({ baseUrl, apiKey, fetch: recording });
const order: models.Order = await client.orders.createByMass({ mass: { amount: "1.5", unit: "t" }, metadata: { from: "typescript" } });
for (let count = 0; count < 4; count++) {
  await client.orders.createByValue({ value: "25.00" });
}
const listed: string[] = [];
for await (const each of client.orders.list({ limit: 2 })) {
  listed.push(each.id);
}
let error: ApiError | undefined;
try {
  await client.orders.retrieve("ord_unknown");
} catch (caught) {
  error = caught instanceof NotFound ? caught : undefined;
}
isLosing = true;
const placed = await client.orders.createByMass({ mass: { amount: "2", unit: "t" }, metadata: { scene: "lost in typescript" } });
const webhook = await client.webhooks.create({ url: "https://127.0.0.1:9/hook" });
const released = await client.orders.release(placed.id).catch((caught: unknown) => caught);
isLosing = false;
const found: string[] = [];
for await (const each of client.orders.list()) {
  if (each.metadata["scene"] === "lost in typescript") {
    found.push(each.id);
  }
}
const events = (await client.events.list({ order: "asc" }).page()).data;
const first = events.find((event) => event.event_type === "order.placed");
const hooks = await client.webhooks.list();
await client.webhooks.delete(webhook.id);
// Options of one call.
const other = (await client.accounts.createClient({ name: "Made in TypeScript", currency: "EUR" })).id;
const keyed: CreateOptions = { account: other, idempotencyKey: "typescript" };
const twice: models.Order[] = [];
for (let count = 0; count < 2; count++) {
  twice.push(await client.orders.createByMass({ mass: { amount: "3", unit: "kg" } }, keyed));
}
const theirs = (await client.orders.list({}, { account: other }).page()).data.map((each) => each.id);
isSlow = true;
const late = await client.account.retrieve({ timeoutMs: 50, maxRetries: 0 }).catch((caught: unknown) => caught);
isSlow = false;
const refused = await client.orders.release(order.id, keyed).catch((caught: unknown) => caught);
const shown = {
  once: twice[0]?.id === twice[1]?.id,
  acted: theirs.includes(twice[0]?.id ?? "") && !theirs.includes(order.id),
  late: late instanceof TimedOut,
  refused: refused instanceof TypeError && refused.message,
  order: order.id,
  total: order.total_cost,
  listed,
  code: error?.code,
  requestId: error?.requestId,
  lost: found.length === 1 && found[0] === placed.id,
  registered: hooks.map((hook) => hook.id).join() === webhook.id && webhook.secret?.length,
  released: released instanceof ConnectionFailed ? "not repeated" : "repeated",
  first: first?.data.order.status,
  account: (await client.account.retrieve()).name,
  bundles: (await client.bundles.list().page()).data.length,
};
console.log(JSON.stringify({ shown, exchanges }));
