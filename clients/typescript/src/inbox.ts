import type { WebhookEvent } from "./models.ts";

const FIRST_RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 300_000;

/** Where an inbox keeps its events. Times are Unix times in milliseconds. Methods are atomic, and durable when they return. */
export interface InboxStore {
  /** Store the events whose id is not stored, all or none, and return their number. */
  add(events: readonly WebhookEvent[]): number | Promise<number>;
  /**
   * The unfinished event with the lowest `sequence` of an account that is due, claimed until `now + leaseMs`. While it is
   * claimed or waits for a retry, no other event of its account is returned.
   */
  claim(now: number, leaseMs: number): Claimed | null | Promise<Claimed | null>;
  finish(eventId: string): void | Promise<void>;
  /** End the claim, count the failure, and return the event again at that time. */
  retry(eventId: string, at: number): void | Promise<void>;
}

export interface Claimed {
  event: WebhookEvent;
  failures: number;
}

/**
 * Stores events before the response, ignores duplicates, and handles the events of an account one after the other, in order.
 * If the function fails, the event is tried again later and the following ones of its account wait. An event is handled at
 * least once: make its effect idempotent by the event id. The function must not take longer than `leaseMs`.
 */
export class WebhookInbox {
  readonly #store: InboxStore;
  readonly #leaseMs: number;

  constructor(store: InboxStore, options: { leaseMs?: number } = {}) {
    this.#store = store;
    this.#leaseMs = options.leaseMs ?? 60_000;
  }

  /** Store events of `verifyWebhook`, and return how many are new. Respond with 2xx afterwards. */
  async receive(events: readonly WebhookEvent[]): Promise<number> {
    return this.#store.add(events);
  }

  /** Call the function for all events that are due. Returns the errors of those that will be tried again. */
  async process(handle: (event: WebhookEvent) => unknown): Promise<unknown[]> {
    const errors: unknown[] = [];
    for (;;) {
      const claimed = await this.#store.claim(Date.now(), this.#leaseMs);
      if (claimed === null) {
        return errors;
      }
      const { event, failures } = claimed;
      try {
        await handle(event);
      } catch (error) {
        errors.push(error);
        await this.#store.retry(event.event_id, Date.now() + Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** failures));
        continue;
      }
      await this.#store.finish(event.event_id);
    }
  }
}

interface Entry extends Claimed {
  due: number;
  isFinished: boolean;
}

/** For tests and for processes that may forget: nothing is kept when the process ends. */
export class MemoryStore implements InboxStore {
  readonly #entries = new Map<string, Entry>();

  add(events: readonly WebhookEvent[]): number {
    const fresh = new Map(events.filter((event) => !this.#entries.has(event.event_id)).map((event) => [event.event_id, event]));
    for (const event of fresh.values()) {
      this.#entries.set(event.event_id, { event, failures: 0, due: 0, isFinished: false });
    }
    return fresh.size;
  }

  claim(now: number, leaseMs: number): Claimed | null {
    const first = new Map<string, Entry>();
    for (const entry of this.#entries.values()) {
      const other = first.get(entry.event.account_id);
      if (!entry.isFinished && (other === undefined || entry.event.sequence < other.event.sequence)) {
        first.set(entry.event.account_id, entry);
      }
    }
    const due = [...first.values()].find((entry) => entry.due <= now);
    if (due === undefined) {
      return null;
    }
    due.due = now + leaseMs;
    return due;
  }

  finish(eventId: string): void {
    const entry = this.#entries.get(eventId);
    if (entry !== undefined) {
      entry.isFinished = true;
    }
  }

  retry(eventId: string, at: number): void {
    const entry = this.#entries.get(eventId);
    if (entry !== undefined) {
      entry.failures += 1;
      entry.due = at;
    }
  }
}
