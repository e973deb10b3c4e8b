/** One page of a list. `next_cursor` is the `after` of the next one; null at the end. */
export interface Page<T> {
  data: T[];
  has_more: boolean;
  next_cursor: string | null;
}

/** A list of the API: `for await (const order of client.orders.list())` walks all pages. Each iteration starts anew. */
export class Pages<T> implements AsyncIterable<T> {
  readonly #fetch: (cursor: string | undefined) => Promise<Page<T>>;

  constructor(fetch: (cursor: string | undefined) => Promise<Page<T>>) {
    this.#fetch = fetch;
  }

  /** The first page, or the one at this cursor: one request. */
  page(cursor?: string): Promise<Page<T>> {
    return this.#fetch(cursor);
  }

  async *[Symbol.asyncIterator](): AsyncIterator<T> {
    let page = await this.page();
    yield* page.data;
    while (page.has_more && page.next_cursor !== null) {
      page = await this.page(page.next_cursor);
      yield* page.data;
    }
  }
}
