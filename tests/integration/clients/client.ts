// What a TypeScript user does with the generated types. It is compiled with --strict and run against a real service.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

type Order = components["schemas"]["Order"];
type WebhookEvent = components["schemas"]["WebhookEvent"];
type ErrorCode = components["schemas"]["ErrorCode"];

declare const process: { argv: string[] };
const [url, key] = process.argv.slice(2);
if (url === undefined || key === undefined) throw new Error("usage: client.js URL KEY");
const client = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${key}` } });

function must<T>(answer: { data?: T; error?: components["schemas"]["Error"] }): T {
  if (answer.data === undefined) throw new Error(answer.error?.error.message ?? "no content");
  return answer.data;
}

// Every event type has its case: the compiler refuses this function if one is missing.
function subject(event: WebhookEvent): string {
  switch (event.event_type) {
    case "order.received":
    case "order.placed":
    case "order.paid":
    case "order.payment_updated":
    case "order.person_erased":
    case "order.reduced":
    case "order.released":
    case "order.retiring":
    case "order.cancelled":
    case "order.failed":
      return event.data.order.id;
    case "order.completed":
      return event.data.order.certificate ?? "";
    case "allocation.new":
    case "allocation.retired":
      return event.data.allocation.id;
    case "invoice.issued":
    case "invoice.overdue":
    case "invoice.paid":
    case "invoice.credited":
    case "invoice.cancelled":
      return event.data.invoice.id;
    case "refund.requested":
    case "refund.succeeded":
    case "refund.failed":
    case "refund.cancelled":
      return event.data.refund.id;
    case "certificate.replaced":
      return event.data.certificate.number;
    case "webhook.test":
      return event.data.message;
    default: {
      const unknown: never = event;
      return unknown;
    }
  }
}

function mistakes(order: Order, code: ErrorCode): void {
  // @ts-expect-error There is no such status.
  if (order.status === "done") return;
  // @ts-expect-error There is no such error.
  if (code === "no_such_error") return;
  // @ts-expect-error The unit is not one of g, kg and t.
  void client.POST("/v1/orders/by-mass", { body: { mass: { amount: "1", unit: "lb" } } });
  // @ts-expect-error An amount is a string: a number would be rounded.
  void client.POST("/v1/orders/by-mass", { body: { mass: { amount: 0.3, unit: "kg" } } });
}
void mistakes;

async function complete(id: string): Promise<Order> {
  const until = Date.now() + 60_000;
  for (;;) {
    const order = must(await client.GET("/v1/orders/{order_id}", { params: { path: { order_id: id } } }));
    if (order.status === "complete") return order;
    if (Date.now() > until) throw new Error(`the order is still ${order.status}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

// All optional fields are left out.
const plain = must(await client.POST("/v1/orders/by-value", { body: { value: "50.00" } }));
const tagged = must(
  await client.POST("/v1/orders/by-mass", {
    body: {
      mass: { amount: "1.5", unit: "t" },
      idempotency_key: `typescript ${Date.now()}`,
      metadata: { invoice: "A-17", nested: { cost_centre: 4711 } },
    },
  }),
);
const order = await complete(tagged.id);
const pdf = must(
  await client.GET("/v1/orders/{order_id}/certificate", {
    params: { path: { order_id: order.id } },
    parseAs: "arrayBuffer",
  }),
);
const first = must(await client.GET("/v1/orders", { params: { query: { limit: "1" } } }));
const second = must(
  await client.GET("/v1/orders", { params: { query: { limit: "1", after: first.next_cursor ?? "" } } }),
);
const events = must(await client.GET("/v1/events", { params: { query: { order: "asc", limit: "100" } } }));
const refused = await client.GET("/v1/orders/{order_id}", { params: { path: { order_id: "ord_unknown" } } });
const code: ErrorCode | undefined = refused.error?.error.error_code;

console.log(
  JSON.stringify({
    plain: plain.requested_value,
    invoice: order.metadata["invoice"],
    projects: order.projects.map((project) => project.status),
    pdf: new TextDecoder().decode(pdf.slice(0, 5)),
    pages: [...first.data, ...second.data].map((each) => each.id),
    expected: [tagged.id, plain.id],
    certificate: events.data.filter((each) => each.event_type === "order.completed").map(subject),
    subjects: events.data.map(subject).length,
    code,
    request: refused.response.headers.get("X-Request-Id"),
  }),
);
